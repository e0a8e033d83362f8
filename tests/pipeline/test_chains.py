"""Texts; each depends on the one before: captions, the tail of a log, edits of edits."""

import random
from itertools import repeat

import pytest

from streamfilter.index.memory import MemoryIndex
from streamfilter.matching.law import Law, Settings
from streamfilter.matching.pipeline import WIDTH_GROWTH, MatchPolicy
from streamfilter.matching.verdict.verification import Verifier
from streamfilter.similarity.columns import Widths
from streamfilter.similarity.scheme import Scheme
from streamfilter.similarity.sketch import Sketcher
from tests.pipeline.test_sequential_model import SEED, SKETCHER, plain, run_in_batches, story
from tests.support.arrivals import arrival

DOCUMENTS = 600
"""With 400, a round that looks at all rows again keeps the bound."""


def windows(width: int, step: int) -> list[str]:
    words = story(random.Random(width), DOCUMENTS * step + width)
    return [" ".join(words[row * step : row * step + width]) for row in range(DOCUMENTS)]


def growing() -> list[str]:
    words = story(random.Random(7), DOCUMENTS + 40)
    return [" ".join(words[max(row - 150, 0) : row + 40]) for row in range(DOCUMENTS)]


def edits_of_edits() -> list[str]:
    rng, texts = random.Random(8), []
    words = story(rng, 60)
    for row in range(DOCUMENTS):
        words[rng.randrange(60)] = f"x{row}"
        texts.append(" ".join(words))
    return texts


CHAINS = {
    "captions": windows(40, 1),
    "long windows": windows(200, 1),
    "a tail of a log": windows(120, 4),
    "a text that grows": growing(),
    "edits of edits": edits_of_edits(),
    "one text again and again": windows(60, 1)[:1] * DOCUMENTS,
    "two texts in turn": windows(60, 90)[:2] * (DOCUMENTS // 2),
    "edits of edits, each sent three times": [
        text for text in edits_of_edits()[: DOCUMENTS // 3] for _ in range(3)
    ],
}


FIELDS = Sketcher(Scheme(16, 6, digests=("also /a", "also /b", "also /c")), seed=SEED)
Values = list[tuple[str | None, ...]]


def ladder() -> tuple[list[str], Values]:
    """The second half is a chain; the first half, all withheld, has its values in reverse."""
    half = DOCUMENTS // 2
    values: Values = [("0", *rung(row, None)) for row in reversed(range(half))]
    values += [(None, *rung(row, str(row + 1))) for row in range(half)]
    return [" ".join(story(random.Random(row), 20)) for row in range(DOCUMENTS)], values


def rung(row: int, following: str | None) -> tuple[str | None, str | None]:
    return (following, str(row)) if row % 2 else (str(row), following)


def in_turn() -> tuple[list[str], Values]:
    """A row has the text of the one before it, the next one its value, and so on."""
    texts = [" ".join(story(random.Random((row + 1) // 2), 20)) for row in range(DOCUMENTS)]
    return texts, [(str(row // 2), None, None) for row in range(DOCUMENTS)]


@pytest.fixture
def looked(monkeypatch):
    """Return how many rows each round looks at."""
    rows: list[int] = []
    real = Verifier.round

    def noted(self, asked, own):
        rows.append(int(asked.sum()))
        return real(self, asked, own)

    monkeypatch.setattr(Verifier, "round", noted)
    return rows


@pytest.mark.parametrize("most", [1, 8])
@pytest.mark.parametrize("kind", CHAINS)
def test_rounds_over_a_chain_look_at_each_row_a_few_times(kind, most, looked):
    """Two rounds look at all; each one after them settles a quarter of what it looks at."""
    policy = MatchPolicy(max_candidates=most)
    run_in_batches(CHAINS[kind], repeat(DOCUMENTS), MemoryIndex(Widths(128)), policy)
    assert sum(looked) <= (2 + WIDTH_GROWTH + 1) * DOCUMENTS
    assert len(looked) <= DOCUMENTS / 25


@pytest.mark.parametrize("kind", [ladder, in_turn])
def test_rounds_over_a_chain_of_values_look_at_each_row_a_few_times(kind, looked):
    texts, values = kind()
    policy = MatchPolicy(also_same=FIELDS.scheme.also_same)
    index = MemoryIndex(FIELDS.scheme.widths, ids=True)
    decisions = run_in_batches(texts, repeat(DOCUMENTS), index, policy, FIELDS, values=values)
    assert len(looked) <= DOCUMENTS / 25
    model, sketches = Law(Settings()), FIELDS.sketch(texts, values)
    expected = [model.judge(arrival(f"d{row}", sketches, row)) for row in range(DOCUMENTS)]
    assert [plain(each)[:2] for each in decisions] == [
        (each.verdict, each.matches) for each in expected
    ]


@pytest.mark.parametrize(("most", "cap"), [(1, 8), (8, 8), (8, 1)])
@pytest.mark.parametrize("kind", CHAINS)
def test_verdicts_on_a_chain_are_the_sequential_models_however_batches_are_cut(kind, most, cap):
    texts = CHAINS[kind][:300]
    model, sketches = Law(Settings(max_candidates=most, bucket_cap=cap)), SKETCHER.sketch(texts)
    expected = [model.judge(arrival(f"d{row}", sketches, row)) for row in range(len(texts))]
    policy = MatchPolicy(max_candidates=most)
    for sizes in (repeat(300), iter([1, 7, 60, 100, 132])):
        index = MemoryIndex(Widths(128), bucket_cap=cap)
        decisions = run_in_batches(texts, sizes, index, policy)
        for got, want in zip(decisions, expected, strict=True):
            assert plain(got) == (want.verdict, want.matches, want.truncated)
