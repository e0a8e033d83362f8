"""The audit against the whole truth, its determinism, its bounds, and what it brings to light."""

import random
from dataclasses import dataclass

import numpy as np
import pytest

from streamfilter.index.format import names_of
from streamfilter.index.protocol import Changes, Removals
from streamfilter.model import DUPLICATES, Verdict, Window
from streamfilter.monitoring.catalogue import AUDITED
from streamfilter.quality.live import audit_sample
from streamfilter.quality.live.audit import Audit, Auditing, Rates
from streamfilter.quality.live.audit_sample import ArrivalKind
from streamfilter.quality.live.audit_scan import CAUSES, SLICE_ORDINALS, Round
from streamfilter.quality.live.figures import SAMPLED, Quality, calibrated
from streamfilter.similarity.exact import jaccard
from tests.audit.planted import Run, batches, fresh, with_changed_end
from tests.audit.rounds import a_round, rounds
from tests.support.cases import cases
from tests.support.values import replace

ALL = Rates(arrivals=1.0)


def a_stream(seed: int, *, originals: int, copies: int, words: tuple[int, ...]) -> list[str]:
    """Originals first, then one changed copy of each of some."""
    chooser = random.Random(seed)
    first = [fresh(chooser) for _ in range(originals)]
    chosen = chooser.sample(first, copies)
    return first + [with_changed_end(text, chooser, chooser.choice(words)) for text in chosen]


def audit_of(run: Run, rates: Rates = ALL) -> Audit:
    return Audit(rates, run.policy, run.index, run.sketcher.keys_of)


def audited(run: Run, texts: list[str], rates: Rates = ALL, *, size: int = 100) -> Round:
    """Return the one round that holds a whole stream."""
    audit = audit_of(run, rates)
    for batch in batches(texts, size):
        sketches, judgement, first = run.step(batch)
        audit.batch(sketches, judgement, first_ordinal=first)
    (found,) = rounds(audit)
    return found


@pytest.mark.slow
@cases("method", ["exact", "signature"])
@cases("seed", range(3))
def test_with_everything_sampled_the_results_are_the_truth(seed, method):
    texts = a_stream(seed, originals=60, copies=40, words=(1, 4, 8, 12, 20))
    texts += [*texts[5:15], "too short"]
    run = Run.of(bands=6, rows=12, threshold=0.7, seed=seed, method=method)
    audit, wanted, best = audit_of(run), dict.fromkeys(AUDITED, 0), {}
    for batch in batches(texts, 17):
        sketches, judgement, first = run.step(batch)
        audit.batch(sketches, judgement, first_ordinal=first)
        best |= truth(run, sketches, judgement, first, wanted)
    (found,) = rounds(audit)
    assert found.results == wanted
    assert wanted["false_negative"] > 5
    assert wanted["true_negative"] > 50
    assert wanted["true_positive"] > 10
    assert found.population[ArrivalKind.EXACT] == 10
    assert sorted(found.similarity[found.similarity > 0]) == sorted(best.values())
    assert sum(found.by_cause.values()) == wanted["false_negative"]
    told = with_exact(method, found).window().recall()
    right = wanted["true_positive"] / (wanted["true_positive"] + wanted["false_negative"])
    assert told.lower == told.value == told.upper == pytest.approx(right)


def with_exact(method: str, *found: Round) -> Quality:
    quality = Quality()
    quality.exact = method == "exact"
    for each in found:
        quality.audited(each)
    return quality


def truth(run, sketches, judgement, first, counts) -> dict[int, float]:
    """The four results by the docstring's words, one document at a time; the best similarities."""
    stored, best = run.documents(), {}
    theirs, ours = stored.contents.samples, sketches.contents.samples
    for row, decision in enumerate(judgement.decisions):
        if not ours.set_sizes[row] or decision.verdict is Verdict.EXACT_DUPLICATE:
            continue
        earlier = np.flatnonzero(stored.ordinals < first + row)
        similarity = jaccard(ours, np.full(len(earlier), row), theirs, earlier).similarity
        similar = bool((similarity >= run.policy.threshold).any())
        withheld = decision.verdict in DUPLICATES
        name = ("true" if withheld == similar else "false") + (
            "_positive" if withheld else "_negative"
        )
        counts[name] += 1
        if similar:
            best[first + row] = float(similarity.max())
    return best


def test_a_verdict_by_the_signature_alone_is_caught_when_it_is_wrong():
    """About half of the pairs at .76 are estimated at .76 or more, wherever the truth lies."""
    texts = a_stream(3, originals=300, copies=300, words=(8,))
    run = Run.of(bands=32, rows=4, threshold=0.76, seed=3, method="signature")
    found = audited(run, texts)
    assert (58 - 8) / (58 + 8) < 0.76
    assert found.results["false_positive"] > 50
    assert found.results["true_positive"] == 0
    assert with_exact("signature", found).window().precision().upper == 0


