"""The seams that let this grow past one process: each is a function that stands alone."""

import numpy as np

from streamfilter.index.bucket_levels import Level
from streamfilter.index.memory import MemoryIndex
from streamfilter.index.progress import Progress
from streamfilter.index.protocol import Changes
from streamfilter.matching.blocking import candidates
from streamfilter.matching.blocking.candidate_limit import ranks
from streamfilter.matching.blocking.candidates import Candidates, collect
from streamfilter.matching.blocking.visibility import Visibility
from streamfilter.matching.lookup import lookup
from streamfilter.matching.pipeline import Batch, MatchPolicy, accept, judge, settle
from streamfilter.matching.verdict.decision import Outcome, decide
from streamfilter.matching.verdict.verification import _FINEST, _best_first
from streamfilter.model import BatchMark, Record, Source, Span, Verdict
from streamfilter.similarity.columns import Widths
from streamfilter.similarity.scheme import Scheme
from streamfilter.similarity.sketch import Sketcher, Sketches

SKETCHER = Sketcher(Scheme(16, 6), seed=bytes(range(16)))
STORY = "the council met on monday to discuss the new bridge over the river and its cost"
UPDATE = STORY + " today"


def record(partition, offset):
    return Record(Source("t", partition, offset), None, b"x")


def place(source):
    return source.partition, source.offset


def test_accept_splits_by_the_next_position_of_each_partition():
    records = [record(0, 4), record(0, 5), record(1, 0), record(2, 7)]
    accepted = accept({0: 5, 1: 1}, records)
    assert [place(r.source) for r in accepted.new] == [(0, 5), (2, 7)]
    assert [place(r.source) for r in accepted.reread] == [(0, 4), (1, 0)]


def judged(texts, index, *, first, number=0, partition=0, **options):
    n = len(texts)
    batch = Batch(
        [f"{partition}-{first + i}" for i in range(n)],
        np.full(n, partition, np.int64),
        np.arange(first, first + n, dtype=np.int64),
        np.full(n, -1, np.int64),
    )
    found = judge(
        batch, SKETCHER.sketch(texts), index=index, policy=options.pop("policy", MatchPolicy()),
        locate=lambda p, o: Source("t", p, o), number=number, first_ordinal=first, **options,
    )  # fmt: skip
    span = Span(partition, first, first + n)
    index.apply(
        Changes(
            Progress(positions={partition: first + n}, next_ordinal=first + n),
            found.additions,
            (BatchMark(number, first, first + n, (span,)),),
        )
    )
    return found.decisions


def test_verdicts_are_settled_from_a_lookup_without_its_index():
    index, texts = MemoryIndex(Widths(128)), [UPDATE, STORY + " again", "another story of the day"]
    judged([STORY], index, first=0)
    nothing = np.zeros(3, np.int64)
    batch, sketches = Batch(["a", "b", "c"], nothing, nothing, nothing - 1), SKETCHER.sketch(texts)
    ours = batch.documents(sketches.contents, number=1, first_ordinal=1)
    found = lookup(index, ours, sketches, MatchPolicy(), first_ordinal=1)
    del index  # as one that is in another process
    settled = settle(
        ours, sketches, found, MatchPolicy(),
        locate=lambda p, o: Source("t", p, o), first_ordinal=1,
    )  # fmt: skip
    near, unique = Verdict.NEAR_DUPLICATE, Verdict.UNIQUE
    assert [each.verdict for each in settled.decisions] == [near, near, unique]
    assert settled.decisions[0].match.document_id == "0-0"
    assert settled.additions.documents.ids == ["c"]


def test_judging_reads_serialised_sketches_as_well():
    sketches = SKETCHER.sketch([STORY, UPDATE])
    again = Sketches.from_bytes(sketches.to_bytes())
    batch = Batch(["a", "b"], *(np.zeros(2, np.int64) for _ in range(3)))
    decisions = [
        judge(batch, s, index=MemoryIndex(Widths(128)), policy=MatchPolicy(), number=0,
              locate=lambda p, o: Source("t", p, o), first_ordinal=0).decisions
        for s in (sketches, again)
    ]  # fmt: skip
    assert decisions[0] == decisions[1]


def test_judging_changes_nothing():
    index = MemoryIndex(Widths(128))
    batch = Batch(["a"], *(np.zeros(1, np.int64) for _ in range(3)))
    for _ in range(2):
        found = judge(batch, SKETCHER.sketch([STORY]), index=index, policy=MatchPolicy(),
                      number=0, locate=lambda p, o: Source("t", p, o), first_ordinal=0)  # fmt: skip
        assert found.decisions[0].verdict == Verdict.UNIQUE
        assert found.additions is not None
        assert len(index) == 0


