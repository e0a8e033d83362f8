"""One palette: a colour means the same on every dashboard, in its picture and on the page."""

import colorsys
import json
import re
from pathlib import Path

import numpy as np
import pytest

from deploy.grafana import overview
from deploy.grafana.asking import Line
from deploy.grafana.reading import DIRECTORY, panels
from streamfilter import monitoring
from streamfilter.model import Verdict
from streamfilter.monitoring import colours

GROUNDS = {"light": "#ffffff", "dark": "#181b1f"}
"""What Grafana draws its panels on."""


def luminance(colour: str) -> float:
    """Return WCAG's relative luminance."""
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    lit = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * lit[0] + 0.7152 * lit[1] + 0.0722 * lit[2]


def contrast(one: str, other: str) -> float:
    dark, bright = sorted((luminance(one), luminance(other)))
    return (bright + 0.05) / (dark + 0.05)


def every_colour(of: object) -> set[str]:
    """Return all colours that *of*, a dashboard or a part of it, gives by value or by name."""
    if isinstance(of, list):
        return set().union(*map(every_colour, of))
    if not isinstance(of, dict):
        return set()
    names = ("color", "fixedColor", "iconColor")
    given = {of[name] for name in names if isinstance(of.get(name), str)}
    inner = {name: each for name, each in of.items() if name != "exemplars"}  # Grafana's own
    return given.union(*map(every_colour, inner.values()))


@pytest.mark.parametrize("ground", GROUNDS.values(), ids=GROUNDS)
def test_dashboards_are_the_same_and_readable_in_dark_and_in_light(ground):
    for path in DIRECTORY.glob("*.json"):
        given = every_colour(json.loads(path.read_text()))
        assert given
        for colour in given:
            # A name would be another shade in the other theme, and Grafana's orange is 2.6.
            assert re.fullmatch("#[0-9a-f]{6}", colour), (path.name, colour)
            assert contrast(colour, ground) >= 3, (path.name, colour)


def hue(colour: str) -> float:
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    return 360 * colorsys.rgb_to_hls(*parts)[0]


@pytest.mark.slow
def test_the_page_the_dashboards_and_their_pictures_have_one_palette():
    css = (Path(monitoring.__file__).parent / "page" / "page.css").read_text()
    for verdict, colour in colours.BY_VERDICT.items():
        light, dark = re.findall(rf"--{verdict.value}: (#[0-9a-f]{{6}})", css)
        assert abs(hue(light) - hue(colour)) < 10, verdict
        assert abs(hue(dark) - hue(colour)) < 10, verdict
    assert {v.value: colour for v, colour in colours.BY_VERDICT.items()} == overview.BY_VERDICT
    from deploy.grafana.pictures import line_colours  # a second for matplotlib, of each worker

    (shown,) = (p for p in panels(DIRECTORY / "overview.json") if p.title == "Records by verdict")
    lines = [Line(verdict.value, np.zeros(1), np.zeros(1)) for verdict in Verdict]
    assert line_colours(shown, lines) == [colours.BY_VERDICT[verdict] for verdict in Verdict]


def test_a_picture_zooms_where_its_dashboard_does():
    told = {panel.title: panel for panel in panels(DIRECTORY / "overview.json")}
    recall, traffic = told["Recall, audited, with its interval"], told["Records by verdict"]

    from deploy.grafana.pictures import limits_of

    def limits(panel, *values):
        return limits_of(panel, [Line("", np.zeros(len(values)), np.array(values))])

    assert limits(recall, 0.98, 1.0) == (0.9, pytest.approx(1.002))
    assert limits(recall, 0.4, np.nan) == (0.4, pytest.approx(1.012))
    assert limits(traffic, 70.0, 90.0) == (0.0, None)
