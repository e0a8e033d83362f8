"""Verdicts of an index that forgets do not depend on where batches are cut.

The judge is the sequential model, which takes one record at a time. Batches of 1, 7 and 4,000
records must give its verdicts and its lists. The streams have retentions, windows, tombstones, full
buckets, records that are no documents, and records that are read again.
"""

import random
from dataclasses import replace

import numpy as np
import pytest

from streamfilter.index.memory import MemoryIndex
from streamfilter.index.progress import Progress
from streamfilter.index.protocol import Changes
from streamfilter.matching.batch import Decided, Prepared, Rules, decide
from streamfilter.matching.blocking.forgetting import CutBatch, removals_of
from streamfilter.matching.blocking.retention import EVERYTHING, Retention
from streamfilter.matching.law import Bounds, Law, Settings
from streamfilter.matching.pipeline import Batch, MatchPolicy
from streamfilter.model import BatchMark, Decision, Reason, Record, Source, Span, Unjudged, Verdict
from streamfilter.similarity.columns import Widths
from streamfilter.similarity.sketch import Sketches
from tests.pipeline.test_sequential_model import SKETCHER, flood, plain, stream
from tests.support.arrivals import arrival, buckets_below

NOW = 10**12
SEEDS = (*range(10), 109, 144)
"""A planted bug of `simulator/planted.py` that these stories can show fails at least three."""


