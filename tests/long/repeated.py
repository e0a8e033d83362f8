"""Rows again and again: `python -m tests.long.repeated --rows 28,33 --turns 10 --json F`.

For rows that one test holds whole, the long column is that test, run so many times: the tests
that README's "What happens when …" names for a row, in one pytest, one turn after another.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from streamfilter.bench.machine import machine, versions
from tests.test_fault_table import ROWS


@dataclass(slots=True, eq=False)
class Turns:
    """A plugin: runs every test so many times, and counts what came of each."""

    count: int
    passed: Counter[str] = field(default_factory=Counter)
    failed: list[str] = field(default_factory=list)

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Give each test a parameter that tells its turns apart."""
        metafunc.fixturenames.append("turn")
        metafunc.parametrize("turn", range(self.count), scope="session", ids="turn{}".format)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count a test when its call is over; a broken set-up or end is a failure too."""
        if report.failed or report.skipped:
            self.failed.append(report.nodeid)
        elif report.when == "call":
            self.passed[re.sub(r"\W?turn\d+\W?.*|\[.*", "", report.nodeid)] += 1


def tests_of(row: int) -> list[str]:
    """Return the node ids of the tests that hold *row*, in README's order."""
    held_by = next(cells[4] for cells in ROWS if int(cells[0]) == row)
    return [
        f"tests/{path}::{name}"
        for name, path in re.findall(r"\[(test_\w+)\]\(([\w/]+\.py)\)", held_by)
    ]


def repeat(row: int, turns: int) -> dict[str, Any]:
    """Run the tests of *row* so many times; return what came of it."""
    begun, plugin = time.monotonic(), Turns(turns)
    code = pytest.main(["-p", "no:cacheprovider", *tests_of(row)], plugins=[plugin])
    failed = plugin.failed or ([] if code == 0 else [f"pytest ended with {code}"])
    return {
        "fault": next(cells[1] for cells in ROWS if int(cells[0]) == row),
        "turns": turns,
        "seconds": round(time.monotonic() - begun),
        "passed": dict(sorted(plugin.passed.items())),
        "failed": failed,
    }


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.long.repeated", description=__doc__)
    parser.add_argument("--rows", required=True, help="such as 28,33")
    parser.add_argument("--turns", type=int, default=10)
    parser.add_argument("--json", type=Path, help="where rows are entered")
    options = parser.parse_args(arguments)
    found: dict[str, Any] = {}
    for row in map(int, options.rows.split(",")):
        found[str(row)] = repeat(row, options.turns)
        if options.json:
            _enter(options.json, found)
    return 1 if any(each["failed"] for each in found.values()) else 0


def _enter(book: Path, found: dict[str, Any]) -> None:
    """Write the rows into *book*, beside those it has already."""
    rows = json.loads(book.read_text())["rows"] if book.exists() else {}
    command = "python -m tests.long.repeated --rows ROW --turns TURNS --json FILE"
    rows = dict(sorted({**rows, **found}.items(), key=lambda item: int(item[0])))
    told = {"command": command, "machine": machine(), "versions": versions(), "rows": rows}
    book.write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    raise SystemExit(main())
