"""Draws the dashboards as pictures, without Grafana: `python -m deploy.grafana.pictures`.

It draws the panels of the committed files with data from a running Prometheus, for the README. It
needs matplotlib (``pip install matplotlib``) and a Prometheus with data. `scene` brings ten minutes
in which things happen.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO
from itertools import cycle, groupby
from pathlib import Path
from typing import Any

import click
import numpy as np
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator
from PIL import Image

from deploy.grafana.asking import Line, Marked, Source
from deploy.grafana.reading import DIRECTORY, Panel, panels
from deploy.grafana.units import written
from streamfilter.monitoring.colours import BLUE, GREY, SERIES

COLUMNS, INCHES_WIDE, INCHES_ROW = 24, 11.0, 0.27
"""A README is some 830 pixels wide: an inch is 75 of them, and a letter of 8 points 8 pixels."""
HEADING_ROWS = 1.4
PIXELS_PER_INCH = 150
LEGEND_ROWS = 2
OUT = Path(__file__).parent / "pictures"

Box = tuple[float, float, float, float]
"""x, y, width and height, as shares of the figure."""

Span = tuple[float, float]
"""First and last Unix time."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A panel with its lines, and its place in the picture, in columns and rows of the grid."""

    panel: Panel
    lines: list[Line]
    place: tuple[float, float, float, float]


def picture(path: Path, source: Source, *, every: bool = False) -> Figure:
    """Return a figure with the panels of the dashboard at *path*.

    Closed rows and panels in which nothing happened are left out, unless *every* is true.
    """
    drawn = [(p, _known(source.lines(p))) for p in panels(path) if every or not p.closed]
    if not every:
        drawn = [(panel, lines) for panel, lines in drawn if happened(panel, lines)]
    placed, headings, height = _laid_out(drawn)
    figure = Figure(figsize=(INCHES_WIDE, height * INCHES_ROW), facecolor="white")
    for row, top in headings:
        y = 1 - (top + HEADING_ROWS - 0.3) / height
        figure.text(0.008, y, row, fontsize=13, weight="bold", va="bottom")
    span, marks = (source.until - source.seconds, source.until), source.marks(path)
    for each in placed:
        x, top, wide, tall = each.place
        box = (x / COLUMNS, 1 - (top + tall) / height, wide / COLUMNS, tall / height)
        _draw(figure, each, box, span, marks)
    return figure


def _known(lines: list[Line]) -> list[Line]:
    return [line for line in lines if not np.isnan(line.values).all()]


def happened(panel: Panel, lines: list[Line]) -> bool:
    """Return whether *panel* has something to show: a line that is not 0 all the time."""
    if panel.kind == "stat":
        return bool(_numbers_of(panel, lines))
    return any(np.nanmax(line.values) > 0 for line in lines)


def _laid_out(
    drawn: Sequence[tuple[Panel, list[Line]]],
) -> tuple[list[Placed], list[tuple[str, float]], float]:
    """Return the places of panels, (row, top) of the headings, and the height.

    Each line of the grid is filled: panels of 8 and 8 columns become 12 and 12 wide.
    """
    placed: list[Placed] = []
    headings: list[tuple[str, float]] = []
    top = 0.0
    for row, of_row in groupby(drawn, key=lambda each: each[0].row):
        headings.append((row, top))
        top += HEADING_ROWS
        for line in _lines_of(list(of_row)):
            wide, x = sum(panel.place[2] for panel, _ in line), 0.0
            tall = max(panel.place[3] for panel, _ in line)
            for panel, lines in line:
                width = panel.place[2] * COLUMNS / wide
                placed.append(Placed(panel, lines, (x, top, width, tall)))
                x += width
            top += tall
    return placed, headings, top


def _lines_of(
    drawn: Sequence[tuple[Panel, list[Line]]],
) -> Iterator[list[tuple[Panel, list[Line]]]]:
    """Yield the panels of each line of the grid, in their order; a line is of one height."""
    line: list[tuple[Panel, list[Line]]] = []
    for each in drawn:
        wide = sum(panel.place[2] for panel, _ in line) + each[0].place[2]
        if line and (wide > COLUMNS or line[0][0].place[3] != each[0].place[3]):
            yield line
            line = []
        line.append(each)
    if line:
        yield line


