"""Mutants that no test notices: `python -m tests.long.mutants --count 40 --seed 7 --json FILE`.

Each mutant is one small error (`mutation.py`) in one line of the filter's rooms. Its nearest tests
run on a copy of the tree: the quick ones of the files that import the changed module. If all of
them pass, the tests of its room run. A mutant that passes those, too, is a survivor: a line that no
test of the inner loop holds, or one whose change makes no difference. A person decides which.

A mutant that takes longer than `--seconds` in a stage counts as noticed: most such loop for ever.
The test that noticed a mutant must pass without it, so that a broken tree is not counted as good.
"""

import argparse
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
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from streamfilter.bench.machine import machine
from tests.long.mutation import Mutation, mutations

TREE = Path(__file__).parents[2]
ROOMS = {
    "matching": ("pipeline", "audit", "entities"),
    "engine": ("engine", "simulator"),
    "tasks": ("engine", "simulator"),
    "index": ("index", "pipeline"),
    "similarity": ("similarity", "pipeline"),
}
"""The rooms, and the folders of tests that hold them."""
NEVER = ["--deselect=tests/simulator/test_planted_bugs.py", "--deselect=tests/test_texts.py"]
"""Tests that expect errors, or hold texts: what they say of a mutant means nothing."""
SECONDS = 150.0


@dataclass(frozen=True, slots=True)
class Mutant:
    """A mutation in a file, named from the tree's root."""

    path: str
    mutation: Mutation

    def __str__(self) -> str:
        change = self.mutation
        return f"{self.path}:{change.line} {change.kind}: {change.before!r} → {change.after!r}"


def drawn(tree: Path, count: int, seed: str, rooms: Sequence[str]) -> list[Mutant]:
    """Return *count* mutants, of each room about as many; the same for the same seed and tree."""
    rng = random.Random(seed)
    by_room: list[list[Mutant]] = []
    for room in rooms:
        paths = sorted((tree / "streamfilter" / room).rglob("*.py"))
        all_of_them = [
            Mutant(str(path.relative_to(tree)), each)
            for path in paths
            for each in mutations(path.read_text())
        ]
        by_room.append(rng.sample(all_of_them, min(count, len(all_of_them))))
    turns = max(map(len, by_room), default=0)
    mixed = [mutants[n] for n in range(turns) for mutants in by_room if n < len(mutants)]
    return mixed[:count]


def nearest(tree: Path, path: str) -> list[str]:
    """Return the test files that import the module at *path*."""
    package, _, module = path.removesuffix(".py").replace("/", ".").rpartition(".")
    names = f"from {package}.{module} import|from {package} import .*\\b{module}\\b"
    pattern = re.compile(names)
    files = sorted((tree / "tests").rglob("test_*.py"))
    return [str(file.relative_to(tree)) for file in files if pattern.search(file.read_text())]


def stages(tree: Path, path: str) -> Iterator[list[str]]:
    """Yield the arguments of pytest for one stage after another."""
    if files := nearest(tree, path):
        yield ["-m", "quick", *NEVER, *files]
    folders = [f"tests/{name}" for name in ROOMS[path.split("/")[1]]]
    yield ["-m", "quick", *NEVER, *[each for each in folders if (tree / each).is_dir()]]


@dataclass(slots=True)
class Worker:
    """A copy of the tree, in which one mutant at a time lives."""

    tree: Path
    seconds: float

    def noticed_by(self, mutant: Mutant) -> str:
        """Return the first test that fails with *mutant*, "timeout", or the empty string.

        Raises:
            RuntimeError: that test fails without it, too.
        """
        file = self.tree / mutant.path
        source = file.read_text()
        file.write_text(mutant.mutation.applied(source))
        try:
            found = next(filter(None, map(self.failed, stages(self.tree, mutant.path))), "")
        finally:
            file.write_text(source)
        if found not in ("", "timeout") and self.failed([found]):
            raise RuntimeError(f"{found} fails without any mutant, too")
        return found

    def failed(self, arguments: Sequence[str]) -> str:
        """Return the first test that fails, or another reason; empty: all pass."""
        pytest = ["-m", "pytest", "-x", "-q", "-rfE", "-p", "no:cacheprovider", "-p", "no:xdist"]
        process = subprocess.Popen(
            [sys.executable, *pytest, *arguments],
            cwd=self.tree,
            env={**os.environ, "PYTHONPATH": str(self.tree), "PYTHONDONTWRITEBYTECODE": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            told, _ = process.communicate(timeout=self.seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            return "timeout"
        if process.returncode in (0, 5):  # 5: no test was left
            return ""
        found = re.search(r"^(?:FAILED|ERROR) (\S+)", told, re.MULTILINE)
        if found is None:
            raise RuntimeError(f"pytest ended with {process.returncode}:\n{told[-2_000:]}")
        return found[1]


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


def run(mutants: Sequence[Mutant], workers: int, seconds: float) -> Iterator[dict[str, Any]]:
    """Yield what became of each mutant, as soon as it is known."""
    with ExitStack() as stack:
        free: SimpleQueue[Worker] = SimpleQueue()
        for _ in range(workers):
            free.put(Worker(copied(stack), seconds))

        def judged(mutant: Mutant) -> dict[str, Any]:
            worker, begun = free.get(), time.monotonic()
            try:
                noticed = worker.noticed_by(mutant)
            except RuntimeError as error:
                noticed = f"nothing is known: {error}"
            finally:
                free.put(worker)
            passed = round(time.monotonic() - begun, 1)
            return {"path": mutant.path, **asdict(mutant.mutation), "noticed_by": noticed,
                    "seconds": passed, "text": str(mutant)}  # fmt: skip

        with ThreadPoolExecutor(workers) as pool:
            yield from pool.map(judged, mutants)


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    rooms = options.rooms.split(",")
    mutants = drawn(TREE, options.count, options.seed, rooms)
    found: list[dict[str, Any]] = []
    for each in run(mutants, options.workers, options.seconds):
        found.append(each)
        print(f"{'SURVIVED' if not each['noticed_by'] else 'noticed '} {each['text']}", flush=True)
        if options.json:
            survivors = [one for one in found if not one["noticed_by"]]
            told = {"seed": options.seed, "rooms": rooms, "mutants": len(found),
                    "survived": len(survivors), "machine": machine(), "survivors": survivors,
                    "noticed": [one for one in found if one["noticed_by"]]}  # fmt: skip
            options.json.write_text(json.dumps(told, indent=1) + "\n")
    survived = sum(not each["noticed_by"] for each in found)
    print(f"{survived} of {len(found)} mutants survived")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.long.mutants", description=__doc__)
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--seed", default=str(time.time_ns() % 1_000_000))
    parser.add_argument("--rooms", default=",".join(ROOMS))
    parser.add_argument("--workers", type=int, default=2, help="copies of the tree, side by side")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of one stage at most")
    parser.add_argument("--json", type=Path, help="where the survivors are written")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
