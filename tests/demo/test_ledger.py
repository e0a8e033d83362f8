"""The demo's books must be able to say that something went wrong."""

import json
from itertools import islice

import pytest

from streamfilter.demo.ledger import INPUT, Ledger
from streamfilter.demo.summary import EXAMPLES, judged, summary
from streamfilter.matching.verdict.evidence_headers import PREFIX
from streamfilter.model import Record, Source
from streamfilter.stories.stream import stories

COUNT = 120


def unique(value: bytes, id_: str, offset: int) -> Record:
    return Record(Source("stories.unique", 0, offset), key=id_.encode(), value=value)


def duplicate(ledger: Ledger, number: int, of: int) -> Record:
    sent = ledger.sent[number]
    match = {"id": ledger.sent[of].story.id, "similarity": 0.9, "bands": 9}
    match |= {"topic": INPUT, "partition": 0, "offset": of}
    ours = {
        "verdict": "near_duplicate",
        "source.topic": INPUT,
        "source.partition": "0",
        "source.offset": str(number),
        "matches": json.dumps([match]),
    }
    headers = tuple((PREFIX + name, value.encode()) for name, value in ours.items())
    source = Source("stories.duplicates", 0, 0)
    return Record(source, key=sent.story.id.encode(), value=sent.value, headers=headers)


@pytest.fixture
def ledger():
    """Books of a filter that forwarded everything but the last story."""
    books = Ledger()
    for story in islice(stories(1), COUNT):
        books.send(story)
    for number, sent in enumerate(books.sent[:-1]):
        books.receive(unique(sent.value, sent.story.id, number))
    return books


def told(ledger: Ledger) -> str:
    return summary(ledger, judged(ledger, threshold=0.8), threshold=0.8)


def test_a_lost_record_is_said(ledger):
    assert "BROKEN: 1 records lost, 0 doubled" in told(ledger)


def test_a_doubled_record_is_said(ledger):
    last = ledger.sent[-1]
    for _ in range(2):
        ledger.receive(unique(last.value, last.story.id, COUNT))
    assert "BROKEN: 0 records lost, 1 doubled" in told(ledger)


def test_a_story_matched_with_itself_is_said(ledger):
    ledger.receive(duplicate(ledger, COUNT - 1, COUNT - 1))
    assert "1 matched with themselves" in told(ledger)


def test_a_story_without_a_difference_to_its_match_is_shown_all_the_same(ledger):
    """Of a kind whose example is shown: else the report of the fault itself would fail."""
    kinds = [sent.story.kind for sent in ledger.sent]
    number = next(number for number, kind in enumerate(kinds) if kind in EXAMPLES)
    ledger.receive(duplicate(ledger, number, number))
    assert "1 matched with themselves" in told(ledger)
    assert f"is a near-duplicate of {ledger.sent[number].story.id}" in told(ledger)


def test_duplicates_that_were_forwarded_cost_recall(ledger):
    ledger.receive(unique(ledger.sent[-1].value, ledger.sent[-1].story.id, COUNT))
    report = judged(ledger, threshold=0.8)
    assert report.sound
    assert report.recalled.counts[1] > 10
    assert report.recall == 0


def test_a_story_withheld_for_an_unrelated_one_costs_precision(ledger):
    unrelated = next(n for n, sent in enumerate(ledger.sent) if sent.story.kind == "short")
    ledger.receive(duplicate(ledger, COUNT - 1, unrelated))
    assert judged(ledger, threshold=0.8).precision == 0
