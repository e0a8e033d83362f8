"""What came of many trials: one shape for every directed run, and a file that adds runs up.

    {"rows": {"7": {"fault": …, "trials": …, "missed": …, "findings": […]}}, "runs": […]}

`rows` at the top is the sum of the runs', so that a long run may be made of several.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from streamfilter.bench.machine import machine, versions
from tests.faults.tally import ROWS

SUMS = ("trials", "missed", "lives", "records", "seconds")
COUNTS = ("seen", "exit_codes")
LISTS = ("seeds", "findings")


@dataclass(slots=True)
class Result:
    """Of one row: of one life, or of all of them."""

    trials: int = 0
    """Faults that were seen to happen, in lives that the oracle judged."""
    missed: int = 0
    """Tried, and not seen to happen: no trials."""
    lives: int = 0
    records: int = 0
    """Judged by the oracle."""
    seconds: float = 0.0
    """Of all lives, added up although they are side by side."""
    slowest: float = 0.0
    """Seconds from the end of a fault to progress, at most; 0 where nobody measures it."""
    seen: Counter[str] = field(default_factory=Counter)
    """The trials, by what was seen of them."""
    exit_codes: Counter[int] = field(default_factory=Counter)
    seeds: list[str] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)

    def saw(self, what: str) -> None:
        """Count a fault by what was seen of it; nothing seen is no trial."""
        if what:
            self.trials += 1
            self.seen[what] += 1
        else:
            self.missed += 1

    def add(self, other: Result) -> None:
        for name in (*SUMS, *COUNTS, *LISTS):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.slowest = max(self.slowest, other.slowest)

    def as_json(self, row: int) -> dict[str, Any]:
        return {
            "fault": ROWS[row],
            **{name: getattr(self, name) for name in SUMS},
            "seconds": round(self.seconds, 1),
            "slowest": self.slowest,
            **{name: _sorted(getattr(self, name)) for name in COUNTS},
            **{name: getattr(self, name) for name in LISTS},
        }


def _sorted(counts: Mapping[Any, int]) -> dict[str, int]:
    return {str(key): counts[key] for key in sorted(counts, key=str)}


@dataclass(slots=True)
class File:
    """Runs in one JSON file; ours is written again and again, those before it are kept."""

    path: Path | None
    command: str
    before: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.path and self.path.exists():
            self.before = json.loads(self.path.read_text())["runs"]

    def save(self, results: Mapping[int, Result], seconds: float) -> None:
        if self.path is None:
            return
        ours = {
            "command": self.command,
            "seconds": round(seconds, 1),
            "machine": machine(),
            "versions": versions(),
            "rows": {str(row): each.as_json(row) for row, each in sorted(results.items())},
        }
        told = added_up([*self.before, ours])
        fresh = self.path.with_suffix(".new")
        fresh.write_text(json.dumps(told, indent=1) + "\n")
        fresh.replace(self.path)


def added_up(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a file of *runs*: their sums by row, and the runs themselves."""
    rows: dict[str, dict[str, Any]] = {}
    for row in sorted({row for run in runs for row in run["rows"]}, key=int):
        parts = [run["rows"][row] for run in runs if row in run["rows"]]
        rows[row] = {
            "fault": parts[-1]["fault"],
            **{name: round(sum(part[name] for part in parts), 1) for name in SUMS},
            "slowest": max(part["slowest"] for part in parts),
            **{name: _sorted(_counted(parts, name)) for name in COUNTS},
            "findings": [finding for part in parts for finding in part["findings"]],
        }
    return {"rows": rows, "runs": runs}


def _counted(parts: list[dict[str, Any]], name: str) -> Counter[str]:
    found: Counter[str] = Counter()
    for part in parts:
        found.update(part[name])
    return found


def table(results: Mapping[int, Result]) -> str:
    """Return the results for a person, a line a row."""
    lines = []
    for row, each in sorted(results.items()):
        codes = ", ".join(f"{code}: {n}" for code, n in sorted(each.exit_codes.items()))
        pace = each.seconds / max(1, each.trials)
        lines.append(
            f"row {row:>2} {each.trials:>5} trials ({each.missed} missed), {each.records} records, "
            f"{pace:.1f} s each, exits {{{codes}}}, findings {len(each.findings)}: {ROWS[row]}"
        )
    return "\n".join(lines)