def _draw(figure: Figure, placed: Placed, box: Box, span: Span, marks: Sequence[Marked]) -> None:
    panel, lines, (x, y, width, tall) = placed.panel, placed.lines, box
    inch = 1 / figure.get_figheight()
    card = figure.add_axes((x + 0.002, y + 0.04 * inch, width - 0.004, tall - 0.08 * inch))
    card.set(xticks=[], yticks=[], facecolor="white")
    for side in card.spines.values():
        side.set_color("#dddddd")
    figure.text(x + 0.007, y + tall - 0.12 * inch, panel.title, fontsize=9, va="top")
    if panel.kind == "stat" or not lines:
        _numbers(card, panel, lines)
        return
    axes = figure.add_axes((x + 0.062, y + 0.6 * inch, width - 0.075, tall - 0.95 * inch))
    if panel.kind == "heatmap":
        _heatmap(axes, panel, lines)
    else:
        _lines(axes, panel, lines)
        _legend(axes, figure, lines, (x + 0.007, y + 0.36 * inch), columns=max(2, round(width * 6)))
    for mark in marks:
        for time_ in mark.times:
            axes.axvline(time_, color=mark.colour, lw=0.8, ls="--", zorder=0)
    axes.tick_params(labelsize=7.5, length=2)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_xlim(*span)
    minutes = np.linspace(*span, 6)[1:-1]
    axes.set_xticks(minutes, [f"{(at - span[0]) / 60:g} min" for at in minutes])


def _numbers(axes: Any, panel: Panel, lines: list[Line]) -> None:
    known = _numbers_of(panel, lines)
    if panel.names:
        texts = [line.legend for line in known]
    else:
        several = len(known) > 1
        texts = [
            f"{line.legend}: " * several + written(line.values[-1], panel.unit, panel.decimals)
            for line in known
        ]
    size = 17 if len(texts) <= 1 and max(map(len, texts), default=1) < 9 else 10
    axes.text(0.5, 0.42, "\n".join(texts) or "–", fontsize=size, ha="center", va="center",
              color=_number_colour(panel, known), transform=axes.transAxes)  # fmt: skip


def _numbers_of(panel: Panel, lines: list[Line]) -> list[Line]:
    return [line for line in lines if panel.kind == "stat" and not np.isnan(line.values[-1])]


def _number_colour(panel: Panel, known: list[Line]) -> str:
    """Return the colour of the number, as in Grafana: that of the highest limit it reaches."""
    if not known:
        return GREY
    value = 0.0 if panel.names else float(known[0].values[-1])
    return [colour for colour, least in panel.limits or ((BLUE, -np.inf),) if value >= least][-1]


def line_colours(panel: Panel, lines: list[Line]) -> list[str]:
    """Return the colours of *lines*: the dashboard's own, else the next colour of `SERIES`."""
    given, free = panel.colours, cycle(SERIES)
    if "" in given:  # shades of one colour for all lines
        parts = np.array(to_rgb(given[""]))
        return [to_hex(1 - (1 - parts) * share) for share in np.linspace(1, 0.4, len(lines))]
    return [given.get(line.legend) or next(free) for line in lines]


def _lines(axes: Any, panel: Panel, lines: list[Line]) -> None:
    colours = line_colours(panel, lines)
    if panel.stacked:
        times = np.unique(np.concatenate([line.times for line in lines]))
        layers = [np.interp(times, line.times, np.nan_to_num(line.values)) for line in lines]
        axes.stackplot(times, layers, labels=[line.legend for line in lines], alpha=0.75,
                       colors=colours)  # fmt: skip
    else:
        for colour, line in zip(colours, lines, strict=True):
            axes.plot(line.times, line.values, lw=1.3, color=colour, label=line.legend)
    axes.set_ylim(*limits_of(panel, lines))
    axes.yaxis.set_major_locator(MaxNLocator(4))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: written(value, panel.unit)))
    axes.grid(axis="y", lw=0.4, color="#e5e5e5")


