"""Floods: whatever arrives, candidates, comparisons and buckets stay bounded, and are counted.

Counts, not seconds. The attacker knows the algorithm and every setting, but not the seed.
"""

import random
from contextlib import closing

import numpy as np
import pytest

from streamfilter.index.bands.bucket_overflow import DEPTH, cap_at
from streamfilter.index.directory.opening import open_index
from streamfilter.index.memory import MemoryIndex
from streamfilter.index.progress import Progress
from streamfilter.index.protocol import Additions, Changes, Documents
from streamfilter.matching.blocking.candidate_limit import LimitedCandidates
from streamfilter.matching.blocking.candidates import Candidates
from streamfilter.matching.explanation import explain
from streamfilter.matching.pipeline import Batch, MatchPolicy, _Rounds, judge
from streamfilter.matching.verdict.decision import Fate
from streamfilter.matching.verdict.verification import Verifier
from streamfilter.model import Source, Verdict
from streamfilter.similarity.scheme import Scheme
from streamfilter.similarity.sketch import Sketcher
from tests.bench.flooding import FLOODS, SKETCHER, Enemy, attacked
from tests.bench.flooding import Flood as Flooding
from tests.bench.judging import IDENTITY

SCHEME = Scheme(16, 6)
CAP = 8
KEYS = SCHEME.bands + 1
LONGER_CAP = cap_at(CAP, 1)
CANDIDATES = CAP * KEYS + LONGER_CAP * DEPTH * SCHEME.bands
POLICY = MatchPolicy()
BATCH = 2_000


class Flood:
    """An index under a flood, and the most that any document of it cost."""

    def __init__(self, sketcher: Sketcher | None = None) -> None:
        self.sketcher = sketcher or Sketcher(SCHEME, seed=bytes(range(16)))
        self.index = MemoryIndex(SCHEME.widths, bucket_cap=CAP)
        self.verdicts: list[Verdict] = []
        self.candidates_max = self.verified = self.skipped = self.overflows = self.longer = 0

    def take(self, texts: list[str]) -> None:
        sketches, first = self.sketcher.sketch(texts), len(self.verdicts)
        n = len(texts)
        batch = Batch(
            [f"d{first + i}" for i in range(n)], np.zeros(n, np.int64),
            np.arange(first, first + n), np.zeros(n, np.int64),
        )  # fmt: skip
        told = judge(
            batch, sketches, index=self.index, policy=POLICY, number=first, first_ordinal=first,
            locate=lambda p, o: Source("t", p, o),
        )  # fmt: skip
        progress = Progress(next_ordinal=first + n, next_batch=first + 1)
        applied = self.index.apply(Changes(progress, told.additions))
        self.verdicts += [each.verdict for each in told.decisions]
        counts = told.counts
        self.candidates_max = max(self.candidates_max, int(counts.candidates.max()))
        self.verified += len(counts.confirmed) + len(counts.rejected)
        self.skipped += counts.skipped
        self.overflows += applied.overflows
        self.longer += applied.longer
        assert counts.candidates.max() <= CANDIDATES
        buckets = self.index.probe(sketches.keys, None, sketches.contents.signatures)
        assert buckets.counts.max() <= CAP
        assert all(level.counts.max(initial=0) <= LONGER_CAP for level in buckets.deeper)


def flood_of(texts: list[str]) -> Flood:
    flood = Flood()
    for start in range(0, len(texts), BATCH):
        flood.take(texts[start : start + BATCH])
    return flood


def additions_of(sketches, first):
    place = np.arange(first, first + len(sketches))
    documents = Documents(
        ordinals=place, ids=[f"d{ordinal}" for ordinal in place.tolist()], batches=place,
        partitions=place * 0, offsets=place, timestamps=place, contents=sketches.contents,
    )  # fmt: skip
    return Additions(documents, sketches.keys)


def words(rng: random.Random, count: int) -> str:
    return " ".join(f"w{rng.randrange(100_000)}" for _ in range(count))


@pytest.mark.slow
@pytest.mark.parametrize("number", [8_000, pytest.param(1_000_000, marks=pytest.mark.long)])
def test_equal_texts_cost_one_candidate_each_and_one_document_of_memory(number):
    text = words(random.Random(1), 60)
    flood = Flood()
    for _ in range(0, number, 2_000):
        flood.take([text] * 2_000)
    assert flood.verdicts[0] is Verdict.UNIQUE
    assert set(flood.verdicts[1:]) == {Verdict.EXACT_DUPLICATE}
    assert len(flood.index) == 1
    assert flood.candidates_max <= 1
    assert flood.overflows == 0


