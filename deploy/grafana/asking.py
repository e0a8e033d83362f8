"""Queries Prometheus for a panel's series and legends, over the last minutes or now."""

from __future__ import annotations

import json
import re
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deploy.grafana.reading import Panel, Target, events, filled

Numbers = NDArray[np.float64]
STEPS = 150
"""Number of points in a line."""
RUN = 60.0
"""Seconds: events that are closer are one."""


@dataclass(frozen=True, slots=True)
class Line:
    """One series: Unix times and values of the same length; NaN: no value at that time."""

    legend: str
    times: Numbers
    values: Numbers


@dataclass(frozen=True, slots=True)
class Marked:
    """The Unix times of one kind of event, such as a takeover."""

    colour: str
    times: Sequence[float]


@dataclass(frozen=True, slots=True)
class Source:
    """A Prometheus server, and the time range to show."""

    url: str
    seconds: int
    until: float
    scrape_seconds: int

    def lines(self, panel: Panel) -> list[Line]:
        """Return the lines of *panel*, in the order of its queries."""
        return [line for target in panel.targets for line in self._lines(panel, target)]

    def marks(self, path: Path) -> list[Marked]:
        """Return the first event of each run, for each kind in the dashboard at *path*."""
        return [
            Marked(colour, _first_times(self._over_time(self._filled(expression))))
            for expression, colour in events(path)
        ]

    def _lines(self, panel: Panel, target: Target) -> list[Line]:
        expression = self._filled(target.expression)
        if target.instant:
            found = self._api("query", query=expression, time=f"{self.until}")
            pairs = [(each["metric"], [each["value"]]) for each in found]
        else:
            pairs = self._over_time(expression)
        return [_line(panel.title, target.legend, *pair) for pair in pairs]

    def _filled(self, expression: str) -> str:
        # Four scrapes, as in Grafana: one late scrape leaves no gap.
        window = f"{4 * self.scrape_seconds}s"
        return filled(expression, rate_interval=window, range=f"{self.seconds}s")

    def _over_time(self, expression: str) -> list[tuple[dict[str, str], list[list[Any]]]]:
        step, begin = max(1, self.seconds // STEPS), f"{self.until - self.seconds}"
        found = self._api("query_range", query=expression, start=begin,
                          end=f"{self.until}", step=f"{step}")  # fmt: skip
        return [(each["metric"], each["values"]) for each in found]

    def _api(self, path: str, **parameters: str) -> list[dict[str, Any]]:
        query = urllib.parse.urlencode(parameters)
        with urllib.request.urlopen(f"{self.url}/api/v1/{path}?{query}", timeout=30) as answer:
            found: list[dict[str, Any]] = json.load(answer)["data"]["result"]
        return found


def _first_times(series: Sequence[tuple[Mapping[str, str], list[list[Any]]]]) -> list[float]:
    """Return the first time of each run of values that are less than a minute apart."""
    times = sorted({float(time) for _, points in series for time, _ in points})
    return [at for at, before in zip(times, [-inf, *times], strict=False) if at - before > RUN]


def _line(title: str, legend: str, labels: Mapping[str, str], points: list[list[Any]]) -> Line:
    name = title if legend == "__auto" else re.sub(
        r"\{\{(\w+)\}\}", lambda found: labels.get(found[1], ""), legend
    )  # fmt: skip
    times = np.array([float(time) for time, _ in points])
    return Line(name, times, np.array([float(value) for _, value in points]))