def test_what_verdicts_said_of_being_wrong_is_held_against_what_they_were():
    """By signatures at .76, where half of the copies are: reported and found, range by range."""
    texts = a_stream(13, originals=400, copies=400, words=(6, 7, 8, 9))
    run = Run.of(bands=32, rows=4, threshold=0.76, seed=13, method="signature")
    found = audited(run, texts)
    stored, near = run.documents(), found.kinds == ArrivalKind.NEAR
    assert set(found.named[near]) == {0, 1}
    assert found.results["false_positive"] == (found.named[near] == 0).sum()
    assert set(found.named[~near]) == {-1}
    assert len(stored) == (found.kinds == ArrivalKind.UNIQUE).sum()
    rows = with_exact("signature", found).as_dict()["reliability"]
    assert sum(row["verdicts"] for row in rows) == near.sum() == found.doubted.sum()
    assert sum(row["told"] * row["verdicts"] for row in rows) == pytest.approx(
        found.doubts.sum(), abs=1e-3
    )
    assert {row["calibrated"] for row in rows} <= {"yes", "not known"}
    for row in rows:
        assert row["lower"] == row["value"] == row["upper"]  # all were looked at
        noise = 3 * (max(row["told"], 0.02) / row["verdicts"]) ** 0.5
        assert abs(row["told"] - row["value"]) <= 0.05 + noise, rows


@cases(
    ("told", "wrong", "each", "says"),
    [
        (0.02, 0.02, 1, "yes"), (0.3, 0.3, 1, "yes"), (0.3, 0.1, 1, "no"), (0.02, 0.2, 1, "no"),
        (0.3, 0.3, 100, "not known"), (0.3, 0.1, 100, "not known"),
    ],
)  # fmt: skip
def test_whether_doubt_is_calibrated_is_not_known_of_few_originals(told, wrong, each, says):
    """A thousand verdicts on as many originals, and on ten."""
    verdicts = np.arange(1_000)
    families = verdicts // each
    order = np.random.default_rng(4).permutation(families.max() + 1)
    said = order[families] < wrong * (families.max() + 1)
    found, why = calibrated(told, said, families)
    assert found == says
    originals = f"verdicts on {families.max() + 1} different originals"
    assert originals in why if says == "not known" else why == ""
    assert calibrated(told, said[:5], families[:5])[0] == "not known"
    assert calibrated(told, said, np.full(1_000, -1)) == calibrated(told, said, verdicts)


def test_recall_by_similarity_is_of_the_true_similarity_where_verdicts_estimate_it():
    """Ranges took the verdicts' own estimates: .912 [.912, .912] instead of .864."""
    texts = a_stream(14, originals=300, copies=300, words=(6, 7, 8))
    run = Run.of(bands=32, rows=4, threshold=0.76, seed=14, method="signature")
    found = audited(run, texts)
    rows = with_exact("signature", found).as_dict()["audit_by_similarity"]
    for row in rows:
        inside = (found.similarity >= row["from"]) & (found.similarity < row["from"] + 0.05)
        near, similar = found.kinds == ArrivalKind.NEAR, inside & (found.similarity > 0)
        told = row["recall"]
        if not similar.any():
            assert told["says"] == "not known"
            continue
        recall = (near & similar).sum() / similar.sum()
        assert told["lower"] == told["value"] == told["upper"] == pytest.approx(recall, abs=1e-6)
    assert sum(row["recall"]["says"] == "known" for row in rows) >= 2


def test_where_shingles_are_sampled_the_audit_says_that_it_does_not_know():
    quality = Quality()
    quality.blind = SAMPLED
    quality.audited(a_round(near=40, unique=400, missed=6))
    told = quality.as_dict()
    for name in ("audit_recall", "audit_precision"):
        assert told[name]["says"] == "not known"
        assert "sample_modulus" in told[name]["why"]
    assert told["reliability"] == told["audit_by_similarity"] == []


def crowd(copies_like: int) -> list[str]:
    """Documents that are alike, none a duplicate, then a copy of each."""
    chooser = random.Random(5)
    core = fresh(chooser)
    family = [with_changed_end(core, chooser, 5) for _ in range(120)]
    return family + [with_changed_end(text, chooser, copies_like) for text in family]


