"""All capabilities together: a random story has the verdicts of the sequential model.

A seed draws a configuration (`Configuration`) and a stream for it. The fast path judges the stream
in batches of any size. The law takes one record at a time, in the order in which these were judged.
Verdicts, matches, lists and horizon must be equal, also when the records are read again.

For more stories, and a table of what they had: ``STORIES=0:5000 pytest -s FILE -k equal``.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache, partial

import numpy as np
import pytest

from streamfilter.assembly import sketcher_for
from streamfilter.documents.fields.values import canonical
from streamfilter.entities.joined import join_fields
from streamfilter.entities.kinds import keys_of
from streamfilter.entities.scoring import score
from streamfilter.index.memory import MemoryIndex
from streamfilter.index.progress import Progress
from streamfilter.index.protocol import Changes, Index
from streamfilter.matching.batch import Decided, Prepared, Rules, decide
from streamfilter.matching.blocking.forgetting import CutBatch, named_removals
from streamfilter.matching.blocking.retention import EVERYTHING, Retention
from streamfilter.matching.law import Bounds, Law, Settings
from streamfilter.matching.pipeline import Batch, MatchPolicy
from streamfilter.model import BatchMark, Decision, Reason, Record, Source, Span, Unjudged, Verdict
from streamfilter.similarity.scheme import Scheme
from tests.pipeline.test_sequential_model import (
    LETTERS,
    POLICIES,
    RECORDS,
    SCHEMES,
    SEED,
    flood,
    plain,
    record,
    stream,
)
from tests.support.arrivals import arrival, buckets_below, buckets_of
from tests.support.values import replace

NOW, DAY = 10**12, 86_400_000
SEEDS = range(*map(int, os.environ.get("STORIES", "50:110").split(":")))
DIGESTS = ("scope /tenant", "agree /date", "agree numbers", "agree urls", "also /url")
DRAWN = {"/tenant": ("a", 7, None), "/date": ("x", "y", None), "/url": (*range(9), *[None] * 20)}
sketcher_of = cache(partial(sketcher_for, seed=SEED))


@dataclass
class Configuration:
    """What a story is judged with: each capability is on by chance."""

    rng: random.Random
    scheme: Scheme = field(init=False)
    policy: MatchPolicy = field(init=False)
    score: object = None
    had: Counter[str] = field(default_factory=Counter)
    """The names of the capabilities that are on."""

    def __post_init__(self) -> None:
        rng = self.rng
        digests = tuple(each for each in DIGESTS if rng.random() < 0.3)
        rules = self._records(digests) if rng.random() < 0.2 else self._texts(digests)
        self.retention = self._retention()
        self.cap = rng.choice((1, 2, 8))
        self.had[f"bucket_cap {self.cap}"] += 1
        for name, values in (
            ("short_text", ("forward", "drop", "exact_only", "exact_only")),
            ("known_id", ("judge", "update", "duplicate")),
            ("max_candidates", (1, 2, 8)),
            ("max_estimated", (128, 128, 40, 5)),
        ):
            rules.setdefault(name, rng.choice(values))
            self.had[f"{name} {rules[name]}"] += 1
        self.policy = MatchPolicy(
            **rules, within=self.retention.within, also_same=self.scheme.also_same
        )
        if self.policy.fields:
            self.score = partial(score, self.policy.field_rules)
        self.topics = rng.choice((1, 1, 2, 3))
        self.had[f"{self.topics} topics"] += 1
        self.forgets = rng.choice((0.0, 0.0, 0.1, 0.4))
        self.had["tombstones"] += self.forgets > 0

    def _texts(self, digests: tuple[str, ...]) -> dict:
        """Draw scheme and measure of texts; return the rules of the policy that go with them."""
        rng = self.rng
        name = rng.choice([*SCHEMES, "default", "default", "default"])
        shape = rng.choice([*POLICIES, "", "", "", "", ""]) if name != "modulus" else ""
        scheme = replace(SCHEMES.get(name, Scheme(16, 6)), digests=digests)
        self.scheme, rules = scheme, dict(POLICIES.get(shape, {}))
        self.had.update([f"scheme {name}", f"measure {shape or 'jaccard'}", *digests])
        modulus = scheme.shingling.sample_modulus
        return rules | {"sample_modulus": modulus, "agree_on": scheme.agree_on}

    def _records(self, digests: tuple[str, ...]) -> dict:
        name = self.rng.choice([*RECORDS])
        self.fields, rules = RECORDS[name]
        kinds = tuple(self.fields.values())
        others = tuple(each for each in digests if not each.startswith("agree"))
        self.scheme = replace(Scheme.of_fields(self.fields, keys=keys_of(kinds)), digests=others)
        self.had.update(["records", f"records {name}", *others])
        return {"threshold": 0.75, "method": "fields", "fields": kinds, **rules}

    def _retention(self) -> Retention:
        rng = self.rng
        found = Retention(
            documents=rng.choice((None, None, 5, 20, 60)),
            time=rng.choice((None, None, 30_000, 100_000)),
            within=rng.choice((None, None, 1_000, 9_000, 40_000)),
            least=rng.choice((1, 15, 1_000)),
        )
        limits = {"retention by number": found.documents, "retention by time": found.time}
        self.had.update(name for name, on in (limits | {"within": found.within}).items() if on)
        self.had["no retention"] += not found.limited
        return found

    def texts(self) -> list[str]:
        """Return texts, or joined records, that show what the configuration does."""
        rng, count = self.rng, self.rng.randrange(30, 100)
        if self.policy.fields:
            drawn = [record(rng) for _ in range(count)]
            return [join_fields([each[place] for place in self.fields]) for each in drawn]
        made = (flood if rng.random() < 0.5 else stream)(rng, count)
        texts = [" ".join(text.split()[:60]) for text in made]
        if rng.random() < 0.2:  # as a feed sends them: a sentence of the one before
            texts = [t if rng.random() < 0.7 else " ".join(t.split()[:20]) for t in texts]
        if "scheme stopword" in self.had:
            texts = [text.replace(" w1", " the w1").replace(" w2", " of w2") for text in texts]
        if self.scheme.agree_on:
            texts = [text.translate(LETTERS) for text in texts]
            texts = [f"{text} {rng.choice(('', '', '7', '9', 'www.a.x'))}" for text in texts]
        return texts

    def law(self) -> Law:
        """Return the law with the same rules."""
        ours, names = self.policy, ("threshold", "method", "agree", "of", "containment",
            "contained", "short_threshold", "short_size", "known_id", "short_text", "least_set",
            "max_candidates", "max_estimated")  # fmt: skip
        rules = {name: getattr(ours, name) for name in names}
        return Law(Settings(**rules, bucket_cap=self.cap, score=self.score))


class Story:
    """Records of some partitions: documents, tombstones, and what is neither."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = random.Random(seed)
        self.given = given = Configuration(rng)
        self.beside: Sequence[Index] = ()
        """Indexes that get the same changes."""
        self.sketcher = sketcher_of(given.scheme)
        texts = given.texts()
        values = [
            tuple(canonical(rng.choice(DRAWN[each]), ()) for each in given.scheme.pointers)
            for _ in texts
        ]
        self.sketches = self.sketcher.sketch(texts, values if given.scheme.digests else ())
        weights = 1 - given.forgets, given.forgets, 0.05
        self.kinds = [rng.choices(("document", "tombstone", "other"), weights)[0] for _ in texts]
        names = rng.choice((30, 300))
        self.ids = [f"d{number}" if (number := rng.randrange(names)) else "" for _ in texts]
        self.scopes = dict[int, bytes]()
        for row, kind in enumerate(self.kinds):  # tombstones of one scope, or of all
            if kind == "tombstone" and given.scheme.scope and rng.random() < 0.7:
                self.scopes[row] = self.sketcher.scope(values[row][0])
        given.had["tombstones of a scope"] = len(self.scopes)
        self.records, self.at = list[Record](), dict[tuple[int, int], int]()
        stamp = NOW // 2
        for row in range(len(texts)):
            number = rng.randrange(given.topics)
            source = Source(f"t{number}", 0, rng.randrange(2) + 2 * row, number)
            stamp += rng.choice((0, 1_000, 1_000, 5_000, -7_000))
            odd = rng.choice((-1, 0, 2 * NOW)) if rng.random() < 0.02 else stamp
            self.records.append(Record(source, None, b"", (), odd))
            self.at[number, source.offset] = row
        self.rules = Rules(given.policy, lambda p, o: Source(f"t{p}", 0, o, p))
        self.index = MemoryIndex(given.scheme.widths, bucket_cap=given.cap, ids=True)
        self.law, self.time = given.law(), -1
        self.wanted, self.decisions = dict[int, object](), dict[int, Decision]()
        self.forgotten = self.unknown = self.updates = 0
        """By the fast path's counts, less the law's."""

    def row(self, one: Record) -> int:
        return self.at[one.source.number, one.source.offset]

    def forgets(self, row: int) -> tuple[str, ...] | None:
        """Return the ids that a record without a text forgets; None: it never forgets."""
        updates = self.kinds[row] == "other" and self.given.policy.known_id == "update"
        tombstone = self.kinds[row] == "tombstone"
        return (self.ids[row],) if tombstone or (updates and self.ids[row]) else None

    def prepared(self, records: list[Record]) -> Prepared:
        all_rows = [self.row(each) for each in records]
        rows = [at for at, row in enumerate(all_rows) if self.kinds[row] == "document"]
        others = {
            at: Unjudged(Verdict.PASSTHROUGH, Reason[kind], self.forgets(row))
            for at, row in enumerate(all_rows)
            if (kind := {"tombstone": "TOMBSTONE", "other": "EMPTY"}.get(self.kinds[row]))
        }
        chosen = np.array([all_rows[at] for at in rows], np.int64)
        places = np.array(
            [(records[at].source.number, records[at].source.offset) for at in rows], np.int64
        ).reshape(-1, 2)
        batch = Batch([self.ids[row] for row in chosen], *places.T, 0 * chosen)
        scopes = {at: self.scopes[row] for at, row in enumerate(all_rows) if row in self.scopes}
        sketches = self.sketches.at(chosen) if rows else None
        return Prepared(records, others, rows, batch, sketches, scopes)

    def judge_by_law(self, records: list[Record]) -> None:
        kept = self.given.retention
        memory = Bounds(kept.documents, kept.time, kept.least, kept.within)
        ahead = NOW + min(3_600_000, (kept.time or 10**10) // 4, (kept.within or 10**10) // 4)
        for each in records:
            row, stamp = self.row(each), each.timestamp if each.timestamp >= 0 else NOW
            self.time = max(self.time, min(stamp, ahead))
            if self.kinds[row] == "document":
                self.law.arrive(self.time, memory)
                at, before = self.law.next_ordinal, len(self.law.documents)
                self.wanted[row] = self.law.judge(arrival(self.ids[row], self.sketches, row))
                gone = before + (at in self.law.documents) - len(self.law.documents)
                self.updates -= gone > 0
                self.forgotten -= gone
            elif names := self.forgets(row):
                gone = len(self.law.forget_id(*names, scope=self.scopes.get(row, b"")))
                self.forgotten -= gone
                if self.kinds[row] == "tombstone":
                    self.unknown -= not gone
                else:
                    self.updates -= gone > 0
            self.law.pass_time(self.time, memory)

    def decided(self, records: list[Record], *, reread: bool) -> Decided:
        progress, retention = self.index.progress, self.given.retention
        records = sorted(records, key=lambda each: (each.source.number, each.source.offset))
        while True:
            prepared, extent = self.prepared(records), EVERYTHING
            if not reread:
                extent = retention.extent_of(self.index, records, prepared.rows, NOW)
            try:
                return decide(
                    prepared, self.index, self.rules, number=progress.next_batch,
                    first_ordinal=progress.next_ordinal, reread=reread, extent=extent,
                )  # fmt: skip
            except CutBatch as cut:
                self.given.had["a batch is cut"] = 1
                records = records[: cut.records]

    def run(self) -> None:
        """Judge all records in batches of several sizes, and let the law judge the same."""
        left, sizes = self.records, self.rng.choice(((3, 7), (40,), (4_000,), (1, 5, 20, 60)))
        while left:
            decided = self.decided(left[: self.rng.choice(sizes)], reread=False)
            self.judge_by_law([*decided.prepared.records])
            self.decisions |= self.verdicts(decided)
            self.count(decided)
            self.write(decided)
            done = {self.row(each) for each in decided.prepared.records}
            left = [each for each in left if self.row(each) not in done]

    def verdicts(self, decided: Decided) -> dict[int, Decision]:
        pairs = zip(decided.prepared.records, decided.outcomes, strict=True)
        return {self.row(r): each for r, each in pairs if isinstance(each, Decision)}

    def count(self, decided: Decided) -> None:
        """Count what became of documents and of candidates."""
        had, judged = self.given.had, decided.judgement
        for each in decided.outcomes:
            if isinstance(each, Decision):
                why = each.method or each.reason or ("too many" if each.matches_truncated else "")
                had[f"verdict {each.verdict} {why}".rstrip()] += 1
                had["candidates left out"] += each.matches_truncated
        gone = decided.forgotten
        had["documents forgotten by id"] += len(gone.stored) + gone.own
        had["documents replaced"] += gone.updates
        self.forgotten += len(gone.stored) + gone.own
        self.unknown += gone.unknown
        self.updates += gone.updates
        had["windows begun"] += decided.extent.opens is not None
        if judged is not None:
            had["candidates that differ"] += judged.counts.differing
            had["candidates too old"] += judged.counts.too_old
            had["candidates rejected"] += len(judged.counts.rejected)

    def write(self, decided: Decided) -> None:
        progress, extent, ages = self.index.progress, decided.extent, decided.ages
        spans = dict[int, tuple[int, int]]()
        for each in decided.prepared.records:
            begin, _ = spans.get(each.source.number, (each.source.offset, 0))
            spans[each.source.number] = begin, each.source.offset + 1
        covered = tuple(Span(number, *span) for number, span in sorted(spans.items()))
        after = progress.next_ordinal + len(decided.prepared.rows)
        mark = BatchMark(
            progress.next_batch, progress.next_ordinal, after, covered, extent.horizon,
            extent.marked_time, ages.encoded(covered) if ages else b"",
        )  # fmt: skip
        positions = (progress.positions or {}) | {span.partition: span.end for span in covered}
        following = Progress(
            positions=positions, next_batch=progress.next_batch + 1, next_ordinal=after,
            highest_timestamp=extent.stream_time, horizon=extent.horizon,
        )  # fmt: skip
        removals = named_removals(decided.forgotten.stored, self.index, self.sketcher.keys_of)
        for index in (self.index, *self.beside):
            index.apply(Changes(following, decided.additions, (mark,), removals, extent.opens))

    def check(self) -> None:
        """Compare verdicts, counts, documents, lists and horizon with the law's."""
        assert self.decisions.keys() == self.wanted.keys()
        for row, want in self.wanted.items():
            got = plain(self.decisions[row])
            assert got == (want.verdict, want.matches, want.truncated), (row, self.given.had)
        oldest, had = self.index.windows[0], self.given.had
        assert self.index.progress.horizon == self.law.horizon, had
        assert oldest.first_ordinal in self.law.firsts
        if not self.law.horizon:  # else the law does not know what still is on the disk
            assert (self.forgotten, self.unknown, self.updates) == (0, 0, 0), had
            living = sorted(self.law.documents)
            assert len(self.index) == len(living)
            assert self.index.fetch(np.array(living, np.int64)).ordinals.tolist() == living
        assert buckets_of(self.index) == buckets_below(self.law, 1 << 40, oldest.number), had
        had["documents that retention forgot"] = self.law.horizon

    def read_again(self) -> bool:
        """Judge all again in other batches, if all that was met is still stored."""
        gone = self.given.had["documents forgotten by id"]
        if gone or self.index.windows[0].first_ordinal:
            return False
        left = self.records
        while left:
            some, left = left[: (size := self.rng.randrange(1, 90))], left[size:]
            for row, again in self.verdicts(self.decided(some, reread=True)).items():
                assert plain(again) == plain(self.decisions[row]), (row, self.given.had)
        return True


ALWAYS = (
    *DIGESTS, "within", "records", "tombstones", "a batch is cut", "2 topics", "bucket_cap 1",
    "retention by number", "retention by time", "known_id update", "known_id duplicate",
    "short_text drop", "short_text exact_only", "measure containment", "read again",
    "tombstones of a scope", "documents replaced", "documents forgotten by id",
    "documents that retention forgot", "windows begun", "candidates that differ",
    "candidates too old", "candidates left out",
    "verdict unique", "verdict near_duplicate exact_jaccard", "verdict exact_duplicate exact_text",
    "verdict near_duplicate exact_containment", "verdict near_duplicate fields",
    "verdict near_duplicate signature", "verdict near_duplicate sketch", "verdict dropped short",
    "verdict exact_duplicate same_id", "verdict exact_duplicate same_field",
    "verdict passthrough short",
)  # fmt: skip
"""What some stories of any ninety or so have."""


@pytest.mark.parametrize(
    "seeds",
    [range(10), *(pytest.param(each, marks=pytest.mark.slow) for each in (range(10, 50), SEEDS))],
)
def test_stories_of_all_capabilities_equal_the_sequential_model(seeds):
    stories, total = Counter[str](), Counter[str]()
    for seed in seeds:
        story = Story(seed)
        try:
            story.run()
            story.check()
            story.given.had["read again"] = story.read_again()
        except Exception as error:
            raise AssertionError(f"seed {seed}: {story.given.had}") from error
        stories.update(name for name, count in story.given.had.items() if count)
        total.update(story.given.had)
    for name, count in sorted(stories.items()):
        print(f"{count:6,} stories {total[name]:9,}  {name}")
    if len(seeds) > 50:
        assert {name for name in ALWAYS if not stories[name]} == set()
