"""Options and results of a benchmark: tables, checks that must hold, targets.

A check is a promise of the product: nothing lost, recall, precision. If a check fails, the run
fails, and its speed means nothing. A target is a wanted speed on some machine; it is reported as
met or missed, and never fails the run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, field, to_builtins

from streamfilter.bench.measure import Measured

Cell = str | int | float | bool | Measured | None
Row = dict[str, Cell]


class Rivals(Struct, frozen=True):
    """Other libraries, measured in the same run; `tests/bench/peers` has some."""

    signers: Callable[[str], Mapping[str, Callable[[Sequence[str]], Any]]] = lambda _: {}
    """Kind of shingle, such as ``word-3`` -> functions that sign texts, by name."""
    programs: Mapping[str, Callable[[Path, Path, Path], Any]] = field(default_factory=dict)
    """Programs that filter: (input, kept, withheld) -> `Ran`, by name."""
    notes: Sequence[str] = ()  # notes that a reader needs to compare the figures


class Options(Struct, frozen=True):
    """Options of every benchmark."""

    repeat: int = 5  # rounds; a table shows their median and quartiles
    quick: bool = False  # small inputs: shows that everything works, measures little
    text: Path | None = None  # JSON Lines whose ``text`` fields are measured as one more language
    say: Callable[[str], None] = lambda _: None
    """Called with the name of the next measurement, to show progress."""
    rivals: Rivals = field(default_factory=lambda: Rivals())


class Check(Struct, frozen=True):
    """A result that must be right, or the run has failed."""

    name: str
    passed: bool
    detail: str = ""  # the result, and the wanted value

    @classmethod
    def at_least(cls, name: str, got: float, wanted: float) -> Check:
        """Return a check that *got* is no lower than *wanted*."""
        return cls(name, got >= wanted, f"{got:.5g}, wanted at least {wanted:.5g}")


class Target(Struct, frozen=True):
    """A speed or size that we want."""

    name: str
    got: float
    wanted: float
    at_most: bool = False  # true if less is better

    @property
    def met(self) -> bool:
        """Return True if the target was met."""
        return self.got <= self.wanted if self.at_most else self.got >= self.wanted


class BenchResult(Struct, frozen=True):
    """The answer of one benchmark."""

    tables: Mapping[str, Sequence[Row]]  # rows with the same columns, by title
    checks: Sequence[Check]
    targets: Sequence[Target] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    notes: Sequence[str] = ()  # notes that a reader needs to understand the numbers
    name: str = ""
    question: str = ""  # set by the catalogue, like the name

    @property
    def passed(self) -> bool:
        """Return True if every result was right."""
        return all(check.passed for check in self.checks)

    def as_json(self) -> dict[str, Any]:
        plain: dict[str, Any] = to_builtins(self, enc_hook=lambda scalar: scalar.item())
        for fields, target in zip(plain["targets"], self.targets, strict=True):
            fields["met"] = target.met
        return {**plain, "passed": self.passed}

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield f"{self.name}: {self.question}"
        for title, rows in self.tables.items():
            yield f"\n  {title}"
            yield from _table(rows)
        yield ""
        for target in self.targets:
            got = f"{target.name}: {target.got:,.4g}"
            wanted = f"(wanted {'<=' if target.at_most else '>='} {target.wanted:g})"
            yield f"  target {'met' if target.met else 'MISSED'}: {got} {wanted}"
        failed = [check for check in self.checks if not check.passed]
        yield f"  checks: {len(self.checks) - len(failed)} of {len(self.checks)} passed"
        yield from (f"  FAILED: {check.name}: {check.detail}" for check in failed)
        yield from (f"  note: {note}" for note in self.notes)


def _table(rows: Sequence[Row]) -> Iterator[str]:
    columns = list(dict.fromkeys(name for row in rows for name in row))
    cells = [columns, *([_cell(row.get(name)) for name in columns] for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(columns))]
    aligned = ["<" if isinstance(rows[0].get(name), str) else ">" for name in columns]
    for row in cells:
        padded = (f"{row[i]:{aligned[i]}{widths[i]}}" for i in range(len(columns)))
        yield ("  " + "  ".join(padded)).rstrip()


def _cell(cell: Cell) -> str:
    if isinstance(cell, Measured):
        return f"{_cell(cell.median)} ±{cell.spread * 100:.0f}%"
    if not isinstance(cell, int | float):
        return cell or "-"
    # About three digits that matter, and thousands parted.
    if cell == int(cell) or abs(cell) >= 100:
        return f"{cell:,.0f}"
    return f"{cell:.2f}" if abs(cell) >= 1 else f"{cell:.4g}"