@pytest.mark.parametrize(
    ("cause", "texts", "run"),
    [
        ("bands", a_stream(1, originals=100, copies=100, words=(6,)), {"bands": 4, "rows": 13}),
        ("full_buckets", crowd(1), {"bands": 2, "rows": 4, "threshold": 0.85, "cap": 1}),
        ("max_candidates", crowd(4), {"bands": 2, "rows": 4, "threshold": 0.85, "cap": 255,
                                      "most": 1}),
        ("estimate", a_stream(2, originals=200, copies=200, words=(8,)),
         {"bands": 32, "rows": 4, "threshold": 0.75, "method": "signature"}),
    ],
)  # fmt: skip
def test_a_loss_is_reported_with_its_cause(cause, texts, run):
    found = audited(Run.of(seed=5, **({"threshold": 0.8} | run)), texts)
    causes = found.by_cause
    assert causes[cause] > 10
    assert causes[cause] > 0.7 * sum(causes.values())
    told = with_exact("exact", found).as_dict()
    assert told["audit_lost"] == causes  # all were looked at: nothing to be extrapolated


@pytest.mark.slow
def test_the_same_arrivals_are_audited_however_they_were_batched():
    texts = a_stream(4, originals=100, copies=60, words=(4,))
    results = set()
    for size in (1, 7, 160):
        run = Run.of(bands=16, rows=6, threshold=0.8, seed=4)
        found = audited(run, texts, Rates(arrivals=0.3), size=size)
        results.add((tuple(found.hashes), tuple(found.similarity), found.comparisons))
    assert len(results) == 1
    assert 20 < len(results.pop()[0]) < 80


@pytest.mark.parametrize("share", [0.4, 1.0])
def test_a_sample_is_bounded_and_its_limit_says_what_was_chosen(monkeypatch, share):
    monkeypatch.setattr(audit_sample, "SAMPLE_MAX", 20)
    texts = a_stream(6, originals=150, copies=100, words=(4,))
    run = Run.of(bands=16, rows=6, threshold=0.8, seed=6)
    found = audited(run, texts, Rates(arrivals=share), size=10)
    every = audited(Run.of(bands=16, rows=6, threshold=0.8, seed=6), texts, size=250)
    monkeypatch.undo()
    assert len(found.hashes) == 20
    assert found.hashes.max() <= found.limit < share * 2**64
    assert sorted(found.hashes) == sorted(every.hashes)  # however it came, the lowest twenty
    assert sum(found.population.values()) == 250


class Counting:
    """An index that counts what is read of it."""

    def __init__(self, index) -> None:
        self._index, self.read, self.most = index, 0, 0

    def __getattr__(self, name: str):
        return getattr(self._index, name)

    def __len__(self) -> int:
        return len(self._index)

    def fetch(self, ordinals):
        self.read += len(ordinals)
        self.most = max(self.most, len(ordinals))
        return self._index.fetch(ordinals)


def test_a_start_reads_nothing_and_a_look_reads_one_slice_at_most():
    """Up to eight times the reference set was read at every start, before."""
    run = Run.of(bands=16, rows=6, threshold=0.8, seed=7)
    known, later = a_stream(7, originals=900, copies=100, words=(4,)), a_stream(
        8, originals=10, copies=10, words=(4,))  # fmt: skip
    for batch in batches(known, 100):
        run.step(batch)
    run = replace(run, index=Counting(run.index))
    audit = audit_of(run)
    assert run.index.read == 0
    sketches, judgement, first = run.step(later)
    run.index.read = run.index.most = 0
    audit.batch(sketches, judgement, first_ordinal=first)
    (found,) = rounds(audit)
    assert run.index.most <= SLICE_ORDINALS
    assert 1_000 <= run.index.read <= 1_020
    assert found.results["true_positive"] == 10


def test_where_the_index_forgets_recall_is_an_upper_bound_and_says_why():
    texts = a_stream(9, originals=200, copies=100, words=(4,))
    run = Run.of(bands=16, rows=6, threshold=0.8, seed=9)
    audit = audit_of(run)
    for batch in batches(texts, 300):
        sketches, judgement, first = run.step(batch)
        audit.batch(sketches, judgement, first_ordinal=first)
    old = run.index.fetch(np.arange(150))
    keys = run.sketcher.keys_of(old.contents)
    removals = Removals(old.ordinals, keys, old.contents.signatures, names_of(old))
    run.index.apply(Changes(run.index.progress, removals=removals))
    sketches, judgement, first = run.step([fresh(random.Random(1))])
    audit.batch(sketches, judgement, first_ordinal=first, removed=len(old))
    (found,) = [each for each in rounds(audit) if len(each.hashes) > 1]
    assert found.forgotten == 150
    assert found.results["false_positive"] == 0  # their originals are gone: no one knows
    told = with_exact("exact", found).window().recall()
    assert told.says == "upper bound"
    assert "tombstones" in told.why


