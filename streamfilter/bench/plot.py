"""Pictures of the answers: throughput by size of text, cost by size of index, as SVG files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from streamfilter.bench.measure import Measured
from streamfilter.bench.outcome import BenchResult, Cell, Row

COLOURS = {"english": "#1f4e79", "arabic": "#b5651d", "chinese": "#3a7d44"}
LINES = {"word-3": "-", "char-5": "--"}
SETTINGS: dict[Any, Any] = {
    "svg.fonttype": "none",  # text stays text: small, and searchable
    "svg.hashsalt": "streamfilter",  # the same numbers, the same bytes
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.3,
}


def draw(answer: BenchResult, directory: Path) -> Iterator[Path]:
    """Draw what *answer* has to show; yield the files."""
    drawings: dict[str, Callable[[Any, Sequence[Row]], None]] = {
        "sketch": _throughput,
        "index": _costs,
        "filter": _filter,
    }
    if answer.name not in drawings:
        return
    with mpl.rc_context(SETTINGS):
        figure = Figure(figsize=(7, 4), layout="constrained")
        drawings[answer.name](figure.add_subplot(), answer.tables[0].rows)
        path = directory / f"{answer.name}.svg"
        figure.savefig(path, metadata={"Date": None})
        yield path


def _throughput(axes: Any, rows: Sequence[Row]) -> None:
    """Draw megabytes a second by size of text, a line for each script and kind of shingle."""
    for language, colour in COLOURS.items():
        for kind, line in LINES.items():
            chosen = [row for row in rows if (row["text"], row["kind"]) == (language, kind)]
            _line(axes, chosen, "bytes", "MB/s", f"{language}, {kind}", colour, line)
    axes.set(xscale="log", xlabel="size of a text", ylabel="MB/s on one core",
             title="Text to signature, sample and band keys")  # fmt: skip
    axes.set_ylim(bottom=0)
    axes.set_xticks(sorted({_value(row["bytes"]) for row in rows}))
    axes.xaxis.set_major_formatter(FuncFormatter(_bytes))
    axes.minorticks_off()
    axes.legend(frameon=False, fontsize=8)


def _costs(axes: Any, rows: Sequence[Row]) -> None:
    """Draw microseconds a document by size of index."""
    columns = {"probe (miss)": "#1f4e79", "probe, 30% again": "#3a7d44", "write": "#b5651d"}
    for column, colour in columns.items():
        _line(axes, rows, "documents", column, column, colour, "-")
    axes.set(xscale="log", xlabel="documents in the index", ylabel="µs a document",
             title="16 bands on RocksDB, batches of 500")  # fmt: skip
    axes.set_ylim(bottom=0)
    axes.xaxis.set_major_formatter(FuncFormatter(_count))
    axes.legend(frameon=False, fontsize=8)


def _filter(axes: Any, rows: Sequence[Row]) -> None:
    """Draw documents a second of whole programs, with their recall beside the bars."""
    labels = [f"{row['mix']}  {row['program']}" for row in rows]
    values = [_value(row["docs/s"]) for row in rows]
    ours = [row["program"] == rows[0]["program"] for row in rows]
    bars = axes.barh(labels, values, color=["#1f4e79" if own else "#b0b7bf" for own in ours])
    recalls = [f" recall {_value(row['recall']):.3f}" for row in rows]
    axes.bar_label(bars, recalls, fontsize=7)
    axes.tick_params(axis="y", labelsize=7)
    axes.invert_yaxis()
    axes.margins(x=0.15)
    axes.set(xlabel="documents a second, whole process on one core")


def _line(
    axes: Any, rows: Sequence[Row], x: str, y: str, label: str, colour: str, style: str
) -> None:
    """Draw medians with the quartiles as a band."""
    if not rows:
        return
    places = [_value(row[x]) for row in rows]
    cells = [row[y] for row in rows if isinstance(row[y], Measured)]
    low = [cell.low for cell in cells if isinstance(cell, Measured)]
    high = [cell.high for cell in cells if isinstance(cell, Measured)]
    medians = [_value(cell) for cell in cells]
    axes.plot(places, medians, style, color=colour, marker="o", markersize=3, label=label)
    axes.fill_between(places, low, high, color=colour, alpha=0.15, linewidth=0)


def _value(cell: Cell) -> float:
    return cell.median if isinstance(cell, Measured) else float(cell or 0)


def _bytes(value: float, _: int) -> str:
    return f"{value:.0f} B" if value < 1_000 else f"{value / 1024:.0f} KB"


def _count(value: float, _: int) -> str:
    return f"{value / 1e6:g} M" if value >= 1e6 else f"{value / 1e3:g} k"
