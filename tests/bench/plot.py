"""Pictures of the answers: throughput by size of text, cost by size of index, as SVG files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from streamfilter.bench.measure import Measured
from streamfilter.bench.result import BenchResult, Row
from streamfilter.monitoring.colours import AMBER, BLUE, GREEN, GREY

SETTINGS: dict[Any, Any] = {
    "svg.fonttype": "none",  # text stays text: small, and searchable
    "svg.hashsalt": "streamfilter",  # the same numbers, the same bytes
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
        "cores": _cores,
        "retention": _index_through_periods,
    }
    if answer.name not in drawings:
        return
    drawing, rows = drawings[answer.name], next(iter(answer.tables.values()))
    yield picture(directory / f"{answer.name}.svg", lambda axes: drawing(axes, rows))


def picture(path: Path, drawing: Callable[[Any], None]) -> Path:
    """Write what *drawing* does to its axes as an SVG file."""
    with mpl.rc_context(SETTINGS):
        figure = Figure(figsize=(7, 4), layout="constrained")
        drawing(figure.add_subplot())
        figure.savefig(path, metadata={"Date": None})
    return path


def _throughput(axes: Any, rows: Sequence[Row]) -> None:
    """Draw megabytes a second by size of text, a line for each script and kind of shingle."""
    for language, colour in (("english", BLUE), ("arabic", AMBER), ("chinese", GREEN)):
        for kind, line in (("word-3", "-"), ("char-5", "--")):
            chosen = [row for row in rows if (row["text"], row["kind"]) == (language, kind)]
            _line(axes, chosen, "bytes", "MB/s", f"{language}, {kind}", colour + line)
    _finish(axes, "size of a text in bytes", "MB/s on one core",
            "Text to signature, sample and band keys")  # fmt: skip


def _costs(axes: Any, rows: Sequence[Row]) -> None:
    """Draw microseconds a document by size of index."""
    lines = (("probe (miss)", BLUE), ("probe, 30% again", GREEN), ("write", AMBER))
    for column, colour in lines:
        _line(axes, rows, "documents", column, column, colour + "-")
    _finish(axes, "documents in the index", "µs a document", "16 bands on RocksDB, batches of 500")


def _index_through_periods(axes: Any, rows: Sequence[Row]) -> None:
    """Draw what an index that forgets takes."""
    lines = (
        ("probe + write", BLUE, "probe + write, {:.0f} µs a document"),
        ("disk MB", GREEN, "disk, {:,.0f} MB"),
        ("resident MiB", GREY, "resident memory, {:,.0f} MiB"),
        ("front pass rate", AMBER, "keys that pass the front, {:.1e}"),
    )
    through_periods(axes, rows, lines, title="An index that forgets")


def through_periods(
    axes: Any, rows: Sequence[Row], lines: Sequence[tuple[str, str, str]], *, title: str
) -> None:
    """Draw each column of *lines*, by its colour and label, beside what it was at first.

    The first of *rows* is of the second period: in the one before the memory fills.
    """
    for column, colour, label in lines:
        seen = [cell.median if isinstance(cell, Measured) else cell for cell in
                (row[column] for row in rows)]  # fmt: skip
        first = float(str(seen[0])) or 1.0
        axes.plot([row["period"] for row in rows], [float(str(each)) / first for each in seen],
                  color=colour, marker="o", markersize=3, label=label.format(seen[0]))  # fmt: skip
    axes.set(xlabel="periods of the retention that have passed", ylim=(0, 2),
             ylabel="times the second period's", title=title)  # fmt: skip
    axes.legend(frameon=False, fontsize=8)


def _filter(axes: Any, rows: Sequence[Row]) -> None:
    """Draw documents a second of whole programs, with their recall beside the bars."""
    labels = [f"{row['mix']}  {row['program']}" for row in rows]
    ours = [row["program"] == rows[0]["program"] for row in rows]
    bars = axes.barh(labels, [_of(row["docs/s"]).median for row in rows],
                     color=[BLUE if own else GREY for own in ours])  # fmt: skip
    axes.bar_label(bars, [f" recall {row['recall']:.3f}" for row in rows], fontsize=7)
    axes.tick_params(axis="y", labelsize=7)
    axes.invert_yaxis()
    axes.margins(x=0.15)
    axes.set(xlabel="documents a second, whole process on one core")


def _cores(axes: Any, rows: Sequence[Row]) -> None:
    """Draw how many times as fast as one core so many are: what costs allow, what was measured."""
    kinds = dict.fromkeys(row["texts"] for row in rows)
    for texts, colour in zip(kinds, (BLUE, AMBER), strict=False):
        chosen = [row for row in rows if row["texts"] == texts]
        axes.plot([row["cores"] for row in chosen], [row["times one core"] for row in chosen],
                  color=colour, marker=".", label=f"{texts}, allowed by its costs")  # fmt: skip
        for row in chosen:
            if isinstance(cell := row["measured"], Measured):
                spread = [[cell.median - cell.low], [cell.high - cell.median]]
                axes.errorbar(row["cores"], cell.median, spread, color=colour, marker="s",
                              linestyle="", label=f"{texts}, measured")  # fmt: skip
    _finish(axes, "cores", "times as fast as one", "One filter, with workers beside it")


def _line(axes: Any, rows: Sequence[Row], x: str, y: str, label: str, look: str) -> None:
    """Draw medians with the quartiles as a band; *look* is a colour and a style."""
    places, cells = [row[x] for row in rows], [_of(row[y]) for row in rows]
    colour, style = look[:7], look[7:]
    axes.plot(places, [cell.median for cell in cells], style, color=colour, marker="o",
              markersize=3, label=label)  # fmt: skip
    axes.fill_between(places, [cell.low for cell in cells], [cell.high for cell in cells],
                      color=colour, alpha=0.15, linewidth=0)  # fmt: skip


def _finish(axes: Any, x: str, y: str, title: str) -> None:
    axes.set(xscale="log", xlabel=x, ylabel=y, title=title)
    axes.set_ylim(bottom=0)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.legend(frameon=False, fontsize=8)


def _of(cell: object) -> Measured:
    assert isinstance(cell, Measured)
    return cell
