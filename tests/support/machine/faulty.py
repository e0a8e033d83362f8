"""`streamfilter run` whose group callback hangs: ``python -m tests.support.machine.faulty …``."""

import ctypes
import json
import sys
from collections.abc import Mapping
from typing import Any

from streamfilter.cli import main
from streamfilter.demo.running_filter import Child
from streamfilter.kafka.ports.membership import GroupMembership
from tests.support.filter_process import FilterProcess
from tests.support.stage import Stage


def hanging_with_the_lock() -> None:
    """Let the callback of an assignment hang in a library that keeps the interpreter's lock."""
    GroupMembership._on_assign = lambda *_: ctypes.PyDLL(None).sleep(600)  # type: ignore[method-assign]


class FaultyProcess(FilterProcess):
    """A `FilterProcess` that runs this module."""

    def __init__(self, stage: Stage, **sections: Mapping[str, Any]) -> None:
        config = stage.configuration(**sections)
        self.url = f"http://127.0.0.1:{json.loads(config.read_text())['http']['port']}"
        self.log = config.with_suffix(".log")
        command = [sys.executable, "-m", "tests.support.machine.faulty"]
        self.child = Child([*command, "--config", str(config)], log=self.log)
        stage.processes.append(self)


if __name__ == "__main__":
    hanging_with_the_lock()
    sys.exit(main(["run", *sys.argv[1:]]))
