"""Each example in config/ finds what users call the same, on a stream that it was not tuned on."""

import re
from itertools import islice

import pytest

from streamfilter.config.loading import load_config
from streamfilter.config.starter import EXAMPLES, StarterFile, example_file
from streamfilter.preflight.example import fitting
from tests.acceptance.shipped import documents
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


@pytest.mark.parametrize("name", EXAMPLES)
def test_init_knows_a_stream_by_its_texts(name):
    """It writes the settings of the example, which is also a file that stands alone."""
    texts = [[*record.values()][-1] for _, record in islice(STREAMS[name](SEED, 150), 200)]
    assert fitting(texts).name == name
    assert fitting(texts[:10]) is None
    assert example_file(name) == (ROOT / f"config/{name}.yaml").read_text(), "copy it"


@pytest.mark.slow
def test_a_stream_of_no_such_habit_has_the_default_settings():
    assert fitting(text for _, text in islice(documents(), 0, 1_000, 5)) is None


def test_one_quotation_is_no_mail_and_prices_are_no_logs():
    quoted = "About bridge {}.\n\n> It will close.\n\nSo they said."
    prices = "EUR 0.{:02} per kilogram"
    for template, wrong in ((quoted, "mail"), (prices, "logs")):
        fit = fitting(template.format(number) for number in range(50))
        assert fit is None or fit.name != wrong


def test_the_file_of_init_has_the_settings_of_the_example(tmp_path):
    for name in EXAMPLES:
        file = tmp_path / f"{name}.yaml"
        file.write_text(StarterFile(topic="a", example=name).text_of_file())
        ours, theirs = (load_config([each], {}) for each in (file, ROOT / f"config/{name}.yaml"))
        assert (ours.similarity, ours.verify) == (theirs.similarity, theirs.verify)
        assert ours.input.short_text == theirs.input.short_text
        assert ours.input.topic == "a"


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
