"""Queries Prometheus for a panel's series and legends, over the last minutes or now."""

from __future__ import annotations

import json
import re
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deploy.grafana.reading import Panel, Target, filled

Numbers = NDArray[np.float64]
STEPS = 150
"""Number of points in a line."""


@dataclass(frozen=True, slots=True)
class Line:
    """One series: Unix times and values of the same length; NaN: no value at that time."""

    legend: str
    times: Numbers
    values: Numbers


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

    def _lines(self, panel: Panel, target: Target) -> list[Line]:
        # Four scrapes, as in Grafana: one late scrape leaves no gap.
        window = f"{4 * self.scrape_seconds}s"
        expression = filled(target.expression, rate_interval=window, range=f"{self.seconds}s")
        if target.instant:
            found = self._api("query", query=expression, time=f"{self.until}")
            pairs = [(each["metric"], [each["value"]]) for each in found]
        else:
            step = max(1, self.seconds // STEPS)
            begin = f"{self.until - self.seconds}"
            found = self._api("query_range", query=expression, start=begin,
                              end=f"{self.until}", step=f"{step}")  # fmt: skip
            pairs = [(each["metric"], each["values"]) for each in found]
        return [_line(panel.title, target.legend, *pair) for pair in pairs]

    def _api(self, path: str, **parameters: str) -> list[dict[str, Any]]:
        query = urllib.parse.urlencode(parameters)
        with urllib.request.urlopen(f"{self.url}/api/v1/{path}?{query}", timeout=30) as answer:
            found: list[dict[str, Any]] = json.load(answer)["data"]["result"]
        return found


def _line(title: str, legend: str, labels: Mapping[str, str], points: list[list[Any]]) -> Line:
    name = title if legend == "__auto" else re.sub(
        r"\{\{(\w+)\}\}", lambda found: labels.get(found[1], ""), legend
    )  # fmt: skip
    times = np.array([float(time) for time, _ in points])
    return Line(name, times, np.array([float(value) for _, value in points]))