@pytest.fixture
def asked(monkeypatch) -> list[int]:
    """How many rows each round has judged behind a batch's first, by the index alone."""
    rows, judged = [], _Rounds.round

    def counted(self, undecided):
        if self._outcomes:
            rows.append(int(undecided.sum()))
        return judged(self, undecided)

    monkeypatch.setattr(_Rounds, "round", counted)
    return rows


@pytest.mark.slow
def test_copies_behind_variants_are_judged_twice_not_over_and_over(asked):
    """With guesses by estimates, which err near the threshold, these took 2,318 in ten rounds."""
    enemy, flood = Enemy(0), Flood(sketcher=SKETCHER)
    for texts in (
        enemy.variants(Flooding(1_500, 12, 0)),
        [" ".join(enemy.text)],
        enemy.copies(1_000),
    ):
        asked.clear()
        for start in range(0, len(texts), 500):
            flood.take(texts[start : start + 500])
    assert sum(asked) <= 2 * 1_000


@pytest.mark.slow
def test_a_flood_of_hopeful_variants_is_compared_with_as_many_as_are_estimated(monkeypatch):
    """None of them matches, so each document goes on to the last of its candidates."""
    enemy, flood, compared = Enemy(2), Flood(sketcher=SKETCHER), []
    judged = Verifier.round

    def counted(self, asked, own):
        found = judged(self, asked, own)
        compared.append(len(self._compared[0]))
        return found

    flood.take(enemy.variants(Flooding(600, 9, 0)))
    monkeypatch.setattr(Verifier, "round", counted)
    for text in enemy.variants(Flooding(30, 9, 0)):
        flood.take([text])
    assert POLICY.max_candidates < max(compared) <= POLICY.max_estimated
    assert sum(compared) > 15 * 8 * POLICY.max_candidates


def test_texts_of_one_template_fill_buckets_that_count_what_they_leave_out(asked):
    rng = random.Random(2)
    template = words(rng, 60)
    texts = [f"{template} {words(rng, 30)}" for _ in range(BATCH)]
    flood = flood_of(texts)
    # They depend on each other in a chain; to look at all of them each time would be BATCH squared.
    assert sum(asked) <= 64 * BATCH
    assert flood.verdicts.count(Verdict.UNIQUE) > 0.75 * BATCH
    assert flood.longer > 0
    assert flood.overflows == 0
    assert flood.candidates_max <= CANDIDATES
    assert flood.verified <= len(texts) * CANDIDATES


def colliding(seed: bytes, number: int) -> list[str]:
    """Texts made to share the first band key of *seed*: tried, not computed."""
    rng, sketcher = random.Random(3), Sketcher(SCHEME, seed=seed)
    found: list[str] = []
    base = words(rng, 40)
    target = sketcher.sketch([base]).keys[0, 0]
    while len(found) < number:
        tried = [f"{base} {words(rng, 20)}" for _ in range(200)]
        hits = sketcher.sketch(tried).keys[:, 0] == target
        found += [text for text, hit in zip(tried, hits.tolist(), strict=True) if hit]
    return found[:number]


def fullest(flood: Flood, texts: list[str]) -> int:
    """Return how many of *texts* share the most popular band key."""
    keys = flood.sketcher.sketch(texts).keys[:, : SCHEME.bands]
    return int(np.unique(keys, return_counts=True)[1].max())


def test_texts_that_collide_under_a_guessed_seed_do_not_under_the_secret_one():
    guessed = bytes(16)
    texts = colliding(guessed, 60)
    known = Sketcher(SCHEME, seed=guessed).sketch(texts).keys[:, : SCHEME.bands]
    aimed = int(np.unique(known, return_counts=True)[1].max())
    flood = flood_of(texts)
    assert fullest(flood, texts) < aimed
    assert flood.candidates_max <= CANDIDATES


def test_one_token_more_each_time_is_bounded_too():
    growing = [" ".join(f"t{n}" for n in range(i, i + 40)) for i in range(400)]
    flood = flood_of(growing)
    assert flood.candidates_max <= CANDIDATES
    assert flood.verified <= len(growing) * CANDIDATES


def test_the_most_similar_are_compared_not_those_that_share_most_bands(tmp_path):
    """By shared bands 147 of 200 copies were missed: of a thousand variants some are luckier."""
    with closing(open_index(tmp_path / "index", IDENTITY, bucket_cap=255)) as index:
        assert attacked(index, Flooding(1_000, 12, 0), seed=1, batch=100).recall >= 0.98


@pytest.mark.slow
@pytest.mark.parametrize(
    "flood",
    [*FLOODS, Flooding(3_000, 12, 0.93)],
    ids=lambda flood: f"{flood.variants}-{flood.changes}",
)
def test_a_flood_of_variants_does_not_hide_the_copies_that_follow(flood, tmp_path):
    """Before buckets split: 575 of 600 copies came out as unique behind 80 variants."""
    with closing(open_index(tmp_path / "index", IDENTITY)) as index:
        assert attacked(index, flood, seed=3, batch=100).recall >= flood.recall


