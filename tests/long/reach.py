"""Which tests reach which line: `python -m tests.long.reach FILE -m quick tests`.

A test reaches the lines that run while it runs, and those that a fixture of its module or of its
class ran before. FILE holds, as JSON, the seconds of each test that passed, and the tests of each
line of `streamfilter`. If only an import runs a line, all tests that reach its file reach it.
"""

import json
import os
import resource
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pytest

QUIETLY = ["-p", "no:cacheprovider", "-p", "no:xdist"]
OURS = {"streamfilter", "tests", "deploy"}
MEMORY = 8 << 30
"""The address space of a run of pytest, in bytes: a mutant may ask for any amount."""


@dataclass(slots=True)
class Reach:
    """What a measured run found: paths are named from the tree's root."""

    seconds: dict[str, float]
    """Of each test that passed."""
    lines: dict[str, dict[int, list[str]]]
    """By path and line: the ids of tests, or of the modules whose fixtures ran it."""
    sources: dict[str, str] = field(default_factory=dict)
    """By path: a hash of the file whose lines these are."""

    @classmethod
    def read(cls, path: Path) -> "Reach":
        told = json.loads(path.read_text())
        names = told["names"]
        lines = {
            file: {int(line): [names[n] for n in of] for line, of in numbered.items()}
            for file, numbered in told["lines"].items()
        }
        return cls(told["seconds"], lines, told["sources"])

    def tests(self, path: str, first: int, last: int) -> list[str]:
        """Return the tests that reach one of the lines, the cheapest first."""
        lines = self.lines.get(path, {})
        ran = [lines[line] for line in range(first, last + 1) if line in lines]
        names = {name for of in (ran if any(ran) else lines.values() if ran else ()) for name in of}
        modules = tuple(name + "::" for name in names if name not in self.seconds)
        chosen = [test for test in self.seconds if test in names or test.startswith(modules)]
        return sorted(chosen, key=self.seconds.__getitem__)


@dataclass(eq=False, slots=True)
class _Meter:
    """A plugin that names what runs, for coverage.py, and takes the processor time of each test."""

    switch: Callable[[str], None]
    seconds: dict[str, float] = field(default_factory=dict)
    failed: set[str] = field(default_factory=set)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        begun = time.process_time()
        self.switch(item.nodeid)
        result = yield
        self.switch("")
        self.seconds[item.nodeid] = time.process_time() - begun
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(
        self, fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
    ) -> Iterator[None]:
        if fixturedef.scope == "function":
            return (yield)
        self.switch(request.node.nodeid)
        try:
            return (yield)
        finally:
            self.switch(request._pyfuncitem.nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.outcome != "passed":
            self.failed.add(report.nodeid)


def measure(out: Path, arguments: list[str]) -> int:
    """Run pytest with *arguments* and write to *out* which test reaches which line."""
    import coverage  # of this program only

    package = Path("streamfilter").absolute()
    coverer = coverage.Coverage(data_file=None, config_file=False, source=[str(package)])
    coverer.start()
    meter = _Meter(coverer.switch_context)
    code = pytest.main(["-q", *QUIETLY, *arguments], [meter])
    coverer.stop()
    data = coverer.get_data()
    names = sorted(filter(None, data.measured_contexts()))
    numbers = {name: number for number, name in enumerate(names)}
    lines = {
        str(Path(file).relative_to(package.parent)): {
            line: sorted(numbers[name] for name in of if name)
            for line, of in sorted(data.contexts_by_lineno(file).items())
        }
        for file in data.measured_files()
    }
    seconds = {
        test: round(taken, 3) for test, taken in meter.seconds.items() if test not in meter.failed
    }
    sources = {file: hash_of((package.parent / file).read_text()) for file in lines}
    found = {"seconds": seconds, "names": names, "lines": lines, "sources": sources}
    out.write_text(json.dumps(found))
    return int(code)


def hash_of(source: str) -> str:
    """Return a short hash of a source text."""
    return blake2b(source.encode(), digest_size=8).hexdigest()


class _Chosen:
    """A plugin that keeps the chosen tests only, in the order of the choice."""

    def __init__(self, names: list[str]) -> None:
        self._place = {name: place for place, name in enumerate(names)}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        kept = [item for item in items if item.nodeid in self._place]
        items[:] = sorted(kept, key=lambda item: self._place[item.nodeid])


def started(tree: Path, names: list[str], seconds: int, told: Path) -> int:
    """Fork a process that runs tests of *tree* up to the first that fails, and return its id.

    What is imported already costs it nothing, but for modules of ours: it takes those of *tree*.
    It writes to *told*, and has *seconds* of processor time.
    """
    if process := os.fork():
        return process
    code = 70
    try:
        os.setsid()
        os.chdir(tree)
        os.environ["PYTHONPATH"] = str(tree)
        sys.path.insert(0, str(tree))
        sys.stdout = sys.stderr = told.open("w")
        os.dup2(sys.stdout.fileno(), 1)
        os.dup2(sys.stdout.fileno(), 2)
        for name in [each for each in sys.modules if each.partition(".")[0] in OURS]:
            del sys.modules[name]
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        files = dict.fromkeys(name.partition("::")[0] for name in names)
        code = pytest.main(["-x", "-q", "-rfE", *QUIETLY, *files], [_Chosen(names)])
        sys.stdout.flush()
    finally:
        os._exit(code)


if __name__ == "__main__":
    raise SystemExit(measure(Path(sys.argv[1]), sys.argv[2:]))
