"""Mutants that no test notices: `python -m tests.long.mutants --count 40 --seed 7 --json FILE`.

Each mutant is one small error (`mutation.py`) in one line of the filter's rooms. First, the tests
that need no broker run once. Coverage.py (`pip install coverage`) records which test reaches which
line (`reach.py`). Each mutant gets the tests that reach its line, the cheapest first, until one
fails. A mutant that passes them all is a survivor: no test holds its line, or its change makes no
difference. `equivalent.yaml` lists the second kind, each with its reason.

A mutant that takes far longer than its tests took before counts as noticed: most such loop for
ever. In the end, all tests that noticed one must pass without any, so that a broken tree is not
counted as good. `--reach FILE` keeps what the first run found; a file that has changed since is
left out. `--again FILE` judges the survivors
of FILE.
"""

import argparse
import ast
import importlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from streamfilter.bench.machine import machine
from tests.long import reach
from tests.long.mutation import Mutation, mutations
from tests.long.reach import Reach

TREE = Path(__file__).parents[2]
EQUIVALENT = Path(__file__).with_name("equivalent.yaml")
ROOMS = "matching,engine,index,tasks,similarity"
MEASURED = [
    "-m", "not kafka and not tools", "tests", *(f"--ignore=tests/{name}" for name in (
        "bench", "ci", "demo", "deploy", "fuzz", "long", "process", "test_architecture.py",
        "test_house.py", "test_texts.py", "test_words.py")),
    "--deselect=tests/simulator/test_planted_bugs.py",
]  # fmt: skip
"""All but tests that expect errors, hold texts, or only start other processes."""
FILES = 4
"""Tests of so many files run first: to collect all that reach a line takes longer than to run."""
SECONDS = 60.0
Key = tuple[str, str, str]
"""What names a mutant while its lines stand, wherever they move: path, lines before and after."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """A mutation in a file, named from the tree's root."""

    path: str
    mutation: Mutation
    was: str
    """The changed lines, with single blanks."""
    now: str

    @classmethod
    def of(cls, path: str, source: str, mutation: Mutation) -> "Mutant":
        begin = source.rfind("\n", 0, mutation.begin) + 1
        end = (source + "\n").index("\n", mutation.end)
        changed = source[begin : mutation.begin] + mutation.after + source[mutation.end : end]
        return cls(path, mutation, " ".join(source[begin:end].split()), " ".join(changed.split()))

    def __str__(self) -> str:
        return f"{self.path}:{self.mutation.line} {self.was!r} → {self.now!r}"

    @property
    def key(self) -> Key:
        return self.path, self.was, self.now


def mutants_of(tree: Path, room: str) -> list[Mutant]:
    """Return every mutant of a room."""
    paths = sorted((tree / "streamfilter" / room).rglob("*.py"))
    return [
        Mutant.of(str(path.relative_to(tree)), source, each)
        for path in paths
        for source in [path.read_text()]
        for each in mutations(source)
    ]


def drawn(tree: Path, count: int, seed: str, rooms: Sequence[str]) -> list[Mutant]:
    """Return *count* mutants, of each room about as many; the same for the same seed and tree."""
    rng = random.Random(seed)
    by_room = [mutants_of(tree, room) for room in rooms]
    by_room = [rng.sample(mutants, min(count, len(mutants))) for mutants in by_room]
    turns = max(map(len, by_room), default=0)
    mixed = [mutants[n] for n in range(turns) for mutants in by_room if n < len(mutants)]
    return mixed[:count]


def statement(source: str, line: int) -> tuple[int, int]:
    """Return the first and the last line of the statement at *line*, without its body."""
    best = (line, line)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.stmt | ast.ExceptHandler):
            body = getattr(node, "body", None)
            last = max(node.lineno, body[0].lineno - 1) if body else node.end_lineno or 0
            if node.lineno <= line <= last:
                best = (node.lineno, last)
    return best


@dataclass(slots=True)
class Worker:
    """A copy of the tree, in which one mutant at a time lives."""

    tree: Path
    reach: Reach
    seconds: float = SECONDS
    _written: int = 0

    def measured(self, mutant: Mutant) -> bool:
        """Return whether the reach is that of the file as it is; say so if it is another one's."""
        found = self.reach.sources.get(mutant.path)
        same = found == reach.hash_of((self.tree / mutant.path).read_text())
        if not same:
            print(f"{mutant} is left out: {mutant.path} has changed since its reach was measured")
        return same

    def noticed_by(self, mutant: Mutant) -> str:
        """Return the first test that fails with *mutant*, "timeout", or the empty string."""
        source = (self.tree / mutant.path).read_text()
        tests = self.chosen(mutant, source)
        files = list(dict.fromkeys(file_of(test) for test in tests))[:FILES]
        near = [test for test in tests if file_of(test) in files]
        far = [test for test in tests if file_of(test) not in files]
        self._write(mutant.path, mutant.mutation.applied(source))
        try:
            return next(filter(None, map(self.failed, filter(None, (near, far)))), "")
        finally:
            self._write(mutant.path, source)

    def chosen(self, mutant: Mutant, source: str) -> list[str]:
        """Return the tests that reach a mutant: the cheapest ones, for the seconds of a run."""
        tests = self.reach.tests(mutant.path, *statement(source, mutant.mutation.line))
        spent = 0.0
        for number, test in enumerate(tests):
            spent += self.reach.seconds[test]
            if spent > self.seconds:
                return tests[:number]
        return tests

    def failed(self, tests: Sequence[str]) -> str:
        """Return the first of *tests* that fails, or another reason; empty: all pass."""
        usual = int(sum(self.reach.seconds.get(test, 0.0) for test in tests))
        told = self.tree / "told"
        process = reach.started(self.tree, list(tests), 20 + 4 * usual, told)
        deadline = time.monotonic() + 200 + 20 * usual
        while not (ended := os.waitpid(process, os.WNOHANG))[0]:
            if time.monotonic() > deadline:  # it waits for something
                os.killpg(process, signal.SIGKILL)
            time.sleep(0.02)
        code = os.waitstatus_to_exitcode(ended[1])
        if code in (0, 5):  # 5: no test was left
            return ""
        found = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", told.read_text(), re.MULTILINE)
        return found[1] if found else f"pytest ended with {code}"

    def _write(self, path: str, source: str) -> None:
        """Write a file, with a time of its own: Python compares the seconds of compiled files."""
        file = self.tree / path
        file.write_text(source)
        self._written += 1
        at = time.time() - 10_000_000 + self._written
        os.utime(file, (at, at))