class Story:
    """Records of one partition: documents, tombstones, and what is neither."""

    def __init__(self, seed: int) -> None:
        rng = random.Random(seed)
        texts = (flood if rng.random() < 0.5 else stream)(rng, 240)
        self.texts = [" ".join(text.split()[:60]) for text in texts]
        self.sketches = SKETCHER.sketch(self.texts)
        self.cap = rng.choice((1, 2, 8))
        self.policy = MatchPolicy(max_candidates=rng.choice((1, 8)), short_text="exact_only")
        self.rules = Rules(self.policy, lambda p, o: Source("t", p, o))
        time = rng.choice((None, 30_000, 100_000))
        documents = rng.choice((None, 20, 100)) if time else rng.choice((5, 20, 100))
        self.retention = Retention(documents=documents, time=time, least=rng.choice((1, 15)))
        chance = random.Random(-seed)
        within = chance.choice((None, 1_000, 9_000, 40_000))
        if within is not None and chance.random() < 0.4:
            self.retention = Retention()
        self.retention = replace(self.retention, within=within)
        self.kinds = [rng.choices(("document", "tombstone", "other"), (8, 1, 1))[0] for _ in texts]
        self.ids = [f"d{rng.randrange(80)}" for _ in texts]
        self.records, stamp = [], NOW // 2
        for offset in range(len(texts)):
            stamp += rng.choice((0, 1_000, 1_000, 5_000, -7_000))
            came = rng.choice(
                (stamp, stamp, stamp, stamp, 0, 2 * NOW if rng.random() < 0.01 else 0)
            )
            self.records.append(Record(Source("t", 0, offset), None, b"", (), came))

    def prepared(self, records: list[Record]) -> Prepared:
        offsets = [each.source.offset for each in records]
        rows = [row for row, offset in enumerate(offsets) if self.kinds[offset] == "document"]
        others = {}
        for row, offset in enumerate(offsets):
            if self.kinds[offset] != "document":
                names = (self.ids[offset],) if self.kinds[offset] == "tombstone" else None
                others[row] = Unjudged(Verdict.PASSTHROUGH, Reason.TOMBSTONE, names)
        chosen = np.array([offsets[row] for row in rows], np.int64)
        ids = [self.ids[at] for at in chosen]
        batch = Batch(ids, 0 * chosen, chosen, 0 * chosen)
        sketches = Sketches(self.sketches.contents.at(chosen), self.sketches.keys[chosen])
        return Prepared(records, others, rows, batch, sketches if rows else None)

    def told(self) -> tuple[list, dict]:
        """Return the model's verdicts by offset, and its lists."""
        kept = self.retention
        model = Law(Settings(max_candidates=self.policy.max_candidates, bucket_cap=self.cap))
        memory, time, verdicts = Bounds(kept.documents, kept.time, kept.least, kept.within), -1, {}
        ahead = NOW + min(3_600_000, (kept.time or 10**10) // 4, (kept.within or 10**10) // 4)
        for record in self.records:
            offset, time = record.source.offset, max(time, min(record.timestamp, ahead))
            if self.kinds[offset] == "document":
                model.arrive(time, memory)
                verdicts[offset] = model.judge(arrival(self.ids[offset], self.sketches, offset))
            if self.kinds[offset] == "tombstone":
                model.forget_id(self.ids[offset])
            model.pass_time(time, memory)
        return verdicts, model

    def decided(self, index: MemoryIndex, records: list[Record], *, reread: bool) -> Decided:
        progress = index.progress
        while True:
            prepared, extent = self.prepared(records), EVERYTHING
            if not reread:
                extent = self.retention.extent_of(index, records, prepared.rows, NOW)
            try:
                return decide(
                    prepared, index, self.rules, number=progress.next_batch,
                    first_ordinal=progress.next_ordinal, reread=reread, extent=extent,
                )  # fmt: skip
            except CutBatch as cut:
                records = records[: cut.records]

    def lived(self, size: int) -> tuple[dict[int, Decision], MemoryIndex]:
        index, verdicts, left = (
            MemoryIndex(Widths(128), bucket_cap=self.cap, ids=True),
            {},
            self.records,
        )
        while left:
            decided = self.decided(index, left[:size], reread=False)
            verdicts |= self.verdicts(decided)
            self.write(index, decided)
            left = left[len(decided.prepared.records) :]
        return verdicts, index

    def verdicts(self, decided: Decided) -> dict[int, Decision]:
        pairs = zip(decided.prepared.records, decided.outcomes, strict=True)
        return {r.source.offset: each for r, each in pairs if isinstance(each, Decision)}

    def write(self, index: MemoryIndex, decided: Decided) -> None:
        progress, extent, ages = index.progress, decided.extent, decided.ages
        records = decided.prepared.records
        spans = (Span(0, records[0].source.offset, records[-1].source.offset + 1),)
        after = progress.next_ordinal + len(decided.prepared.rows)
        mark = BatchMark(
            progress.next_batch, progress.next_ordinal, after, spans, extent.horizon,
            extent.marked_time, ages.encoded(spans) if ages else b"",
        )  # fmt: skip
        following = Progress(
            positions={0: spans[0].end}, next_batch=progress.next_batch + 1, next_ordinal=after,
            highest_timestamp=extent.stream_time, horizon=extent.horizon,
        )  # fmt: skip
        removals = removals_of(decided.forgotten.stored, index, SKETCHER.keys_of)
        index.apply(Changes(following, decided.additions, (mark,), removals, extent.opens))

    def again(self, index: MemoryIndex, rng: random.Random) -> dict[int, Decision]:
        """Read all of it again, in other batches."""
        verdicts, left = {}, self.records
        while left:
            size = rng.randrange(1, 90)
            verdicts |= self.verdicts(self.decided(index, left[:size], reread=True))
            left = left[size:]
        return verdicts


@pytest.mark.parametrize("seed", SEEDS)
def test_batches_of_1_7_and_4000_records_give_the_verdicts_of_one_record_at_a_time(seed):
    story = Story(seed)
    wanted, model = story.told()
    for size in (1, 7, 4_000):
        verdicts, index = story.lived(size)
        for offset, want in wanted.items():
            got = plain(verdicts[offset])
            assert got == (want.verdict, want.matches, want.truncated), (seed, size, offset)
        assert verdicts.keys() == wanted.keys()
        oldest = index.windows[0]
        assert index.progress.horizon == model.horizon
        assert oldest.first_ordinal in model.firsts
        lists = {
            (window.number, key): bucket
            for window, part in index._parts.items()
            for key, bucket in part._buckets.items()
            if bucket
        }
        assert lists == buckets_below(model, 1 << 40, oldest.number), (seed, size)


@pytest.mark.parametrize("seed", SEEDS)
def test_records_that_are_read_again_get_their_verdicts_whatever_the_batches(seed):
    """As long as what they met is stored; without tombstones, which nothing undoes."""
    story = Story(seed)
    story.kinds = ["other" if kind == "tombstone" else kind for kind in story.kinds]
    story.records = [
        replace(each, timestamp=each.timestamp % NOW or NOW // 2) for each in story.records
    ]
    story.retention = replace(story.retention, least=1_000)
    for size in (1, 7, 4_000):
        verdicts, index = story.lived(size)
        again = story.again(index, random.Random(seed))
        for offset, first in verdicts.items():
            assert plain(again[offset]) == plain(first), (seed, size, offset)


def test_so_little_is_remembered_in_these_stories_that_it_matters():
    forgotten, kinds, opened = 0, set(), set()
    for seed in SEEDS:
        verdicts, index = Story(seed).lived(4_000)
        forgotten += index.progress.horizon > 0
        opened.add(index.windows[-1].number)
        kinds |= {each.verdict for each in verdicts.values()}
    assert forgotten > 7
    assert max(opened) > 8
    assert kinds == {Verdict.UNIQUE, Verdict.NEAR_DUPLICATE, Verdict.EXACT_DUPLICATE}
