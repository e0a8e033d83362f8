"""A copy of what is remembered costs the index one key, and no one can tell by the verdicts."""

import random
from itertools import repeat

import numpy as np
import pytest

from streamfilter.index.format import name_of
from streamfilter.index.memory import MemoryIndex
from streamfilter.matching.blocking.forgetting import Forgetting, Tombstone
from streamfilter.matching.blocking.retention import Retention
from streamfilter.matching.law import Bounds, Law, Settings
from streamfilter.matching.pipeline import MatchPolicy, judge
from streamfilter.model import Source, Verdict
from streamfilter.similarity.columns import Widths
from tests.pipeline.test_sequential_model import SKETCHER, batch_of, plain, run_in_batches, story
from tests.support.arrivals import arrival
from tests.support.values import replace

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
    index = MemoryIndex(Widths(128))
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


def reigns(text: str, times: int, *, between: int = 3) -> list[str]:
    """A text that comes again when it was forgotten, and each time once more soon after."""
    texts = []
    for turn in range(times):
        others = [" ".join(story(random.Random(f"{text} {turn} {n}"), 30)) for n in range(between)]
        texts += [text, text, *others]
    return texts


@pytest.mark.parametrize("text", ["two words", STORIES[0]], ids=["short", "long"])
@pytest.mark.parametrize("cap", [1, 8])
@pytest.mark.parametrize("size", [1, 5, 37])
def test_a_copy_is_found_however_often_its_text_was_forgotten_before(text, cap, size):
    """The forgotten stay listed as long as their window lives: here for ever."""
    texts, memory = reigns(text, 24), Retention(documents=3, least=10_000)
    policy, index = MatchPolicy(short_text="exact_only"), MemoryIndex(Widths(128), bucket_cap=cap)
    model = Law(Settings(bucket_cap=cap))
    sketches, expected = SKETCHER.sketch(texts), []

    def extents(index, size):
        progress = index.progress
        for row in range(progress.next_ordinal, progress.next_ordinal + size):
            model.arrive(-1, Bounds(memory.documents, None, memory.least))
            expected.append(model.judge(arrival(f"d{row}", sketches, row)))
        return memory.extent(progress, index.windows, times=np.full(size, -1))

    decisions = run_in_batches(texts, repeat(size), index, policy, extents=extents)
    for got, want in zip(decisions, expected, strict=True):
        assert plain(got) == (want.verdict, want.matches, want.truncated)
    verdicts = [str(each.verdict) for text_, each in zip(texts, decisions, strict=True)
                if text_ == text]  # fmt: skip
    assert set(verdicts) == {"unique", "exact_duplicate"}
    first = batch_of([f"d{row}" for row in range(len(texts))], range(len(texts)))
    again = judge(
        first, sketches, index=index, policy=policy,
        locate=lambda partition, offset: Source("t", partition, offset), number=-1,
        first_ordinal=len(texts), as_of=index.marks_covering(first.partitions, first.offsets),
    )  # fmt: skip
    assert [plain(each) for each in again.decisions] == [plain(each) for each in decisions]


def test_a_copy_is_found_however_often_its_batch_forgot_its_text():
    """With a smaller bucket the batch would end at each tombstone (test_one_at_a_time.py)."""
    texts, policy = ["two words"] * 60, MatchPolicy(short_text="exact_only")
    ids = [f"d{row // 3}" for row in range(60)]
    names = [(each, b"") for each in ids]
    tombstones = [Tombstone(row, row, name_of(f"d{row // 3 - 1}")) for row in range(3, 60, 3)]
    index = MemoryIndex(Widths(128), bucket_cap=60, ids=True)
    judged = judge(
        batch_of(ids, range(60)), SKETCHER.sketch(texts), index=index, policy=policy,
        locate=lambda partition, offset: Source("t", partition, offset), number=0, first_ordinal=0,
        forgetting=Forgetting.of(tombstones, names, index, first_ordinal=0, records=range(60)),
    )  # fmt: skip
    verdicts = [str(each.verdict) for each in judged.decisions]
    assert verdicts == ["unique", "exact_duplicate", "exact_duplicate"] * 20
    assert [each.match.document_id for each in judged.decisions if each.match] == [
        f"d{row // 2}" for row in range(40)
    ]
