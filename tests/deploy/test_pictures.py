"""Pictures of the dashboards: drawn panel by panel, also of panels without data."""

import time

import numpy as np
import pytest

from deploy.grafana.asking import Line, Marked, Source
from deploy.grafana.reading import DIRECTORY, events, panels
from deploy.grafana.units import written
from tests.support.cases import cases


class Recorded(Source):
    """Answers without a Prometheus; every third panel has nothing to show."""

    def lines(self, panel):
        if len(panel.title) % 3 == 0:
            return []
        edges = ["0.5", "1.0", "+Inf"] if panel.kind == "heatmap" else ["a", "b"]
        times = np.linspace(self.until - self.seconds, self.until, 5)
        return [Line(edge, times, np.arange(5.0) * n) for n, edge in enumerate(edges)]

    def marks(self, path):
        return [Marked(colour, [self.until - 30]) for _, colour in events(path)]


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted(DIRECTORY.glob("*.json")), ids=lambda path: path.stem)
def test_every_panel_is_in_the_picture(path):
    from deploy.grafana.pictures import picture  # a second for matplotlib, of each worker

    source = Recorded("", 60, time.time(), 1)
    whole = {text.get_text() for text in picture(path, source, every=True).texts}
    assert {panel.title for panel in panels(path)} <= whole
    assert {panel.row for panel in panels(path)} <= whole
    shown = {text.get_text() for text in picture(path, source).texts}
    left = [panel for panel in panels(path) if panel.closed or not source.lines(panel)]
    assert left
    absent = {each.title for each in left} | {each.row for each in left if each.closed}
    drawn = {panel.title for panel in panels(path) if panel not in left}
    assert shown == whole - (absent - drawn)


@cases(
    ("value", "unit", "text"),
    [
        (200.0, "cps", "200/s"),
        (0.437, "percentunit", "44%"),
        (0.9966, "percentunit", "99.66%"),
        (0.06, "s", "60 ms"),
        (3 * 2.0**20, "bytes", "3 MiB"),
        (1536.0, "Bps", "1.5 KiB/s"),
        (34_000.0, "short", "34 k"),
        (float("nan"), "short", "–"),
        (0.0, "s", "0 s"),
    ],
)
def test_a_number_is_written_as_a_person_reads_it(value, unit, text):
    assert written(value, unit) == text