def test_candidates_come_by_document_then_age_whatever_shares_a_list():
    """Rows 0 and 1 of two bands and the whole text's key: both have read the list of 4 and 7."""
    nobody = np.zeros(3, np.int64)
    shortest = Level(0, np.array([0, 3, 5]), np.array([0, 0, 2]), np.array([2, 2, 1]),
                     np.array([4, 7, 9]), nobody)  # fmt: skip
    longer = Level(1, np.array([1]), np.array([1]), np.array([2]), np.array([5, 3, 7]), nobody[:1])
    found = collect([shortest, longer], columns=3)
    assert found.rows.tolist() == [0, 0, 0, 1, 1, 1]
    assert found.ordinals.tolist() == [3, 4, 7, 4, 7, 9]
    assert found.bands.tolist() == [1, 1, 2, 1, 1, 0]
    assert found.same_text.tolist() == [False] * 5 + [True]


def test_candidates_are_the_same_however_they_are_cut_into_tables(monkeypatch):
    rng = np.random.default_rng(5)
    counts = rng.integers(0, 9, 200)
    level = Level(0, np.arange(200) * 3, np.zeros(200, np.int64), counts,
                  np.sort(rng.integers(0, 40, 9)), counts * 0)  # fmt: skip
    whole = collect([level], columns=4)
    monkeypatch.setattr(candidates, "TALLIES_MAX", 30)
    cut = collect([level], columns=4)
    assert len(whole) > 100
    for name in Candidates.__slots__:
        assert np.array_equal(getattr(whole, name), getattr(cut, name)), name


def test_of_equal_estimates_the_pair_that_shares_more_bands_is_compared_first_then_the_oldest():
    rows, bands = np.array([0, 0, 0, 1, 1]), np.array([1, 2, 2, 1, 16])
    none = np.zeros(5, np.int64)
    pairs = Candidates.of(rows, np.arange(5), bands=bands, weights=none, same_text=none > 0)
    for finest in (0, 1):  # whatever the lowest bit of the sort key is
        estimated = np.full(5, 1 - (200 + finest) / _FINEST)
        estimated[4] = 0.5
        assert _best_first(pairs, estimated, np.arange(5)).tolist() == [1, 2, 0, 3, 4]


def test_ranks_count_anew_for_each_row():
    assert ranks(np.array([0, 0, 3, 3, 3, 5])).tolist() == [0, 1, 0, 1, 2, 0]


def test_decide_takes_the_most_similar_then_the_oldest_and_ignores_what_does_not_stand():
    rows, ordinals = np.array([0, 0, 0, 1]), np.array([8, 5, 2, 1])
    none, all_ = np.zeros(4, bool), np.ones(4, bool)
    outcome = Outcome(
        MatchPolicy(),
        Candidates(rows, ordinals, np.array([9, 4, 4, 7], np.uint32)),
        np.array([0.85, 0.9, 0.9, 0.95]), whole=np.array([True, True, True, False]),
        sample=np.full(4, 1024), equal_text=none, confirmed=all_, rejected=none, skipped=none,
        missing=none, compared=all_, estimated=np.full(4, 0.9), wanted=0.8,
    )  # fmt: skip
    found = dict(
        decide(
            outcome, np.array([True, True, True, True]),
            describe=lambda found: [(f"doc{o}", Source("t", 0, int(o))) for o in found],
            skipped=np.zeros(2, bool),
        )
    )  # fmt: skip
    assert [m.document_id for m in found[0].matches] == ["doc2", "doc5", "doc8"]
    assert (found[0].method, found[0].p_false_positive) == ("exact_jaccard", 0.0)
    assert found[1].method == "sampled_jaccard"
    assert 0 < found[1].p_false_positive < 1e-6
    only = dict(
        decide(
            outcome,
            rows == 0,
            describe=lambda found: [("x", Source("", 0, int(o))) for o in found],
            skipped=np.zeros(2, bool),
        )
    )
    assert list(only) == [0]


def test_the_past_of_a_reread_batch_is_looked_up_once_however_many_batches_judged_it(monkeypatch):
    """A stream that trickled in has a batch a record: each once asked the index for itself."""
    index, fetched = MemoryIndex(Widths(128)), list[list[int]]()
    texts = [f"{n} council met {n} on monday {n * n} to discuss bridge {n}" for n in range(9)]
    for number, first in enumerate(range(0, 9, 3)):
        judged(texts[first : first + 3], index, first=first, number=number)

    def fetch(ordinals):
        fetched.append(ordinals.tolist())
        return MemoryIndex.fetch(index, ordinals)

    monkeypatch.setattr(index, "fetch", fetch)
    offsets, partitions = np.array([1, 4, 5, 8, 40]), np.zeros(5, np.int64)
    past = Visibility.reread(index.marks_covering(partitions, offsets), partitions, offsets, index)
    assert fetched == [list(range(9))]
    # The last was never judged, and meets no one.
    assert past.until.tolist() == [1, 4, 5, 8, 0]
    assert past.since.tolist() == [0] * 5
