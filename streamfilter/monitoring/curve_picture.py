"""The S-curve as a picture: theory as lines, measurements as dots with their error bars.

Matplotlib draws it, so the formats are SVG, PNG and PDF. The same numbers give the same SVG.
"""

import io
import logging
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from streamfilter.monitoring.colours import SERIES
from streamfilter.stops import of_extra

FORMATS = ("svg", "png", "pdf")
SETTINGS: dict[Any, Any] = {
    "svg.hashsalt": "streamfilter",  # ids in the file follow from the drawing, not from chance
    "axes.grid": True,
    "grid.alpha": 0.3,
}
UNDATED: dict[str, Any] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
"""The time of drawing is left out: the same numbers give the same file."""

Point = tuple[float, float]


def require_matplotlib() -> None:
    """Refuse to draw before any work, if it is impossible.

    Raises `MissingExtra`: matplotlib is not installed.
    """
    with of_extra("plot", "--plot"):
        import matplotlib  # noqa: F401 (large: imported only where a picture is drawn)
    # At its first import it logs that it has listed the fonts.
    logging.getLogger("matplotlib").setLevel(logging.WARNING)


class Curve(Struct, frozen=True):
    """A curve: (similarity, probability) points, both in [0, 1], in rising order."""

    label: str
    points: Sequence[Point]


class Dot(Struct, frozen=True):
    """A measured share with its interval."""

    x: float
    y: float
    low: float
    high: float


class Dots(Struct, frozen=True):
    """Measurements that belong together."""

    label: str
    dots: Sequence[Dot]


def picture(
    *,
    title: str,
    subtitle: str = "",
    lines: Sequence[Curve],
    dots: Sequence[Dots] = (),
    threshold: float,
    format: str,
) -> bytes:
    """Return the picture as a file of *format*, one of `FORMATS`."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(SETTINGS):
        figure = Figure(figsize=(7.2, 4.6), layout="constrained")
        axes = figure.add_subplot()
        figure.suptitle(title)
        axes.set_title(subtitle, fontsize="small")  # two intervals fit in the width
        axes.set(
            xlabel="Jaccard similarity",
            ylabel="share of the pairs that share a key",
        )
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
        drawn = io.BytesIO()
        figure.savefig(drawn, format=format, metadata=UNDATED.get(format))
    return drawn.getvalue()
