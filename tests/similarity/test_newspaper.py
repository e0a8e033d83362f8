"""The news-article trick: a page is its article, not its adverts."""

import random

import numpy as np
import pytest

from streamfilter.similarity.exact import jaccard
from streamfilter.similarity.scheme import Scheme, Shingling
from streamfilter.similarity.sketch import Sketcher
from tests.support.newspapers import article, furniture, page

pytestmark = pytest.mark.usefixtures("signer")

SEED, PAGES = 20_261_122, 80


def similarities(shingling):
    """Return J of "same article, other adverts" and of "same adverts, other article"."""
    rng = random.Random(SEED)
    texts = []
    for _ in range(PAGES):
        (one, other), (here, there) = ([make(rng), make(rng)] for make in (article, furniture))
        texts += [page(one, here), page(one, there), page(other, here)]
    s = Sketcher(Scheme(16, 6, shingling=shingling), seed=bytes(16)).sketch(texts)
    samples = s.contents.samples
    pages = 3 * np.arange(PAGES)
    return tuple(jaccard(samples, pages, samples, pages + i).similarity for i in (1, 2))


def test_stop_word_shingles_tell_articles_from_adverts_where_runs_of_words_cannot():
    same_article, same_adverts = similarities(Shingling("stopword", 2))
    by_words, by_words_adverts = similarities(Shingling("word", 3))
    gap, gap_by_words = (
        np.min(good) - np.max(bad)
        for good, bad in ((same_article, same_adverts), (by_words, by_words_adverts))
    )
    assert gap > gap_by_words + 0.25, SEED
    assert gap > 0.4, SEED
    assert same_article.mean() > by_words.mean() + 0.2
    assert same_adverts.mean() < by_words_adverts.mean() / 2


@pytest.mark.parametrize("threshold", [0.5, 0.6])
def test_a_threshold_that_words_cannot_have_finds_the_articles(threshold):
    same_article, same_adverts = similarities(Shingling("stopword", 2))
    by_words, _ = similarities(Shingling("word", 3))
    assert (same_article >= threshold).mean() > 0.95
    assert (same_adverts >= threshold).sum() == 0
    assert (by_words >= threshold).mean() < 0.5
