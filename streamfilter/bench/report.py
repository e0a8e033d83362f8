"""The answers for a person: tables with medians and spread, checks, targets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from streamfilter.bench.measure import Measured
from streamfilter.bench.outcome import BenchResult, Cell, Row, Table


def as_text(outcome: BenchResult) -> str:
    """Return everything that *outcome* says."""
    return "\n".join(_lines(outcome))


def _lines(outcome: BenchResult) -> Iterator[str]:
    yield f"{outcome.name}: {outcome.question}"
    for table in outcome.tables:
        yield ""
        yield from _table(table)
    yield ""
    for target in outcome.targets:
        sign, said = "<=" if target.at_most else ">=", "met" if target.met else "MISSED"
        yield f"  target {said}: {target.name}: {target.got:,.4g} (wanted {sign} {target.wanted:g})"
    failed = [check for check in outcome.checks if not check.passed]
    yield f"  checks: {len(outcome.checks) - len(failed)} of {len(outcome.checks)} passed"
    for check in failed:
        yield f"  FAILED: {check.name}: {check.detail}"
    for note in outcome.notes:
        yield f"  note: {note}"


def _table(table: Table) -> Iterator[str]:
    columns = list(dict.fromkeys(name for row in table.rows for name in row))
    cells = [columns, *([_cell(row.get(name)) for name in columns] for row in table.rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(columns))]
    left = [_is_text(table.rows, name) for name in columns]
    yield f"  {table.title}"
    for row in cells:
        padded = (
            cell.ljust(width) if flush else cell.rjust(width)
            for cell, width, flush in zip(row, widths, left, strict=True)
        )  # fmt: skip
        yield ("  " + "  ".join(padded)).rstrip()


def _is_text(rows: Sequence[Row], name: str) -> bool:
    return any(isinstance(row.get(name), str) for row in rows)


def _cell(cell: Cell) -> str:
    if cell is None:
        return "-"
    if isinstance(cell, Measured):
        return f"{_number(cell.median)} ±{cell.spread * 100:.0f}%"
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    return _number(cell) if isinstance(cell, int | float) else cell


def _number(value: float) -> str:
    """Return about three digits that matter, and thousands parted."""
    if value == int(value) or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.2f}" if abs(value) >= 1 else f"{value:.4g}"
