"""What a benchmark answers: tables of numbers, checks that must hold, targets that should.

A check is a promise of the product (nothing lost, recall, precision): a run in which one fails
has failed, and its speed means nothing. A target is a wish about speed on some machine: it is
reported as met or missed, and fails nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from streamfilter.bench.measure import Measured

Cell = str | int | float | bool | Measured | None
Row = dict[str, Cell]


@dataclass(frozen=True, slots=True)
class Check:
    """A result that must be right, or the run has failed."""

    name: str
    passed: bool
    detail: str = ""
    """What was found, and what was wanted."""

    @classmethod
    def at_least(cls, name: str, got: float, wanted: float) -> Check:
        """Return a check that *got* is no lower than *wanted*."""
        return cls(name, got >= wanted, f"{got:.5g}, wanted at least {wanted:.5g}")

    @classmethod
    def equal(cls, name: str, got: object, wanted: object) -> Check:
        """Return a check that two values are equal."""
        return cls(name, got == wanted, f"{got}, wanted {wanted}")


@dataclass(frozen=True, slots=True)
class Target:
    """A speed or size that we want."""

    name: str
    got: float
    wanted: float
    at_most: bool = False
    """True if less is better."""

    @property
    def met(self) -> bool:
        """Return True if the wish came true."""
        return self.got <= self.wanted if self.at_most else self.got >= self.wanted


@dataclass(frozen=True, slots=True)
class Table:
    """Rows with the same columns."""

    title: str
    rows: Sequence[Row]


@dataclass(frozen=True, slots=True)
class BenchResult:
    """The answer of one benchmark."""

    name: str
    question: str
    tables: Sequence[Table]
    checks: Sequence[Check]
    targets: Sequence[Target] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    notes: Sequence[str] = ()
    """What a reader must know to read the numbers rightly."""

    @property
    def passed(self) -> bool:
        """Return True if every result was right."""
        return all(check.passed for check in self.checks)

    def as_json(self) -> dict[str, Any]:
        """Return everything as plain values."""
        return {
            "question": self.question,
            "passed": self.passed,
            "settings": dict(self.settings),
            "tables": {t.title: [_plain(row) for row in t.rows] for t in self.tables},
            "checks": [
                {"name": c.name, "passed": c.passed, "detail": c.detail} for c in self.checks
            ],
            "targets": [
                {
                    "name": t.name,
                    "got": t.got,
                    "wanted": t.wanted,
                    "at_most": t.at_most,
                    "met": t.met,
                }
                for t in self.targets
            ],
            "notes": list(self.notes),
        }


def _plain(row: Row) -> dict[str, Any]:
    return {
        name: cell.as_json() if isinstance(cell, Measured) else cell for name, cell in row.items()
    }
