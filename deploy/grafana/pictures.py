"""Draws the dashboards as pictures, without Grafana: `python -m deploy.grafana.pictures`.

It draws every panel of the committed files with data from a running Prometheus, for the README. It
needs matplotlib (``pip install matplotlib``) and a Prometheus with data. For example, start the
demo with `python -m deploy.native` and wait some minutes.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from io import BytesIO
from itertools import cycle
from pathlib import Path
from typing import Any

import click
import numpy as np
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator
from PIL import Image

from deploy.grafana.asking import Line, Source
from deploy.grafana.reading import DIRECTORY, Panel, panels
from deploy.grafana.units import written
from streamfilter.monitoring.colours import BLUE, GREY, SERIES

COLUMNS, INCHES_WIDE, INCHES_ROW = 24, 16.0, 0.34
HEADING_ROWS = 1.3
PIXELS_PER_INCH = 80
LEGENDS_MAX = 8

Box = tuple[float, float, float, float]
"""x, y, width and height, as shares of the figure."""

Span = tuple[float, float]
"""First and last Unix time."""


def picture(path: Path, source: Source) -> Figure:
    """Return a figure with all panels of the dashboard at *path*."""
    shown = panels(path)
    rows = list(dict.fromkeys(panel.row for panel in shown))
    tops = _tops(shown, rows)
    height = max(tops[p.row] + p.place[1] - _first(shown, p.row) + p.place[3] for p in shown)
    figure = Figure(figsize=(INCHES_WIDE, height * INCHES_ROW), facecolor="#f4f5f5")
    span = (source.until - source.seconds, source.until)
    for row in rows:
        y = 1 - (tops[row] - 0.35) / height
        figure.text(0.008, y, row, fontsize=13, weight="bold", va="bottom")
    for panel in shown:
        x, y, width, tall = panel.place
        top = tops[panel.row] + y - _first(shown, panel.row)
        box = (x / COLUMNS, 1 - (top + tall) / height, width / COLUMNS, tall / height)
        _draw(figure, panel, source.lines(panel), box, span)
    return figure


def _first(shown: Sequence[Panel], row: str) -> int:
    return min(panel.place[1] for panel in shown if panel.row == row)


def _tops(shown: Sequence[Panel], rows: Sequence[str]) -> dict[str, float]:
    """Return the top of each row's panels, in rows of the grid, with room for the headings."""
    tops, top = {}, 0.0
    for row in rows:
        top += HEADING_ROWS
        tops[row] = top
        mine = [panel for panel in shown if panel.row == row]
        top += max(p.place[1] + p.place[3] for p in mine) - _first(shown, row)
    return tops


def _draw(figure: Figure, panel: Panel, lines: list[Line], box: Box, span: Span) -> None:
    x, y, width, tall = box
    inch = 1 / figure.get_figheight()
    card = figure.add_axes((x + 0.002, y + 0.04 * inch, width - 0.004, tall - 0.08 * inch))
    card.set(xticks=[], yticks=[], facecolor="white")
    for side in card.spines.values():
        side.set_color("#dddddd")
    figure.text(x + 0.007, y + tall - 0.12 * inch, panel.title, fontsize=9, va="top")
    lines = [line for line in lines if not np.isnan(line.values).all()]
    if panel.kind == "stat" or not lines:
        _numbers(card, panel, lines)
        return
    axes = figure.add_axes((x + 0.04, y + 0.72 * inch, width - 0.052, tall - 1.12 * inch))
    if panel.kind == "heatmap":
        _heatmap(axes, panel, lines)
    else:
        _lines(axes, panel, lines)
        _legend(axes, figure, lines, (x + 0.007, y + 0.46 * inch))
    axes.tick_params(labelsize=7, length=2)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_xlim(*span)
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.xaxis.set_major_formatter(
        FuncFormatter(lambda at, _: time.strftime("%H:%M:%S", time.gmtime(at)))
    )


def _numbers(axes: Any, panel: Panel, lines: list[Line]) -> None:
    known = [line for line in lines if not np.isnan(line.values[-1])]
    known = [line for line in known if panel.kind == "stat"]
    if panel.names:
        texts = [line.legend for line in known]
    else:
        several = len(known) > 1
        texts = [
            f"{line.legend}: " * several + written(line.values[-1], panel.unit, panel.decimals)
            for line in known
        ]
    size = 20 if len(texts) <= 1 and max(map(len, texts), default=1) < 9 else 10
    axes.text(0.5, 0.42, "\n".join(texts) or "–", fontsize=size, ha="center", va="center",
              color=_number_colour(panel, known), transform=axes.transAxes)  # fmt: skip


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
            axes.plot(line.times, line.values, lw=1.1, color=colour, label=line.legend)
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


def _legend(axes: Any, figure: Figure, lines: list[Line], place: tuple[float, float]) -> None:
    """Write the legends of the lines with the largest means below the axes."""
    handles, labels = axes.get_legend_handles_labels()
    weight = [-float(np.nanmean(line.values)) for line in lines]
    chosen = sorted(np.argsort(weight, kind="stable")[:LEGENDS_MAX])
    axes.legend([handles[i] for i in chosen], [labels[i] for i in chosen], fontsize=6.5,
                loc="upper left", bbox_to_anchor=place, bbox_transform=figure.transFigure, ncol=4,
                frameon=False, handlelength=1, columnspacing=1, borderpad=0)  # fmt: skip


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
              default=Path(__file__).parent / "pictures")  # fmt: skip
def main(prometheus: str, minutes: int, scrape_seconds: int, out: Path) -> None:
    """Draw every dashboard as it is now into OUT, one PNG each."""
    source = Source(prometheus, 60 * minutes, time.time(), scrape_seconds)
    out.mkdir(parents=True, exist_ok=True)
    for path in sorted(DIRECTORY.glob("*.json")):
        to = out / f"{path.stem}.png"
        drawn = BytesIO()
        picture(path, source).savefig(drawn, dpi=PIXELS_PER_INCH)
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
