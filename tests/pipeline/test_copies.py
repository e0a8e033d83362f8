"""A copy of what is remembered costs the index one key, and nobody can tell by the verdicts."""

import random
from dataclasses import replace
from itertools import repeat

import numpy as np
import pytest

from streamfilter.index.memory import MemoryIndex
from streamfilter.matching.pipeline import MatchPolicy, judge
from streamfilter.model import Source, Verdict
from tests.pipeline.test_sequential_model import SKETCHER, batch_of, run_in_batches, story

POLICY = MatchPolicy()
STORIES = [" ".join(story(random.Random(number), 60)) for number in range(40)]
EDITED = [f"{text} and more" for text in STORIES[:10]]
NEW = [" ".join(story(random.Random(number), 60)) for number in range(100, 110)]


@pytest.fixture
def asked(monkeypatch):
    """Return how many keys each later probe of bands asks for."""
    found: list[int] = []
    probe = MemoryIndex.probe

    def noted(self, keys, present=None, signatures=None):
        if keys.shape[1] > 1:
            found.append(int(present[:, :-1].sum()))
        return probe(self, keys, present, signatures)

    monkeypatch.setattr(MemoryIndex, "probe", noted)
    return found


def judged(index, sketches):
    first = index.progress.next_ordinal
    n = len(sketches)
    return judge(
        batch_of([f"e{row}" for row in range(n)], range(first, first + n)),
        sketches,
        index=index,
        policy=POLICY,
        locate=lambda partition, offset: Source("t", partition, offset),
        number=index.progress.next_batch,
        first_ordinal=first,
    )


@pytest.fixture
def index():
    index = MemoryIndex(slots=128)
    run_in_batches(STORIES, repeat(40), index, POLICY)
    return index


def test_the_bands_of_copies_are_not_looked_for(index, asked):
    decisions = judged(index, SKETCHER.sketch([*STORIES, *EDITED, *NEW])).decisions
    assert asked == [16 * (len(EDITED) + len(NEW))]
    verdicts = [each.verdict for each in decisions]
    assert verdicts[:40] == [Verdict.EXACT_DUPLICATE] * 40
    assert verdicts[40:50] == [Verdict.NEAR_DUPLICATE] * 10
    assert verdicts[50:] == [Verdict.UNIQUE] * 10
    assert [each.match.document_id for each in decisions[:50]] == [
        f"d{row}" for row in (*range(40), *range(10))
    ]


def test_an_equal_key_of_another_text_makes_no_copy(index, asked):
    """The key is 64 bits, which a chance or an enemy may make equal; the fingerprint has 128."""
    sketches = SKETCHER.sketch(EDITED)
    keys = sketches.keys.copy()
    keys[:, -1] = SKETCHER.sketch(STORIES[20:30]).keys[:, -1]
    decisions = judged(index, replace(sketches, keys=keys)).decisions
    assert asked == [16 * len(EDITED)]
    assert [each.verdict for each in decisions] == [Verdict.NEAR_DUPLICATE] * 10
    assert [each.match.document_id for each in decisions] == [f"d{row}" for row in range(10)]


def test_a_copy_takes_no_room_in_a_bucket_of_its_batch(index):
    """It enters no bucket, so those behind it find what they would find without it."""
    behind = [f"{text} and others" for text in NEW]
    alone = judged(index, SKETCHER.sketch([*NEW, *behind]))
    beside = judged(index, SKETCHER.sketch([*STORIES, *NEW, *STORIES, *behind]))
    shift = {f"e{row}": f"e{40 + row}" for row in range(10)}
    assert [shift[each.match.document_id] for each in alone.decisions[10:]] == [
        each.match.document_id for each in beside.decisions[90:]
    ]
    assert np.flatnonzero(beside.unique).tolist() == list(range(40, 50))
