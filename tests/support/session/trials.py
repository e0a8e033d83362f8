"""Trials: one fault of the matrix tried many times, each from its own seed, and the book of it.

A test says how often: a few times in CI, and as often as the matrix's long column says in its
long variant. `pytest -m long TESTS --trials 500 --figures FILE.json` takes another number, and
enters rows, trials, seeds, seconds and what was seen into FILE, beside what it has already.
"""

import json
import random
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from streamfilter.bench.machine import machine, versions


def short_and_long(short: int, long: int) -> pytest.MarkDecorator:
    """Give a test its `trials`: *short* of them in CI, *long* in the long run."""
    both = [pytest.param(short, id="short"), pytest.param(long, id="long", marks=pytest.mark.long)]
    return pytest.mark.parametrize("trials", both, indirect=True)


class Trials:
    """How often a test tries its fault, and what it saw."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.seen = Counter[str]()
        self._entry: dict[str, Any] = {}
        self._begun = time.monotonic()

    def of(self, rows: str, fault: str, *, seed: int) -> Iterator[random.Random]:
        """Yield the random numbers of each trial; a failure names its seed."""
        self._entry = {"rows": rows, "fault": fault, "seed": seed, "trials": 0}
        for number in range(self.count):
            print(f"trial {number}: random.Random('{seed}/{number}')", flush=True)
            yield random.Random(f"{seed}/{number}")
            self._entry["trials"] += 1

    def saw(self, what: str) -> None:
        """Count an outcome."""
        self.seen[what] += 1
        print(f"  {what}", flush=True)

    def enter(self, book: Path, test: str) -> None:
        """Write down what was tried, under the name of the *test*."""
        told = json.loads(book.read_text()) if book.exists() else {"tests": {}}
        seconds = round(time.monotonic() - self._begun)
        entry = {**self._entry, "seconds": seconds, "seen": dict(self.seen.most_common())}
        told = {"machine": machine(), "versions": versions(), "tests": told["tests"]}
        told["tests"][test] = entry
        told["tests"] = dict(sorted(told["tests"].items()))
        book.write_text(json.dumps(told, indent=2, ensure_ascii=False) + "\n")


def add_options(parser: pytest.Parser) -> None:
    """Add the two options of the docstring."""
    parser.addoption("--trials", type=int, help="trials of each long variant")
    parser.addoption("--figures", type=Path, help="JSON file that trials are entered into")


def trials_of(request: pytest.FixtureRequest) -> Iterator[Trials]:
    """Yield the trials of a test; entered when it is over, however it ended."""
    long = request.node.get_closest_marker("long") is not None
    trials = Trials((request.config.getoption("--trials") if long else None) or request.param)
    yield trials
    if (book := request.config.getoption("--figures")) and trials._entry:
        trials.enter(book, request.node.nodeid)
