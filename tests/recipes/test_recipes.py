"""Each example in config/ finds what users call the same, on a stream that it was not tuned on."""

from __future__ import annotations

import re

import pytest

from tests.recipes.figures import measured
from tests.recipes.streams import STREAMS
from tests.support.texts import ROOT

SEED = 20_261
SCATTER = 0.04
"""How far a figure of another seed, or of another Python's documentation, may be below."""

pytestmark = pytest.mark.usefixtures("no_settings")


def stated() -> dict[str, tuple[float, float]]:
    """Return found and right of each example, as config/README.md states them."""
    text = (ROOT / "config/README.md").read_text(encoding="utf-8")
    rows = re.findall(
        r"^\| \[?(\w+)(?:\.yaml\)?\S*)? \| \d+ \| ([\d.]+) \| ([\d.]+) \|", text, re.M
    )
    return {name: (float(found), float(right)) for name, found, right in rows}


def test_the_readme_has_the_figures_of_each_stream():
    assert stated().keys() == STREAMS.keys()


@pytest.mark.slow
@pytest.mark.parametrize("name", STREAMS)
def test_an_example_finds_what_the_readme_says(name):
    ours, default = (
        measured(name, seed=SEED, stories=40 if name == "logs" else 300, recipe=recipe)
        for recipe in (True, False)
    )
    found, right = stated()[name]
    assert ours.found >= found - SCATTER
    assert ours.right >= right - SCATTER
    assert ours.found + ours.right > default.found + default.right
