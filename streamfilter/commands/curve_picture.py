"""The S-curve as an SVG file: theory as lines, measurements as dots with their error bars.

Written with the standard library: matplotlib would be ten times all of streamfilter for one
picture, and the small SVG libraries have no error bars. The same numbers give the same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import click

from streamfilter.files.outputs import write_whole
from streamfilter.monitoring.colours import SERIES

WIDTH, HEIGHT = 720, 460
LEFT, RIGHT, TOP, BOTTOM = 64, 24, 44, 56
TICKS = 10

Point = tuple[float, float]


class PictureFile(click.Path):
    """A file's name for the picture; another ending than SVG's would lie about what is in it."""

    def __init__(self) -> None:
        super().__init__(dir_okay=False, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path, or refuse its ending."""
        path = Path(str(super().convert(value, param, ctx)))
        if path.suffix.lower() != ".svg":
            self.fail(f"{path}: the picture is SVG; name it {path.with_suffix('.svg')}", param, ctx)
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
    threshold: float | None = None,
) -> None:
    """Write the picture to *path*.

    Raises:
        Stop: (usage) if it cannot be written, (temporary) if there is no room.
    """
    picture = ElementTree.Element(
        "svg", xmlns="http://www.w3.org/2000/svg", viewBox=f"0 0 {WIDTH} {HEIGHT}",
        attrib={"font-family": "sans-serif", "font-size": "12"},
    )  # fmt: skip
    _add(picture, "rect", width=WIDTH, height=HEIGHT, fill="white")
    _text(picture, LEFT, 22, title, size=15)
    _text(picture, LEFT, 38, subtitle, size=11)
    _grid(picture)
    if threshold is not None:
        _line(picture, (threshold, 0), (threshold, 1), stroke="#888", dash="5 4")
        _text(picture, _x(threshold) + 4, TOP + 12, f"threshold {threshold:g}", size=11)
    for number, line in enumerate(lines):
        places = " ".join(f"{_x(x):.1f},{_y(y):.1f}" for x, y in line.points)
        _add(picture, "polyline", points=places, fill="none", stroke=_colour(number),
             **{"stroke-width": 2})  # fmt: skip
    for number, each in enumerate(dots, len(lines)):
        for dot in each.dots:
            _line(picture, (dot.x, dot.low), (dot.x, dot.high), stroke=_colour(number))
            _add(picture, "circle", cx=_x(dot.x), cy=_y(dot.y), r=4, fill=_colour(number))
    _legend(picture, [*(line.label for line in lines), *(each.label for each in dots)])
    write_whole(path, ElementTree.tostring(picture, encoding="utf-8", xml_declaration=True))


def _grid(picture: ElementTree.Element) -> None:
    """Draw both axes with a line and a number at each tenth."""
    for tick in range(TICKS + 1):
        at = tick / TICKS
        _line(picture, (at, 0), (at, 1), stroke="#ddd" if tick else "#444")
        _line(picture, (0, at), (1, at), stroke="#ddd" if tick else "#444")
        _text(picture, _x(at), HEIGHT - BOTTOM + 18, f"{at:g}", anchor="middle")
        _text(picture, LEFT - 8, _y(at) + 4, f"{at:g}", anchor="end")
    _text(picture, _x(0.5), HEIGHT - 14, "Jaccard similarity", anchor="middle")
    centre = _y(0.5)
    turned = _text(picture, 18, centre, "share of the pairs that meet", anchor="middle")
    turned.set("transform", f"rotate(-90 18 {centre:.1f})")


def _legend(picture: ElementTree.Element, labels: Sequence[str]) -> None:
    for number, label in enumerate(labels):
        y = TOP + 34 + 18 * number
        _add(picture, "rect", x=LEFT + 14, y=y - 9, width=12, height=10, fill=_colour(number))
        _text(picture, LEFT + 32, y, label)


def _colour(number: int) -> str:
    return SERIES[number % len(SERIES)]


def _x(share: float) -> float:
    return LEFT + share * (WIDTH - LEFT - RIGHT)


def _y(share: float) -> float:
    return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)


def _line(
    picture: ElementTree.Element, one: Point, other: Point, *, stroke: str, dash: str = "none"
) -> None:
    ends = {"x1": _x(one[0]), "y1": _y(one[1]), "x2": _x(other[0]), "y2": _y(other[1])}
    _add(picture, "line", stroke=stroke, **ends, **{"stroke-dasharray": dash})


def _text(
    picture: ElementTree.Element,
    x: float,
    y: float,
    text: str,
    *,
    anchor: str = "start",
    size: int = 12,
) -> ElementTree.Element:
    named: dict[str, float | str] = {"text-anchor": anchor, "font-size": size}
    element = _add(picture, "text", x=x, y=y, fill="#222", **named)
    element.text = text
    return element


def _add(picture: ElementTree.Element, tag: str, **values: float | str) -> ElementTree.Element:
    """Add an element; numbers are written with one decimal at most."""
    attributes = {
        key: value if isinstance(value, str) else f"{value:.1f}".removesuffix(".0")
        for key, value in values.items()
    }
    return ElementTree.SubElement(picture, tag, attributes)
