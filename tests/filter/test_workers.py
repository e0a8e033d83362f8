"""Workers beside `filter`: they change no output, whichever is killed and whenever."""

import os
import signal
import threading
from itertools import count
from pathlib import Path

import pytest

from streamfilter.files.engine import some_ahead
from streamfilter.workers.handle import Handle
from tests.filter.conftest import Desk
from tests.filter.stories import lines_of, stories, write
from tests.filter.test_state import kill

BATCH = "batch.documents=300"
"""Of 120 kB: each is cut for two workers."""


@pytest.fixture
def source(desk: Desk) -> Path:
    return write(desk.path / "in", [b"{", *lines_of(stories(900)), b"", b"\xff"])


@pytest.fixture
def expected(desk: Desk, source: Path) -> tuple[bytes, ...]:
    assert desk.run(source, workers=0, set=BATCH) == 0
    outputs = desk.outputs
    desk.clear()
    return outputs


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the processes that read and sketched, one for each part."""
    found: list[int] = []
    ask = Handle.ask

    def noted(self, question):
        found.append(self.pid)
        return ask(self, question)

    monkeypatch.setattr(Handle, "ask", noted)
    return found


@pytest.mark.slow
def test_workers_change_no_output_and_no_index(desk, source, expected, asked):
    assert desk.run(source, state="s", workers=2, set=BATCH) == 0
    assert desk.outputs == expected
    assert len(asked) == 6
    assert 1 <= len(set(asked)) <= 2
    desk.clear()
    assert desk.run(source, state="s", workers=0, set=BATCH) == 0  # as of its own time
    assert desk.outputs == expected


@pytest.mark.slow
def test_workers_that_are_killed_cost_no_record(desk, source, expected, asked, monkeypatch, capsys):
    number, ask = count(), Handle.ask

    def struck(self, question):
        if next(number) in (1, 2, 3, 6):  # also the next one that is asked: then it is done here
            os.kill(self.pid, signal.SIGKILL)
        return ask(self, question)

    monkeypatch.setattr(Handle, "ask", struck)
    assert desk.run(source, workers=2, set=BATCH) == 0
    assert desk.outputs == expected
    assert capsys.readouterr().err.count("a worker failed: it was killed by signal 9") == 4


@pytest.mark.slow
def test_a_filter_that_is_killed_with_its_workers_is_run_again(forge, desk, source, expected):
    arguments = [*desk.arguments(source, state="s", workers=2), "--set", BATCH]
    kill(forge, desk, "index.applied:2", *arguments)
    assert desk.run(source, state="s", workers=2, set="batch.documents=500") == 0
    assert desk.outputs == expected


@pytest.mark.slow
def test_trouble_with_reading_ahead_comes_in_its_turn(desk: Desk, source: Path) -> None:
    """A broken line in the next batch must not keep this one from being judged and remembered."""
    lines = lines_of(stories(700))
    broken = write(desk.path / "broken", [*lines[:500], b"{", *lines[500:]])
    assert desk.run(broken, state="s", workers=2, dead_letter=False, set=BATCH) == 65
    assert not desk.unique.exists()
    mended = write(desk.path / "broken", lines)
    assert desk.run(mended, state="s", workers=2, dead_letter=False, set=BATCH) == 0
    kept = (desk.unique.read_bytes(), desk.duplicates.read_bytes())
    assert desk.run(mended, workers=0, dead_letter=False) == 0
    assert kept == (desk.unique.read_bytes(), desk.duplicates.read_bytes())


def test_two_batches_are_prepared_while_one_is_judged() -> None:
    """So that no worker waits for the slowest of them, or for the judge."""
    both = threading.Barrier(2)

    def make(number: int) -> int:
        if number in (1, 2):
            both.wait(timeout=60)  # breaks if the second one does not come meanwhile
        return -number

    assert [(each, made()) for each, made in some_ahead(range(5), make)] == [
        (each, -each) for each in range(5)
    ]
