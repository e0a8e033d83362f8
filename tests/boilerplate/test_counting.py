"""What counts as boilerplate of a sample: in bounded memory, and not the text of a reprint."""

import random
from collections import Counter

import numpy as np
import pytest

from streamfilter.quality.sample.boilerplate import Boilerplate, boilerplate_of, with_table
from streamfilter.quality.sample.heavy_hitters import HeavyHitters
from streamfilter.similarity.scheme import Scheme
from streamfilter.similarity.sketch import Sketcher
from tests.boilerplate.pages import COPIES, pages, words

SEED = bytes(16)
SCHEME = Scheme(16, 6)


def found_in(texts: list[str], at_least: int = 10, compared: int = 0) -> Boilerplate:
    return boilerplate_of(
        texts, SCHEME, seed=SEED, share=0.001, at_least=at_least, threshold=0.8, compared=compared
    )


def dropped(found: Boilerplate, text: str) -> float:
    """Return the share of the shingles of *text* that *found* drops."""
    taken = Sketcher(with_table(SCHEME, found.table), seed=SEED).boilerplate_in(text)
    assert taken is not None
    return taken.shingles / taken.of


@pytest.mark.parametrize("counters", [7, 50, 1_000])
def test_a_count_is_never_too_high_and_too_low_by_the_stated_error(counters: int) -> None:
    rng = np.random.default_rng(counters)
    heavy, exact = HeavyHitters(counters), Counter[int]()
    for _ in range(200):
        block = np.unique(rng.zipf(1.3, 30) % 5_000).astype(np.uint64)
        heavy.add(block)
        exact.update(block.tolist())
    tokens, counts = heavy.from_(1)
    assert len(tokens) <= counters
    counted = dict(zip(tokens.tolist(), counts.tolist(), strict=True))
    assert all(
        count - heavy.error <= counted.get(token, 0) <= count for token, count in exact.items()
    )
    assert heavy.error <= exact.total() / counters
    assert bool(heavy.error) is (len(exact) > counters)


def test_footers_and_banners_are_found_and_articles_are_not() -> None:
    sample = pages()
    found = found_in([each.text for each in sample], compared=1_000)
    menu, banner, article, footer = sample[0].text.split("\n")
    assert [dropped(found, each) for each in (menu, banner, footer)] == [1, 1, 1]
    assert dropped(found, article) == 0
    assert found.table.sample.left == (0, len(sample), 0)
    around = {part for page in sample for part in page.text.split("\n")}
    assert {each.text for each in found.passages[:40]} & around, "passages as they stand"
    assert (found.effect.documents, found.effect.after) == (len(sample), COPIES)


def test_the_same_sample_in_another_order_gives_the_same_file() -> None:
    texts = [each.text for each in pages(articles=120)]
    assert found_in(texts).table.to_bytes() == found_in(texts[::-1]).table.to_bytes()


def test_copies_of_a_text_count_once() -> None:
    texts = [each.text for each in pages()]
    rng = random.Random(1)
    copied = words(rng, 120)
    found = found_in([*texts, *[copied] * 500])
    assert dropped(found, copied) == 0
    assert (found.given, found.table.sample.documents) == (len(texts) + 500, len(texts) + 1)


@pytest.mark.slow
@pytest.mark.parametrize(("headline", "apart"), [(12, True), (60, False)], ids=["headline", "lead"])
def test_a_story_that_forty_papers_reprint_is_no_boilerplate(headline: int, apart: bool) -> None:
    """Behind known footers it leaves nothing of its own; with a lead of 60 words it does."""
    rng = random.Random(5)
    footers = [words(rng, rng.randint(60, 500)) for _ in range(40)]
    story = words(rng, 300)
    texts = [f"{words(rng, 80)}\n{rng.choice(footers)}" for _ in range(960)]
    texts += [f"{words(rng, headline)}\n{story}\n{footer}" for footer in footers]
    rng.shuffle(texts)
    found = found_in(texts)
    assert (dropped(found, story) < 0.02) is apart
    assert found.alike == (40 if apart else 0)
    assert dropped(found, footers[0]) == 1
    assert dropped(found_in(texts, at_least=41), story) < 0.02, "at_least protects it"


def test_a_sample_smaller_than_the_least_number_has_no_boilerplate() -> None:
    assert len(found_in([each.text for each in pages(articles=9, copies=0)]).table) == 0
    assert len(found_in([]).table) == 0


def test_hostile_texts_are_counted_as_any_others() -> None:
    rng = random.Random(2)
    footer = f"{'x' * 300} \0 \ud800 {words(rng, 30)}"
    texts = [f"{words(rng, 40)} \x1b[31m {'y' * 60_000} {footer}" for _ in range(30)]
    found = found_in([*texts, "", "\0", "a b"])
    assert 0.5 < dropped(found, footer) < 1, "a word of 300 bytes is left out"