def test_what_full_buckets_hide_is_counted_exactly():
    """Of documents that share all keys, 8 are listed at first and 4 times 64 under longer ones."""
    sketcher = Sketcher(SCHEME, seed=bytes(range(16)))
    index = MemoryIndex(SCHEME.widths, bucket_cap=CAP)
    room, more = CAP + DEPTH * LONGER_CAP, 5
    text, number = words(random.Random(4), 60), 0
    for count in [1] * (CAP + 2) + [room - CAP - 4] + [1] * (more + 2):
        additions = additions_of(sketcher.sketch([text] * count), number)
        applied = index.apply(Changes(Progress(next_ordinal=number + count), additions))
        hidden = number >= room
        assert (applied.faint, applied.unlisted) == (hidden, hidden)
        assert applied.longer == (16 * count if CAP <= number < room else 0)
        number += count
    assert number == room + more


def test_of_a_crowd_only_so_many_are_fetched_and_looked_at(tmp_path, monkeypatch):
    """Before, a copy behind a thousand variants looked at 400 of them, and at more behind more.

    And at all that could have a say again in each round of its batch.
    """
    looked, estimated, estimates = [0], [0], Verifier._estimates

    def counted(self, rows, at):
        looked.append(int(np.bincount(rows, minlength=1).max()))
        estimated.append(len(rows))
        return estimates(self, rows, at)

    monkeypatch.setattr(Verifier, "_estimates", counted)
    with closing(open_index(tmp_path / "index", IDENTITY)) as index:
        seen = attacked(index, Flooding(1_000, 12, 0), seed=3, batch=100)
    assert seen.candidates > 2 * POLICY.max_estimated
    assert max(looked) == POLICY.max_estimated
    last = sum(estimated[-3:])  # of a batch of 100: all once, for a guess, and in one round
    assert last < 100 * (POLICY.max_estimated + 3 * POLICY.max_candidates)


def test_the_foremost_of_a_crowd_share_most_then_are_oldest_and_an_equal_text_stays():
    rows = np.array([0, 0, 0, 0, 0, 1, 1])
    ordinals = np.array([3, 5, 6, 8, 9, 3, 7])
    weights = np.array([4, 2, 4, 8, 0, 2, 6])
    same = np.array([False, False, False, False, True, False, False])
    met = Candidates.of(rows, ordinals, bands=weights, weights=weights, same_text=same)
    limited = LimitedCandidates.of([met], documents=2, most=2)
    assert limited.met.tolist() == [5, 2]
    assert limited.candidates.ordinals.tolist() == [3, 8, 9, 3, 7]
    assert limited.places.tolist() == [1, 0, 2, 1, 0]
    one, five = np.array([1]), np.array([5])
    own = Candidates.of(one - 1, np.array([20]), bands=one, weights=five, same_text=one > 1)
    stay, own_stay = limited.stay(own)
    assert limited.candidates.where(stay).ordinals.tolist() == [8, 9, 3, 7]
    assert own_stay.tolist() == [True]


def test_explain_tells_who_was_outnumbered_as_the_filter_judges(tmp_path):
    with closing(open_index(tmp_path / "index", IDENTITY)) as index:
        attacked(index, Flooding(1_000, 12, 0), seed=3, batch=100)
        enemy = Enemy(3)
        enemy.variants(Flooding(1_000, 12, 0))
        copy = SKETCHER.sketch(enemy.copies(1))
        told = explain(index, copy, policy=POLICY, before=1_001)
    outnumbered = [step for step in told.candidates if step.finding.fate is Fate.OUTNUMBERED]
    assert len(told.candidates) == POLICY.max_estimated + len(outnumbered) > 200
    assert told.decision.verdict is Verdict.NEAR_DUPLICATE
    assert told.decision.matches_truncated
    assert outnumbered[0].finding.why.startswith("not compared: 128 others share more keys")


def test_explain_shows_what_it_met_under_longer_keys(tmp_path):
    with closing(open_index(tmp_path / "index", IDENTITY)) as index:
        attacked(index, Flooding(160, 12, 0), seed=3, batch=100)
        enemy = Enemy(3)
        enemy.variants(Flooding(160, 12, 0))
        told = explain(index, SKETCHER.sketch(enemy.copies(1)), policy=POLICY, before=161)
    assert told.decision.verdict is Verdict.NEAR_DUPLICATE
    assert told.decision.matches[0].ordinal == 160
    split = [bucket for bucket in told.buckets if bucket.longer]
    assert split
    assert all(bucket.full and bucket.documents == CAP for bucket in split)
    assert told.candidates[0].bands
