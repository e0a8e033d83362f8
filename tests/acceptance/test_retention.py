"""Real text with a retention: what brute force finds among the remembered, and nothing older."""

import gzip
import json

import pytest

from streamfilter import Deduplicator
from tests.acceptance.test_corpora import DATA, LARGE, PRECISION

NAME = "reuters21578"
THRESHOLD, SURE = 0.8, 0.84
"""From the one on a pair is right, from the other on it must be found: as for the service."""


@pytest.fixture
def news() -> list[tuple[str, str, int]]:
    """Return the corpus: ids, texts, and seconds since the epoch, 0 for a few without a date."""
    path = DATA / f"{NAME}.jsonl.gz"
    if not path.exists():
        pytest.skip(f"{path.name} is not beside this checkout: not tried on {LARGE[NAME]}")
    with gzip.open(path) as file:
        return [(each["id"], each["text"], each.get("ts", 0)) for each in map(json.loads, file)]


def similar(place: dict[str, int]) -> dict[tuple[int, int], float]:
    """Return (later, earlier) -> similarity of all similar pairs, by their *place*."""
    with gzip.open(DATA / f"{NAME}.word3.tsv.gz", "rt") as file:
        pairs = (line.split("\t") for line in file)
        known = (each for each in pairs if each[0] in place and each[1] in place)
        places = ((place[one], place[other], float(jaccard)) for one, other, jaccard, *_ in known)
        return {(max(a, b), min(a, b)): jaccard for a, b, jaccard in places}


@pytest.mark.slow
def test_the_last_quarter_of_the_news_meets_what_brute_force_finds_in_it_and_nothing_older(news):
    remembered, place = len(news) // 4, {id_: row for row, (id_, *_) in enumerate(news)}
    exact = similar(place)
    with Deduplicator(retention_documents=remembered) as stories:
        rows = stories.add_many([(id_, text) for id_, text, _ in news])
    found = {(row, place[each.id]) for row, alike in enumerate(rows) for each in alike}
    assert all(0 < later - one < remembered for later, one in found)
    living = {pair: each for pair, each in exact.items() if pair[0] - pair[1] < remembered}
    wanted = {pair for pair, jaccard in living.items() if jaccard >= SURE}
    assert len(wanted) > 500
    assert sum(jaccard >= THRESHOLD for jaccard in exact.values()) > 550  # some were forgotten
    assert len(found & wanted) >= 0.99 * len(wanted)
    right = {pair for pair in found if living.get(pair, 0.0) >= THRESHOLD}
    assert len(right) >= PRECISION * len(found)
