"""A store that never answers: the filter goes on, says so, and restores from the changelog."""

from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, TypeVar

import pytest

from streamfilter.engine.ports import NotReady, Watermarks
from streamfilter.process.health import State
from streamfilter.tasks.index_backups import LISTED_SECONDS, IndexBackups

T = TypeVar("T")


@dataclass
class Hanging:
    """`ports.Worker` and clock: no call ends, and each question takes ten seconds."""

    now: float = 0.0
    begun: int = 0
    said: list[str] = field(default_factory=list)

    def begin(self, call: Callable[[], T]) -> Callable[[], T]:
        self.begun += 1

        def result() -> T:
            self.now += 10.0
            raise NotReady

        return result

    def monotonic(self) -> float:
        return self.now

    def loudly(self, message: str) -> None:
        self.said.append(message)

    def failed(self, task: str, reason: str, message: str) -> None:
        self.said.append(f"{task} {reason}: {message}")


def backups(hanging: Hanging) -> IndexBackups:
    target: Any = SimpleNamespace(where="s3://bucket", candidates=lambda index_id: None)
    plan: Any = SimpleNamespace(label="task 0")
    process = SimpleNamespace(clock=hanging, loudly=hanging.loudly, note=hanging.loudly)
    shown: Any = SimpleNamespace(process=process, failed=hanging.failed)
    return IndexBackups(plan, target, shown, hanging)


def test_a_start_waits_two_minutes_for_the_list_and_says_what_it_waits_for() -> None:
    hanging = Hanging()
    identity: Any = SimpleNamespace(index_id="f" * 32)
    nothing: Any = None
    shown = list(backups(hanging).restore(identity, nothing, nothing, Watermarks(0, 9)))
    assert set(shown) == {
        (State.RESTORING, "waits up to 120 s for the list of backups in s3://bucket")
    }
    assert hanging.now == pytest.approx(LISTED_SECONDS, abs=10)
    assert hanging.said == [
        "task 0 is restored from the changelog alone, because the backups cannot be listed: "
        "s3://bucket has not listed its backups for 120 s"
    ]


def test_a_look_up_that_hangs_is_one_failure_and_no_second_thread() -> None:
    """Without a failure the time of the last backup stays unknown, and no alert fires."""
    hanging = Hanging()
    one, index = backups(hanging), SimpleNamespace()
    for _ in range(50):
        one.tick(index, "f" * 32)  # type: ignore[arg-type]
    assert hanging.said == ["task 0 unreachable: s3://bucket has not listed its backups for 120 s"]
    assert hanging.begun == 1
