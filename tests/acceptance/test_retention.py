"""Real text with a retention: what brute force finds among the remembered, and nothing older."""

import gzip
import json
from bisect import bisect_right
from collections.abc import Callable

import pytest

from streamfilter import Deduplicator
from tests.acceptance.test_corpora import DATA, LARGE, PRECISION
from tests.kafka.story import verdicts
from tests.support.stage import Stage
from tests.support.topics import Input, alter_topic

NAME = "reuters21578"
THRESHOLD, SURE = 0.8, 0.84
"""From the one on a pair is right, from the other on it must be found: as for the service."""
BATCH = 200
"""Records."""


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
def test_the_last_quarter_of_the_news_meets_what_brute_force_finds_in_it_and_nothing_older(
    news: list[tuple[str, str, int]],
) -> None:
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


@pytest.mark.long
@pytest.mark.parametrize(("part", "least"), [(4, 500), (100, 400)])
def test_a_part_of_the_dates_is_remembered_topic_to_topic(
    news: list[tuple[str, str, int]], make_stage: Callable[..., Stage], part: int, least: int
) -> None:
    """A backfill ages by its dates: those of eight months of 1987."""
    news = sorted((each for each in news if each[2]), key=lambda each: each[2])
    times, place = [time for *_, time in news], {id_: row for row, (id_, *_) in enumerate(news)}
    remembered = (times[-1] - times[0]) // part
    stage = make_stage()
    for topic in (stage.input, stage.unique, stage.duplicates, stage.dead_letter):
        alter_topic(stage.bootstrap, topic, {"retention.ms": "-1"})  # else the broker forgets first
    stage.produce(
        Input(json.dumps({"id": id_, "text": text}).encode(), timestamp=time * 1_000)
        for id_, text, time in news
    )
    process = stage.start(index={"retention": f"{remembered}s"}, batch={"documents": BATCH})
    stage.drain(process)
    assert process.terminate() == 0, process.told("did not end well")
    found = {place[id_]: match for id_, (_, match) in verdicts(stage).items()}
    # Exact to the batch: who shares one with the first that lives, lives, and who is judged with
    # later ones meets what these do. (By each record's own time 482 of 490 are found of a hundredth
    # of the dates, where a batch is a third of what is remembered; the other eight came with later
    # ones.)
    oldest = [bisect_right(times, time - remembered) for time in times]
    matches = {(row, place[match]) for row, match in found.items() if match}
    assert all(oldest[row] - BATCH < other < row for row, other in matches)
    exact = similar(place)
    wanted = {
        row
        for (row, other), jaccard in exact.items()
        if jaccard >= SURE and other >= oldest[min(row + BATCH, len(news) - 1)]
        if found[other] is None
    }
    assert len(wanted) > least
    assert sum(found[row] is not None for row in wanted) >= 0.99 * len(wanted)
    right = sum(exact.get(pair, 0.0) >= THRESHOLD for pair in matches)
    assert right >= PRECISION * len(matches)
