"""`explain A B` shows what each step made of two texts; a pattern's problem names its setting."""

import json

import pytest

from streamfilter.cli import main

pytestmark = pytest.mark.usefixtures("alone")

HOW = ["similarity.normalise.html=true", "similarity.normalise.mask=[url, number]"]
PAIR = [
    "<p>The ship https://a.org/x carries 5 of 7 cranes</p>",
    "the ship url carries 0 of 0 cranes",
]
SETTINGS = [each for setting in HOW for each in ("--set", setting)]


def test_each_step_is_shown_with_what_it_left(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", *PAIR, *SETTINGS, "-o", "json"]) == 0
    prepared = json.loads(capsys.readouterr().out)["prepared"]
    assert [step for step, _ in prepared["a"]] == ["html", "mask url", "mask number", "normalised"]
    assert prepared["a"][-1][1] == PAIR[1]
    assert prepared["b"] == []


def test_a_person_sees_the_steps_below_the_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", *PAIR, *SETTINGS]) == 0
    said = capsys.readouterr().out
    assert "verdict       exact_duplicate" in said
    assert "A after mask url" in said
    assert "B stays as it is" in said


def test_without_steps_nothing_is_added(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", *PAIR]) == 0
    assert "after" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("mask", "wrong"),
    [('[{pattern: "(", as: x}]', "missing )"), ("[urls]", "expected tracking, url")],
)
def test_a_mask_that_cannot_be_made_names_its_setting(mask, wrong, capsys):
    assert main(["check", "--set", f"similarity.normalise.mask={mask}"]) == 78
    said = capsys.readouterr()
    assert "similarity.normalise.mask: " in said.out + said.err
    assert wrong in said.out + said.err
