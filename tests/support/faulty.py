"""`streamfilter run` with one thing broken: ``python -m tests.support.faulty FAULT run …``."""

from __future__ import annotations

import ctypes
import json
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any

from streamfilter.cli import main
from streamfilter.kafka.membership import GroupMembership
from streamfilter.kafka.source import KafkaSource
from streamfilter.model import Record
from streamfilter.process.child import Child
from tests.support.filter_process import FilterProcess
from tests.support.stage import Stage


def silent_consumer() -> None:
    """After its first records the data consumer fetches nothing more, and says nothing."""
    real = KafkaSource.consume

    def consume(self: KafkaSource, count: int, timeout: float) -> list[Record]:
        found = real(self, count, timeout)
        if found:
            self._data.consumer.pause(self._data.consumer.assignment())
        return found

    KafkaSource.consume = consume  # type: ignore[method-assign]


def hanging_callback() -> None:
    """The callback of an assignment never returns."""
    GroupMembership._on_assign = lambda *_: threading.Event().wait()  # type: ignore[method-assign]


def hanging_with_the_lock() -> None:
    """The same, inside a library that keeps the interpreter's lock: no thread of ours runs."""
    GroupMembership._on_assign = lambda *_: ctypes.PyDLL(None).sleep(600)  # type: ignore[method-assign]


FAULTS: dict[str, Callable[[], None]] = {
    each.__name__: each for each in (silent_consumer, hanging_callback, hanging_with_the_lock)
}


class FaultyProcess(FilterProcess):
    """A `FilterProcess` that runs this module."""

    def __init__(self, stage: Stage, fault: str, **sections: Mapping[str, Any]) -> None:
        config = stage.configuration(**sections)
        self.url = f"http://127.0.0.1:{json.loads(config.read_text())['http']['port']}"
        self.log = config.with_suffix(".log")
        command = [sys.executable, "-m", "tests.support.faulty", fault, "run"]
        self.child = Child([*command, "--config", str(config)], log=self.log)
        stage.processes.append(self)


if __name__ == "__main__":
    FAULTS[sys.argv[1]]()
    sys.exit(main(sys.argv[2:]))
