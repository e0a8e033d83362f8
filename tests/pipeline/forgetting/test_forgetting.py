"""Verdicts of an index that forgets by id, held to the sequential model."""

import os
import random
from dataclasses import replace

import numpy as np
import pytest

from streamfilter.index.directory.identity import Identity
from streamfilter.index.directory.inspection import inspect
from streamfilter.index.directory.opening import open_index
from streamfilter.index.directory.read_only_view import viewed
from streamfilter.index.errors import IndexDamaged
from streamfilter.index.memory import MemoryIndex
from streamfilter.index.progress import Progress
from streamfilter.index.protocol import Changes
from streamfilter.index.rocks.options import MIB, Memory
from streamfilter.matching.batch import Prepared, Rules, decide
from streamfilter.matching.blocking.forgetting import CutBatch, named_removals
from streamfilter.matching.blocking.retention import Extent
from streamfilter.matching.pipeline import MatchPolicy
from streamfilter.model import BatchMark, Reason, Source, Span, Unjudged, Verdict
from streamfilter.similarity.columns import Widths
from streamfilter.similarity.scheme import Scheme
from streamfilter.similarity.sketch import Sketcher, Sketches
from tests.pipeline.forgetting.ageing import Ageing
from tests.pipeline.test_sequential_model import SEED, SKETCHER, batch_of, plain
from tests.support.arrivals import arrival, buckets_of

STORIES = int(os.environ.get("STORIES", "60"))
"""For more of them: ``STORIES=5000 pytest tests/pipeline/forgetting/test_forgetting.py``."""
SHORT = ("forward", "drop", "exact_only")
IDS = 25
"""So few that several documents have one, and some tombstones meet no one."""
SCOPED = Sketcher(Scheme(16, 6, digests=("scope /tenant",)), seed=SEED)
SCOPES = (None, '"a"', '"b"')


def tombstone(*ids: str, scope: tuple[str | None, ...] = ()) -> Unjudged:
    return Unjudged(Verdict.PASSTHROUGH, Reason.TOMBSTONE, ids, scope)


def fields(rng: random.Random) -> tuple[str | None, str | None]:
    """Return two values that come again, or are absent."""
    guid, url = (rng.choice((None, None, f"{rng.randrange(40)}")) for _ in range(2))
    return guid, url