def limits_of(panel: Panel, lines: list[Line]) -> tuple[float, float | None]:
    """Return the start of the value axis and, if the panel has a ceiling, the end with a margin."""
    least = min((float(np.nanmin(line.values)) for line in lines), default=0.0)
    bottom = min(panel.floor, max(least, 0.0)) if panel.floor else 0.0
    if panel.ceiling is None:
        return bottom, None
    return bottom, panel.ceiling + 0.02 * (panel.ceiling - bottom)


def _legend(
    axes: Any, figure: Figure, lines: list[Line], place: tuple[float, float], *, columns: int
) -> None:
    """Write the legends of the lines with the largest maxima below the axes."""
    handles, labels = axes.get_legend_handles_labels()
    weight = [-float(np.nanmax(line.values)) for line in lines]
    seen = [place for place in np.argsort(weight, kind="stable") if weight[place] < 0]
    chosen = sorted(seen[: LEGEND_ROWS * columns])
    axes.legend([handles[i] for i in chosen], [labels[i] for i in chosen], fontsize=7.5,
                loc="upper left", bbox_to_anchor=place, bbox_transform=figure.transFigure,
                ncol=columns, frameon=False, handlelength=1, columnspacing=1,
                borderpad=0)  # fmt: skip


def _heatmap(axes: Any, panel: Panel, lines: list[Line]) -> None:
    """Draw a heat map. Each series is a bucket's cumulative count; its legend is the upper edge.

    Example: the counts 3, 5 and 5 at the edges 0.1, 0.2 and 0.4 are drawn as 3, 2 and nothing.
    """
    ranked = sorted(
        (line for line in lines if line.legend != "+Inf"), key=lambda line: float(line.legend)
    )
    times = np.unique(np.concatenate([line.times for line in ranked]))
    counts = np.array([np.interp(times, line.times, line.values) for line in ranked])
    each = np.maximum(np.diff(counts, axis=0, prepend=0), 0)
    each[each == 0] = np.nan
    axes.pcolormesh(times, np.arange(len(ranked)), each, cmap="Oranges", shading="nearest",
                    rasterized=True)  # fmt: skip
    shown = range(0, len(ranked), max(1, len(ranked) // 6))
    axes.set_yticks(list(shown), [written(float(ranked[i].legend), panel.unit) for i in shown])


@click.command()
@click.option("--prometheus", default="http://127.0.0.1:9090", show_default=True)
@click.option("--minutes", type=click.IntRange(1, 600), default=4, show_default=True)
@click.option("--scrape-seconds", type=click.IntRange(1, 300), default=5, show_default=True)
@click.option("--out", type=click.Path(path_type=Path, file_okay=False),
              default=OUT)  # fmt: skip
@click.option("--all", "every", is_flag=True, help="Draw panels without data, too.")
def main(prometheus: str, minutes: int, scrape_seconds: int, out: Path, every: bool) -> None:
    """Draw every dashboard as it is now into OUT, one PNG each."""
    draw(Source(prometheus, 60 * minutes, time.time(), scrape_seconds), out, every=every)


def draw(source: Source, out: Path, *, every: bool = False) -> None:
    """Draw every dashboard with the data of *source* into the directory *out*."""
    out.mkdir(parents=True, exist_ok=True)
    for path in sorted(DIRECTORY.glob("*.json")):
        to = out / f"{path.stem}.png"
        drawn = BytesIO()
        picture(path, source, every=every).savefig(drawn, dpi=PIXELS_PER_INCH)
        # A palette that includes rare colours: a third of the size, without a visible difference.
        palette = (
            Image.open(drawn)
            .convert("RGB")
            .quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
        )
        palette.save(to, optimize=True)
        click.echo(f"{to} ({to.stat().st_size // 1024} KiB)")


if __name__ == "__main__":
    main()
