"""The S-curve as a picture: theory as lines, measurements as dots with their error bars.

Matplotlib draws it, so the formats are SVG, PNG and PDF. The same numbers give the same SVG.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from streamfilter.files.outputs import write_whole
from streamfilter.monitoring.colours import SERIES
from streamfilter.stops import MissingExtra

SUFFIXES = (".svg", ".png", ".pdf")
SETTINGS: dict[Any, Any] = {
    "svg.hashsalt": "streamfilter",  # ids in the file follow from the drawing, not from chance
    "axes.grid": True,
    "grid.alpha": 0.3,
}
UNDATED: dict[str, Any] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
"""The time of drawing is left out: the same numbers give the same file."""

Point = tuple[float, float]


class PictureFile(click.Path):
    """The name of a picture's file; refused before any work if it cannot be drawn."""

    def __init__(self) -> None:
        super().__init__(dir_okay=False, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path.

        Raises:
            MissingExtra: matplotlib is not installed.
        """
        path = Path(str(super().convert(value, param, ctx)))
        if path.suffix.lower() not in SUFFIXES:
            endings = ", ".join(SUFFIXES)
            cure = f"name it {path.with_suffix('.svg')}"
            self.fail(f"{path}: a picture's name ends in {endings}; {cure}", param, ctx)
        try:
            import matplotlib  # noqa: F401 (large: imported only where a picture is drawn)
        except ModuleNotFoundError:
            raise MissingExtra("--plot", needs="matplotlib", extra="plot") from None
        return path


@dataclass(frozen=True, slots=True)
class Curve:
    """A curve: (similarity, probability) points, both in [0, 1], in rising order."""

    label: str
    points: Sequence[Point]


@dataclass(frozen=True, slots=True)
class Dot:
    """A measured share with its interval."""

    x: float
    y: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Dots:
    """Measurements that belong together."""

    label: str
    dots: Sequence[Dot]


def save_picture(
    path: Path,
    *,
    title: str,
    subtitle: str = "",
    lines: Sequence[Curve],
    dots: Sequence[Dots] = (),
    threshold: float,
) -> None:
    """Write the picture to *path*.

    Raises:
        Stop: (usage) if it cannot be written, (temporary) if there is no room.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(SETTINGS):
        figure = Figure(figsize=(7.2, 4.6), layout="constrained")
        axes = figure.add_subplot()
        figure.suptitle(title)
        axes.set(title=subtitle, xlabel="Jaccard similarity", ylabel="share of the pairs that meet")
        axes.set(xlim=(0, 1), ylim=(0, 1.02))
        axes.axvline(threshold, color=SERIES[-1], dashes=(5, 4), label=f"threshold {threshold:g}")
        for line, colour in zip(lines, SERIES, strict=False):
            axes.plot(*zip(*line.points, strict=True), color=colour, label=line.label)
        for each, colour in zip(dots, SERIES[len(lines) :], strict=False):
            x, y = [dot.x for dot in each.dots], [dot.y for dot in each.dots]
            below = [max(dot.y - dot.low, 0.0) for dot in each.dots]
            above = [max(dot.high - dot.y, 0.0) for dot in each.dots]
            axes.errorbar(x, y, [below, above], fmt="o", color=colour, label=each.label)
        axes.legend(loc="upper left")
        drawn, format = io.BytesIO(), path.suffix.lower()[1:]
        figure.savefig(drawn, format=format, metadata=UNDATED.get(format))
    write_whole(path, drawn.getvalue())