def file_of(test: str) -> str:
    return test.partition("::")[0]


def copied(stack: ExitStack) -> Path:
    """Return a copy of the tree that lives as long as *stack*."""
    directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="streamfilter-mutants-"))
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=TREE, capture_output=True, check=True)
    for name in filter(None, listed.stdout.decode().split("\0")):
        target = Path(directory) / name
        if (TREE / name).exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(TREE / name, target)
    return Path(directory)


def measured(stack: ExitStack, kept: Path | None) -> Reach:
    """Return which test reaches which line: what *kept* holds, if it is there."""
    if kept is None or not kept.exists():
        tree = copied(stack)
        kept = kept.absolute() if kept else tree / "reach.json"
        command = [sys.executable, "-P", reach.__file__, str(kept), *MEASURED]
        modules = {**os.environ, "PYTHONPATH": str(tree)}
        subprocess.run(command, cwd=tree, env=modules, check=False)  # what fails is left out
    reached = Reach.read(kept)
    if not reached.seconds:
        raise SystemExit(f"no test passed while it was measured, so {kept} is empty: remove it")
    return reached


def equivalents() -> dict[Key, str]:
    """Return the reason of each mutant that makes no difference."""
    listed = yaml.safe_load(EQUIVALENT.read_text())
    return {
        (f"streamfilter/{path}", was, now): reason
        for path, rows in listed.items()
        for was, now, reason in rows
    }


def judged(mutants: Sequence[Mutant], worker: Worker) -> Iterator[dict[str, Any]]:
    """Yield what became of each mutant, as soon as it is known."""
    known = equivalents()
    for mutant in mutants:
        begun = time.monotonic()
        noticed = worker.noticed_by(mutant)
        outcome = "noticed" if noticed else "equivalent" if mutant.key in known else "survived"
        yield {"outcome": outcome, "noticed_by": noticed, "reason": known.get(mutant.key, ""),
               "path": mutant.path, "line": mutant.mutation.line, "kind": mutant.mutation.kind,
               "was": mutant.was, "now": mutant.now,
               "seconds": round(time.monotonic() - begun, 1)}  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    for name in ("conftest", "support.stage", "support.session.examples"):
        importlib.import_module(f"tests.{name}")  # for libraries: a forked run has them at once
    rooms = options.rooms.split(",")
    mutants = drawn(TREE, options.count, options.seed, rooms)
    if options.again:
        told = json.loads(options.again.read_text())["mutants"]
        keys = {(each["path"], each["was"], each["now"])
                for each in told if each["outcome"] == "survived"}  # fmt: skip
        mutants = [each for room in rooms for each in mutants_of(TREE, room) if each.key in keys]
    found: list[dict[str, Any]] = []
    with ExitStack() as stack:
        worker = Worker(copied(stack), measured(stack, options.reach))
        mutants = list(filter(worker.measured, mutants))
        for mutant, each in zip(mutants, judged(mutants, worker), strict=True):
            found.append(each)
            print(f"{len(found)} {each['outcome']} {mutant} {each['noticed_by']}", flush=True)
            if options.json:
                counts = Counter(each["outcome"] for each in found)
                told = {"seed": options.seed, "rooms": rooms, "machine": machine(), **counts,
                        "mutants": found}  # fmt: skip
                options.json.write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n")
        noticing = {each["noticed_by"] for each in found} & worker.reach.seconds.keys()
        wrong = worker.failed(sorted(noticing)) if noticing else ""
    print(dict(Counter(each["outcome"] for each in found)))
    if wrong:
        print(f"{wrong} fails without any mutant, too: what it noticed is not known")
    return bool(wrong)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.long.mutants", description=__doc__)
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--seed", default=str(time.time_ns() % 1_000_000))
    parser.add_argument("--rooms", default=ROOMS)
    parser.add_argument("--json", type=Path, help="where the result is written after each mutant")
    parser.add_argument("--reach", type=Path, help="keeps which test reaches which line")
    parser.add_argument("--again", type=Path, help="the JSON whose survivors are judged again")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
