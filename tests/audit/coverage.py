"""How often does each figure of quality hold the truth? The record of 200 runs of each stream.

    python -m tests.audit.coverage --runs 200 --figures tests/bench_runs/coverage.json

A row that the file holds already, of as many runs of this very code, is not run again: a run that
was ended goes on, and a change of the code begins anew. ``--seconds`` begins no row after so many;
``--table`` only prints what the file holds.
"""

import argparse
import ast
import hashlib
import json
import sys
import time
from functools import cache
from pathlib import Path
from typing import Any

from streamfilter.bench.machine import machine, versions
from tests.audit.measuring import SHAPES, STREAMS, row

ROOMS = ("streamfilter.matching.", "streamfilter.similarity.", "streamfilter.index.",
         "streamfilter.quality.", "streamfilter.stories.", "tests.audit.streams",
         "tests.audit.planted", "tests.audit.measuring")  # fmt: skip
APART = (
    "streamfilter.index.rocks.rocks_index",
    "streamfilter.index.rocks.database",
    "streamfilter.index.bands.bloom_filter",
)


@cache
def code_of() -> str:
    """Return a digest of the code that a row is made by; no comment counts."""
    made = {name: module for name, module in sys.modules.items() if name.startswith(ROOMS)}
    files = [Path(made[name].__file__) for name in sorted(made) if not name.startswith(APART)]
    trees = [ast.dump(ast.parse(file.read_text())) for file in files]
    return hashlib.sha256("\n".join(trees).encode()).hexdigest()[:10]


class Record:
    """The rows that a file holds."""

    def __init__(self, path: Path | None) -> None:
        self.path, self.rows = path, {}
        if path and path.exists():
            for row in json.loads(path.read_text())["rows"]:
                self.rows[row["stream"], row["shape"]] = row

    def has(self, stream: str, shape: str, runs: int) -> bool:
        """Return whether a row of as many runs of this code is there."""
        known = self.rows.get((stream, shape), {})
        return known.get("code") == code_of() and known["runs"] >= runs

    def add(self, row: dict[str, object]) -> None:
        """Put *row* in, in the place of an older one, and write the file."""
        self.rows[row["stream"], row["shape"]] = row
        if self.path:
            order = [(stream, shape) for shape in SHAPES for stream in STREAMS]
            told = {
                "question": __doc__.splitlines()[0],
                "command": "python -m tests.audit.coverage --runs 200",
                "machine": machine(), "versions": versions(),
                "rows": [self.rows[each] for each in order if each in self.rows],
            }  # fmt: skip
            self.path.write_text(json.dumps(told, indent=1) + "\n")


def table(rows: list[dict[str, Any]]) -> str:
    """Return a line for each stream: by shape the runs, and the least share of them that held.

    Of all figures that were shown with an end, whichever held the truth least often.
    """
    cells = {(row["stream"], row["shape"]): f"{least(row):.3f}" for row in rows}
    lines = ["| stream | " + " | ".join(SHAPES) + " |", "|---" * (len(SHAPES) + 1) + "|"]
    for stream in STREAMS:
        shares = [cells.get((stream, shape), "–") for shape in SHAPES]
        lines.append(f"| {stream} | " + " | ".join(shares) + " |")
    return "\n".join(lines)


def least(row: dict[str, Any]) -> float:
    """Return how often the figure of a row that held the truth least often held it."""
    return min(told["holds"] for told in row["figures"].values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--streams", nargs="*", default=STREAMS)
    parser.add_argument("--shapes", nargs="*", default=tuple(SHAPES))
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--figures", type=Path)
    parser.add_argument("--table", action="store_true", help="only print what the file holds")
    args = parser.parse_args()
    begun, record = time.monotonic(), Record(args.figures)
    if args.table:
        print(table(list(record.rows.values())))
        return
    for stream in args.streams:
        for shape in args.shapes:
            late = time.monotonic() - begun > args.seconds
            if late or record.has(stream, shape, args.runs):
                continue
            version = {"code": code_of(), "commit": versions()["commit"]}
            record.add(row(stream, shape, args.runs) | version)
            print(json.dumps(record.rows[stream, shape]), flush=True)


if __name__ == "__main__":
    main()