class Story(Ageing):
    """Windows, horizons and tombstones, judged by the model record by record."""

    def __init__(self, seed: int, known_id: str = "judge", *, also: bool = False) -> None:
        super().__init__(seed)
        short = self.rng.choice(SHORT) if also or known_id == "duplicate" else "exact_only"
        self.policy = replace(self.policy, known_id=known_id, short_text=short)
        self.model.rules = replace(self.model.rules, known_id=known_id, short_text=short)
        numbers = [self.rng.randrange(IDS) for _ in self.texts]
        self.ids = [f"d{number}" if number or known_id == "judge" else "" for number in numbers]
        self.share = self.rng.choice((0.1, 0.5))
        self.sketcher, self.scopes = SKETCHER, random.Random(seed)
        scoped = self.scopes.random() < 0.5  # ids of several scopes, tombstones of one or of all
        values = [(self.scopes.choice(SCOPES),) * scoped for _ in self.texts]
        if also:
            values = [(*each, *fields(self.rng)) for each in values]
        if scoped or also:
            digests = ("scope /tenant",) * scoped + ("also /guid", "also /url") * also
            self.sketcher = Sketcher(Scheme(16, 6, digests=digests), seed=SEED)
            self.sketches = self.sketcher.sketch(self.texts, values)
            self.policy = replace(self.policy, also_same=self.sketcher.scheme.also_same)
        self.unheard = self.forgotten = self.cut = self.updates = 0

    def prepared(self, records: list, first: int) -> Prepared:
        """Return *records*: None is the next document, the others are tombstones."""
        others = {row: each for row, each in enumerate(records) if each is not None}
        rows = [row for row in range(len(records)) if row not in others]
        chosen = np.arange(first, first + len(rows))
        scopes = {row: SCOPED.scope(*each.scope) for row, each in others.items() if each.scope}
        batch = batch_of([self.ids[at] for at in chosen], chosen)
        sketches = Sketches(self.sketches.contents.at(chosen), self.sketches.keys[chosen])
        documents = sketches if rows else None
        return Prepared([None] * len(records), others, rows, batch, documents, scopes)

    def told(self, records: list) -> list:
        """Return what the model says of each document of *records*."""
        verdicts = []
        for each in records:
            if each is None:
                at, before = self.model.next_ordinal, len(self.model.documents)
                verdicts.append(self.model.judge(arrival(self.ids[at], self.sketches, at)))
                added = at in self.model.documents
                gone = before + added - len(self.model.documents)
                self.forgotten += gone
                self.updates += gone > 0
                continue
            scope = SCOPED.scope(*each.scope) if each.scope else b""
            gone = self.model.forget_id(*each.forgets, scope=scope)
            self.forgotten += len(gone)
            self.unheard += not gone
        return verdicts

    def run(self, *indexes) -> list[tuple]:
        """Judge all of it with the first index, write to all; return (wanted, got) pairs."""
        pairs, index, rng = [], indexes[0], self.rng
        rules = Rules(self.policy, lambda p, o: Source("t", p, o))
        records = [None for _ in self.ids]
        for _ in range(int(len(records) * self.share / (1 - self.share))):
            names = (f"d{rng.randrange(IDS + 5)}",) if rng.random() < 0.9 else ()
            own = self.sketcher.scheme.scope and self.scopes.random() < 0.7
            scope = (self.scopes.choice(SCOPES),) if own else ()
            records.insert(rng.randrange(len(records)), tombstone(*names, scope=scope))
        while records:
            done, number = index.progress.next_ordinal, index.progress.next_batch
            extent = self.aged(index, 0.2)
            some = records[: rng.choice((1, 3, 10, 30, 90))]
            while True:
                prepared = self.prepared(some, done)
                try:
                    decided = decide(
                        prepared, index, rules, number=number, first_ordinal=done, reread=False,
                        extent=extent,
                    )  # fmt: skip
                    break
                except CutBatch as cut:
                    some = some[: cut.records]
                    self.cut += 1
            got = [decided.outcomes[row] for row in prepared.rows]
            pairs += zip(self.told(some), got, strict=True)
            records = records[len(some) :]
            self.unheard -= decided.forgotten.unknown
            self.updates -= decided.forgotten.updates
            self.forgotten -= decided.forgotten.own + len(decided.forgotten.stored)
            end = done + len(prepared.rows)
            spans = (Span(0, done, end),) if end > done else ()
            mark = BatchMark(number, done, end, spans, extent.horizon, number)
            progress = Progress(positions={0: end}, next_batch=number + 1, next_ordinal=end,
                                horizon=extent.horizon)  # fmt: skip
            removals = named_removals(decided.forgotten.stored, index, self.sketcher.keys_of)
            for each in indexes:
                each.apply(Changes(progress, decided.additions, (mark,), removals, extent.opens))
        return pairs


