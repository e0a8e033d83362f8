"""Unicode's normal forms of hostile runs of marks: Python's own result, without its time."""

import random
import unicodedata
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamfilter.similarity.scheme import Normalisation
from streamfilter.similarity.text import ordering
from streamfilter.similarity.text.normalisation import Normaliser
from streamfilter.similarity.text.ordering import RUN_MAX, normal_form
from tests.support.cases import cases

FORMS = ("NFC", "NFD", "NFKC", "NFKD")
MARKS = [chr(p) for p in range(0x20000) if unicodedata.combining(chr(p))]
# What becomes marks without being one, and what composes with marks or parts them.
NEIGHBOURS = [
    *("\u0344", "\u0f73", "\u0f75", "\u0f81", "\uff9e", "\uff9f", "a", "\u1ea4", "\u01d5"),
    *("が", "か", "\u1100", "\u1161", "\u11a8", " ", "\u00b4", "\u034f", "\u200d", "\ud800", "😀"),
]


@pytest.mark.parametrize("form", FORMS)
@given(st.lists(st.sampled_from(MARKS + NEIGHBOURS * 9), max_size=150).map("".join))
def test_long_runs_become_what_python_makes_of_them(form, text):
    assert normal_form(form, text) == unicodedata.normalize(form, text)


@cases("form", FORMS)
@cases("length", [RUN_MAX - 1, RUN_MAX, RUN_MAX + 1, 7 * RUN_MAX])
def test_runs_around_the_bound_at_every_place_become_what_python_makes_of_them(form, length):
    rng = random.Random(length)
    for place in range(RUN_MAX + 2):
        run = "".join(rng.choices(MARKS, k=length))
        text = f"{'x' * place}{run}e\u0301{run}\u1ea4"
        assert normal_form(form, text) == unicodedata.normalize(form, text)


@pytest.mark.parametrize("form", ["NFD", "NFKD"])
def test_nothing_but_these_code_points_become_marks(form):
    became = (unicodedata.normalize(form, chr(point))[0] for point in range(0x110000))
    marks = [point for point, first in enumerate(became) if unicodedata.combining(first)]
    assert np.flatnonzero(ordering._marks(form)).tolist() == marks


def test_what_python_sorts_by_insertion_is_in_order_already(monkeypatch):
    """The quadratic part is the number of marks that change places: after us there are none."""
    moved = Counter()

    def watched(form, text):
        if len(text) > RUN_MAX:
            classes = list(map(unicodedata.combining, text))
            pairs = pairwise(classes)
            moved[form] += sum(a > b > 0 for a, b in pairs)
        return unicodedata.normalize(form, text)

    monkeypatch.setattr(ordering, "unicodedata", _Watched(watched))
    text = "a" + "\u0300\u0316" * 20_000
    assert (
        Normaliser(Normalisation())(text) == ("à" + "\u0316" * 20_000 + "\u0300" * 19_999).encode()
    )
    assert moved == {"NFKC": 0}


class _Watched:
    """`unicodedata`, with its normalisation watched."""

    combining = staticmethod(unicodedata.combining)
    decomposition = staticmethod(unicodedata.decomposition)

    def __init__(self, normalize):
        self.normalize = normalize