def test_with_a_retention_recall_has_two_ends_and_a_dropped_window_ends_its_sample():
    """Each document that the horizon passed left an upper bound only, so always."""
    texts = a_stream(10, originals=400, copies=200, words=(4, 8))
    run = Run.of(bands=6, rows=12, threshold=0.8, seed=10)
    audit, seen = audit_of(run), []
    for number, batch in enumerate(batches(texts, 50)):
        sketches, judgement, first = run.step(batch)
        horizon = max(0, first - 250)
        newest = run.index.windows[-1].number
        opens = Window(newest + 1, first + 50, number + 1) if number % 2 else None
        progress = replace(run.index.progress, horizon=horizon)
        run.index.apply(Changes(progress, opens=opens))
        since = np.full(len(batch), horizon)
        audit.batch(sketches, judgement, first_ordinal=first, since=since)
        if number < 10:  # the first rounds are compared late: their window has gone by then
            continue
        seen += rounds(audit)
    assert run.index.windows[0].first_ordinal >= 200
    assert sum(len(each.hashes) for each in seen) < len(texts)
    told = with_exact("exact", *seen).window().recall()
    assert told.says == "known"
    assert 0.1 < told.value < 0.95


@pytest.mark.parametrize("rates", [Rates(), Rates(0.0, 0.5)])
def test_a_rate_of_nothing_audits_nothing(rates):
    run = Run.of(bands=16, rows=6, threshold=0.8, seed=4)
    audit = audit_of(run, rates)
    sketches, judgement, first = run.step(a_stream(4, originals=5, copies=2, words=(4,)))
    audit.batch(sketches, judgement, first_ordinal=first)
    assert not audit.waiting
    assert audit.look() is None


def test_short_texts_are_never_audited():
    run = Run.of(bands=16, rows=6, threshold=0.8, seed=4)
    sketches, judgement, first = run.step(["a b", "a b", ""])
    assert {each.verdict for each in judgement.decisions} == {Verdict.PASSTHROUGH}
    audit = audit_of(run)
    audit.batch(sketches, judgement, first_ordinal=first)
    assert not audit.waiting


@dataclass
class Hand:
    """A clock that every look moves on by what a slice costs."""

    now: float = 0.0
    slice: float = 0.004

    def monotonic(self) -> float:
        return self.now


class Endless:
    """An audit that always waits, each of whose looks takes the clock's time."""

    waiting = True

    def __init__(self, clock: Hand) -> None:
        self.clock, self.looks = clock, 0

    def look(self):
        self.looks += 1
        self.clock.now += self.clock.slice


@pytest.mark.parametrize("cost", [0.0, 0.004, 0.2])
def test_the_audit_takes_its_share_of_the_time_and_no_more(cost):
    clock = Hand(slice=cost)
    audit = Endless(clock)
    auditing = Auditing(audit, clock.monotonic, None, share=0.02)
    for _ in range(5_000):
        clock.now += 0.05  # a batch, or a wait for one
        begun = clock.now
        auditing.look()
        assert clock.now - begun <= 0.05 + cost + 1e-9
    assert audit.looks * max(cost, 0.0005) <= 0.021 * clock.now + cost
    assert audit.looks * max(cost, 0.0005) >= 0.015 * clock.now


@pytest.mark.parametrize("cost", [0.001, 0.004, 0.04])
def test_no_slice_is_begun_on_credit(cost):
    """Twenty batches of 65 ms with slices of 4 ms took 2.2 % of their time, and were given 2."""
    clock = Hand(slice=cost)
    audit = Endless(clock)
    auditing = Auditing(audit, clock.monotonic, None, share=0.02)
    for _ in range(1_000):
        clock.now += 0.065
        auditing.look()
        taken = audit.looks * cost
        assert audit.looks <= 1 or taken <= 0.02 * (clock.now - taken) + 1e-9
    assert taken >= 0.019 * clock.now - cost


def test_the_causes_and_results_that_are_counted_are_those_of_the_audit():
    run = Run.of(bands=16, rows=6, threshold=0.8, seed=4)
    found = audited(run, a_stream(4, originals=5, copies=2, words=(4,)))
    assert tuple(found.results) == AUDITED
    assert tuple(found.by_cause) == CAUSES


@cases("seed", range(10))
def test_a_day_with_one_percent_of_duplicates_gives_a_narrow_interval(seed):
    """50 records a second, and a round of two hours: 12 rounds of 2,000 chosen arrivals.

    The window held 4,000 of them, whatever the stream: the interval was .1 wide and more.
    """
    chooser, quality, lost = np.random.default_rng(seed), Quality(), 0.01
    records, near = 12 * 7_200 * 50, 0
    for number in range(12):
        near = records // 12 // 100
        unique = records // 12 - near
        missed = int(chooser.hypergeometric(round(near * lost), unique, 1_980))
        found = a_round(near=20, unique=1_980, missed=missed, population=unique)
        quality.audited(replace(found, population={**found.population, ArrivalKind.NEAR: near}))
        if number == 1:
            assert quality.window().recall().says == "interval"
    told = quality.window().recall()
    assert told.lower <= 1 / (1 + lost) <= told.upper
    assert told.upper - told.lower <= 0.05
