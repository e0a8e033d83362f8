"""Reads the panels, queries and variables of the committed dashboards, without Grafana."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DIRECTORY = Path(__file__).parent / "dashboards"
VARIABLES = frozenset({"job", "instance", "__rate_interval", "__range", "__interval"})
_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")


@dataclass(frozen=True, slots=True)
class Target:
    """One query of a panel."""

    expression: str
    legend: str
    instant: bool


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel, and its place in Grafana's grid of 24 columns."""

    row: str
    closed: bool
    """Whether its row is closed until one opens it."""
    title: str
    description: str
    kind: str
    """Grafana's type: ``timeseries``, ``stat``, ``heatmap``."""
    unit: str
    stacked: bool
    names: bool
    """True: it shows the legend instead of the number."""
    floor: float
    """Start of the axis, unless a value is lower."""
    ceiling: float | None
    decimals: int | None
    colours: Mapping[str, str]
    """Colour by legend; the legend "" stands for all others."""
    limits: tuple[tuple[str, float], ...]
    """(colour, lowest value with it), for a number panel."""
    place: tuple[int, int, int, int]
    """x, y, width, height."""
    targets: tuple[Target, ...]
    datasources: tuple[str, ...]
    """The uid of the panel's and of each query's datasource."""


def panels(path: Path) -> list[Panel]:
    """Return the panels of a dashboard's file, without its row headings."""
    return list(_panels(json.loads(path.read_text(encoding="utf-8"))))


def events(path: Path) -> list[tuple[str, str]]:
    """Return expression and colour of each kind of event of a dashboard's file."""
    listed = json.loads(path.read_text(encoding="utf-8"))["annotations"]["list"]
    return [(each["expr"], each["iconColor"]) for each in listed]


def _panels(dashboard: Mapping[str, Any]) -> Iterator[Panel]:
    row = ""
    for each in dashboard["panels"]:
        if each["type"] == "row":
            row = each["title"]
            yield from (_panel(row, inner, closed=True) for inner in each.get("panels", ()))
        else:
            yield _panel(row, each, closed=False)


def _panel(row: str, raw: Mapping[str, Any], *, closed: bool) -> Panel:
    defaults, grid = raw["fieldConfig"]["defaults"], raw["gridPos"]
    custom = defaults.get("custom", {})
    sources = [raw["datasource"]["uid"], *(t["datasource"]["uid"] for t in raw["targets"])]
    return Panel(
        row,
        closed,
        title=raw.get("title", ""),
        description=raw.get("description", ""),
        kind=raw["type"],
        unit=defaults.get("unit", ""),
        stacked=custom.get("stacking", {}).get("mode") == "normal",
        names=raw["options"].get("textMode") == "name",
        floor=custom.get("axisSoftMin", 0.0),
        ceiling=defaults.get("max"),
        decimals=defaults.get("decimals"),
        colours=_colours(raw["fieldConfig"]),
        limits=tuple(
            (step["color"], -math.inf if step["value"] is None else step["value"])
            for step in defaults.get("thresholds", {}).get("steps", ())
        ),
        place=(grid["x"], grid["y"], grid["w"], grid["h"]),
        targets=tuple(
            Target(t["expr"], t["legendFormat"], bool(t.get("instant"))) for t in raw["targets"]
        ),
        datasources=tuple(sources),
    )


def _colours(field: Mapping[str, Any]) -> dict[str, str]:
    found = {
        each["matcher"]["options"]: fixed["value"]["fixedColor"]
        for each in field["overrides"]
        for fixed in each["properties"]
        if fixed["id"] == "color"
    }
    whole = field["defaults"].get("color", {}).get("fixedColor")
    return found | ({"": whole} if whole else {})


def variables(expression: str) -> set[str]:
    """Return the names of the variables in *expression*, without dollar signs."""
    return {braced or bare for braced, bare in _VARIABLE.findall(expression)}


def filled(
    expression: str,
    *,
    rate_interval: str = "15s",
    range: str = "1h",
    job: str = ".*",
    instance: str = ".*",
) -> str:
    """Return *expression* with its variables replaced, as Grafana does before a query.

    Raises:
        KeyError: it has a variable that is not one of `VARIABLES`.
    """
    values = {"job": job, "instance": instance, "__rate_interval": rate_interval}
    values |= {"__range": range, "__interval": rate_interval}
    return _VARIABLE.sub(lambda found: values[found[1] or found[2]], expression)