@pytest.mark.slow
@pytest.mark.parametrize("also", [False, True])
@pytest.mark.parametrize("known_id", ["judge", "update", "duplicate"])
def test_verdicts_with_tombstones_equal_the_sequential_model_whatever_the_batches(known_id, also):
    kinds, methods, counted, cut = set(), set(), 0, 0
    for seed in range(STORIES):
        story = Story(seed, known_id, also=also)
        index = MemoryIndex(story.sketcher.scheme.widths, bucket_cap=story.cap, ids=True)
        pairs = story.run(index)
        for i, (want, got) in enumerate(pairs):
            assert plain(got) == (want.verdict, want.matches, want.truncated), (seed, i)
            methods.add(want.method)
            assert want.method in ("", got.method), (seed, i)
        if not index.progress.horizon:  # else the model does not know what still is on the disk
            assert (story.forgotten, story.unheard, story.updates) == (0, 0, 0)
            counted += 1
        kinds |= {want.verdict for want, _ in pairs}
        buckets = {place: len(bucket) for place, bucket in story.model.buckets.items() if bucket}
        stored = {place: len(bucket) for place, bucket in buckets_of(index).items()}
        oldest = index.windows[0].number
        assert stored == {at: n for at, n in buckets.items() if at[0] >= oldest}, seed
        cut += story.cut
        living = [o for o in story.model.documents if o >= index.progress.horizon]
        assert len(index) == len(living)
        assert index.fetch(np.array(living, np.int64)).ordinals.tolist() == living
    by_name = {"same_field"} if also else set()
    assert methods == {"", *by_name, *(("same_id",) if known_id == "duplicate" else ())}
    short = {"passthrough", "dropped"} if also or known_id == "duplicate" else set()
    assert kinds == {"unique", "near_duplicate", "exact_duplicate", *short}
    assert counted
    assert cut > 5, "places that a tombstone frees are taken in the same batch"


@pytest.mark.parametrize("seed", range(6))
def test_the_index_on_disk_forgets_the_same(tmp_path, seed):
    """Some of the seeds have scopes, and some have values of `verify.also_same`."""
    known_id = ("judge", "update", "duplicate", "duplicate", "judge", "update")[seed]
    story = Story(seed, known_id, also=seed >= 3)
    scheme = story.sketcher.scheme
    memory = MemoryIndex(scheme.widths, bucket_cap=story.cap, ids=True)
    identity = Identity.new(
        scheme=scheme.as_json(), fingerprint=scheme.fingerprint, created=0, seed=SEED
    )
    bounds = Memory(cache_bytes=4 * MIB, memtable_bytes=4 * MIB)
    rocks = open_index(tmp_path, identity, bucket_cap=story.cap, memory=bounds, ids=True)
    story.run(rocks, memory)
    assert list(rocks.dump()) == list(memory.dump())
    rocks.close()
    with viewed(tmp_path, seed=SEED) as view:
        assert inspect(view, story.sketcher.keys_of).problems == []


def test_a_tombstone_of_who_is_older_than_the_horizon_takes_them_away_and_is_unknown():
    sketches = SKETCHER.sketch([" ".join(f"{letter}{i}" for i in range(12)) for letter in "abc"])
    batch = batch_of(["old", "old", "new"], np.arange(3))
    rules = Rules(MatchPolicy(), lambda p, o: Source("t", p, o))
    index = MemoryIndex(Widths(128), bucket_cap=8, ids=True)
    numbers = {"number": 0, "first_ordinal": 0, "reread": False}
    first = decide(Prepared([None] * 3, {}, [0, 1, 2], batch, sketches), index, rules, **numbers)
    index.apply(Changes(Progress(next_batch=1, next_ordinal=3), first.judgement.additions))
    others = {row: tombstone(id_) for row, id_ in enumerate(("old", "new", "nobody"))}
    nothing = Prepared([None] * 3, others, [], batch_of([], np.arange(0)), None)
    numbers = {"number": 1, "first_ordinal": 3, "reread": False}
    forgotten = decide(nothing, index, rules, extent=Extent(horizon=2), **numbers).forgotten
    stored = index.fetch(np.arange(3)).ordinals.tolist()
    assert (forgotten.stored.tolist(), forgotten.unknown) == (stored, 2)
    assert stored == [0, 1, 2]


def test_a_table_of_ids_that_names_missing_documents_is_damage_and_no_endless_tombstone():
    index = MemoryIndex(SKETCHER.scheme.widths, ids=True)
    missing = np.array([7, 9])
    with pytest.raises(IndexDamaged, match="2 documents by id, from ordinal 7 on"):
        named_removals(missing, index, SKETCHER.keys_of)
    assert named_removals(missing[:0], index, SKETCHER.keys_of) is None
