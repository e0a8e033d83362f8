"""The audit against the whole truth, its determinism, and what it must bring to light."""

import random
from dataclasses import astuple, fields, replace

import numpy as np
import pytest

from streamfilter import config_sections
from streamfilter.audit import LOOKS, NOTHING, PIECE_DOCUMENTS, Audit, Audited, Rates
from streamfilter.model import DUPLICATES, Verdict
from streamfilter.similarity.curve import collision_probability
from streamfilter.similarity.estimators import wilson
from streamfilter.similarity.exact import Samples, jaccard
from tests.audit.planted import Run, batches, fresh, with_changed_end

ALL = Rates(arrivals=1.0, reference=100_000)


def total(found: list[Audited]) -> Audited:
    return Audited(*(sum(column) for column in zip(*map(astuple, found), strict=True)))


def a_stream(seed: int, *, originals: int, copies: int, words: tuple[int, ...]) -> list[str]:
    """Originals first, then one changed copy of each of some."""
    chooser = random.Random(seed)
    first = [fresh(chooser) for _ in range(originals)]
    chosen = chooser.sample(first, copies)
    return first + [with_changed_end(text, chooser, chooser.choice(words)) for text in chosen]


def audited(run: Run, texts: list[str], rates: Rates, *, size: int = 100) -> Audited:
    audit = Audit(rates, run.policy, run.index)
    return total([
        audit.batch(sketches, judgement, first_ordinal=first)
        for sketches, judgement, first in map(run.step, batches(texts, size))
    ])  # fmt: skip


@pytest.mark.parametrize("seed", range(4))
def test_with_everything_sampled_the_results_are_the_truth(seed):
    texts = a_stream(seed, originals=60, copies=40, words=(1, 4, 8, 12, 20))
    texts += [*texts[5:15], "too short"]
    run = Run.of(bands=6, rows=12, threshold=0.7, seed=seed)
    audit, wanted, found = Audit(ALL, run.policy, run.index), Audited(), []
    for batch in batches(texts, 17):
        sketches, judgement, first = run.step(batch)
        found.append(audit.batch(sketches, judgement, first_ordinal=first))
        wanted = total([wanted, truth(run, sketches, judgement, first)])
    assert total(found) == wanted
    assert wanted.true_positive > 10
    assert wanted.false_negative > 5
    assert wanted.true_negative > 50
    assert wanted.false_positive == 0


def truth(run, sketches, judgement, first) -> Audited:
    """The four results by the docstring's words, one document at a time."""
    counts = dict.fromkeys((field.name for field in fields(Audited)), 0)
    stored = run.documents()
    theirs = Samples(stored.tokens, stored.token_starts, stored.set_sizes)
    ours = Samples(sketches.tokens, sketches.token_starts, sketches.set_sizes)
    for row, decision in enumerate(judgement.decisions):
        if not sketches.set_sizes[row]:
            continue
        earlier = np.flatnonzero(stored.ordinals < first + row)
        similarity = jaccard(ours, np.full(len(earlier), row), theirs, earlier).similarity
        similar = bool((similarity >= run.policy.threshold).any())
        withheld = decision.verdict in DUPLICATES
        name = ("true" if withheld == similar else "false") + (
            "_positive" if withheld else "_negative"
        )
        counts[name] += 1
        counts["arrivals"] += 1
        counts["comparisons"] += len(earlier)
    return Audited(**counts)


def test_a_verdict_by_the_signature_alone_is_caught_when_it_is_wrong():
    """About half of the pairs at .76 are estimated at .76 or more, wherever the truth lies."""
    texts = a_stream(3, originals=300, copies=300, words=(8,))
    run = Run.of(bands=32, rows=4, threshold=0.76, seed=3, method="signature")
    found = audited(run, texts, ALL)
    assert (58 - 8) / (58 + 8) < 0.76
    assert found.false_positive > 50
    assert found.true_positive == 0


def test_a_full_bucket_that_loses_pairs_shows():
    """Documents that are alike, none a duplicate, crowd each other's buckets; copies are lost."""
    chooser = random.Random(5)
    core = fresh(chooser)
    family = [with_changed_end(core, chooser, 5) for _ in range(120)]
    copies = [with_changed_end(text, chooser, 1) for text in family]
    results = {
        cap: audited(
            Run.of(bands=2, rows=4, threshold=0.85, seed=5, cap=cap, most=999),
            family + copies,
            ALL,
        )
        for cap in (1, 255)
    }
    recall = {c: r.true_positive / (r.true_positive + r.false_negative) for c, r in results.items()}
    assert recall[1] < 0.7 < 0.9 < recall[255], recall


def test_the_interval_contains_the_truth_in_93_of_100_runs():
    """200 runs with planted copies at J = .81; the truth is the curve's own probability."""
    words, covered = 6, 0
    similarity = (58 - words) / (58 + words)
    true_recall = collision_probability(similarity, bands=9, rows=13)
    for seed in range(200):
        run = Run.of(bands=9, rows=13, threshold=0.8, seed=seed)
        texts = a_stream(seed, originals=80, copies=80, words=(words,))
        found = audited(run, texts, Rates(arrivals=0.6, reference=60), size=40)
        estimate = wilson(found.true_positive, found.true_positive + found.false_negative)
        covered += estimate is not None and estimate.lower <= true_recall <= estimate.upper
    assert covered >= 186, f"{covered} of 200 contain {true_recall:.3f}"


def test_a_bad_shape_is_reported_by_the_default_rates_within_minutes_of_traffic():
    """9 x 13 finds .40 of the pairs at .8; 24,000 documents are some seconds to minutes."""
    run = Run.of(bands=9, rows=13, threshold=0.8, seed=1)
    texts, defaults = [], config_sections.Audit()
    for seed in range(8):
        texts += a_stream(seed, originals=1_500, copies=1_500, words=(6,))
    rates = Rates(defaults.arrivals, defaults.reference)
    found = audited(run, texts, rates, size=1_000)
    estimate = wilson(found.true_positive, found.true_positive + found.false_negative)
    assert estimate.lower < 0.40 < estimate.upper < 0.75, found


@pytest.mark.parametrize("most", [5, 40, 1_000])
def test_an_audit_that_begins_on_a_known_index_has_the_reference_set_it_would_have_had(most):
    texts = a_stream(9, originals=150, copies=50, words=(3,))
    run = Run.of(bands=16, rows=6, threshold=0.8, seed=9)
    rates = Rates(arrivals=1.0, reference=most)
    live, later, n = Audit(rates, run.policy, run.index), [], 0
    for batch in batches(texts, 20):
        restarted = Audit(rates, run.policy, run.index)
        step = run.step(batch)
        sketches, judgement, first = step
        found = live.batch(sketches, judgement, first_ordinal=first)
        assert restarted.batch(sketches, judgement, first_ordinal=first) == found
        assert restarted.reference_documents == live.reference_documents <= most
        later.append(found)
        n += len(batch)
    assert live.reference_documents == min(most, len(run.index))


def test_the_same_arrivals_are_audited_however_they_were_batched():
    texts = a_stream(4, originals=100, copies=60, words=(4,))
    results = set()
    for size in (1, 7, 160):
        run = Run.of(bands=16, rows=6, threshold=0.8, seed=4)
        results.add(audited(run, texts, Rates(arrivals=0.3, reference=1_000), size=size))
    assert len(results) == 1
    assert 20 < results.pop().arrivals < 80


@pytest.mark.parametrize("rates", [Rates(), Rates(0.0, 100), Rates(0.5, 0)])
def test_a_rate_of_nothing_audits_nothing(rates):
    run = Run.of(bands=16, rows=6, threshold=0.8, seed=4)
    assert audited(run, a_stream(4, originals=5, copies=2, words=(4,)), rates) == NOTHING


def test_short_texts_are_never_audited():
    run = Run.of(bands=16, rows=6, threshold=0.8, seed=4)
    sketches, judgement, first = run.step(["a b", "a b", ""])
    assert {each.verdict for each in judgement.decisions} == {Verdict.PASSTHROUGH}
    assert (
        Audit(ALL, run.policy, run.index).batch(sketches, judgement, first_ordinal=first) == NOTHING
    )


class Counting:
    """An index that counts the documents that are read of it."""

    def __init__(self, index) -> None:
        self._index, self.read, self.most_at_once = index, 0, 0

    def __getattr__(self, name):
        return getattr(self._index, name)

    def __len__(self) -> int:
        return len(self._index)

    def fetch(self, ordinals):
        documents = self._index.fetch(ordinals)
        self.read += len(documents)
        self.most_at_once = max(self.most_at_once, len(documents))
        return documents


def titles(run: Run, *, count: int, signed: int) -> None:
    """Let an index remember short texts, too short for a signature, with some longer ones."""
    chooser = random.Random(21)
    texts = [f"t{chooser.getrandbits(60):x}" for _ in range(count)]
    for at in chooser.sample(range(count), signed):
        texts[at] = fresh(chooser)
    for batch in batches(texts, 1_000):
        run.step(batch)


def short_texts_too(seed: int) -> Run:
    run = Run.of(bands=16, rows=6, threshold=0.8, seed=seed)
    return replace(run, policy=replace(run.policy, short_text="exact_only"))


@pytest.mark.parametrize("signed", [0, 30, 3_000])
def test_a_start_reads_a_bounded_part_of_an_index_however_few_documents_are_signed(signed):
    """Titles alone: 800,000 of them were read at every start, 836 MiB of them at once."""
    run = short_texts_too(21)
    titles(run, count=6_000, signed=signed)
    index = Counting(run.index)
    assert len(index) == 6_000
    audit = Audit(Rates(arrivals=0.1, reference=50), run.policy, index)
    assert index.read <= LOOKS * 50 + PIECE_DOCUMENTS
    assert index.most_at_once <= PIECE_DOCUMENTS
    # A uniform sample still: of the 400 documents that are looked at, as many as of all are signed.
    if signed < 3_000:
        assert abs(audit.reference_documents - 400 * signed / 6_000) <= 4
    else:
        assert audit.reference_documents == 50


@pytest.mark.parametrize("signed", [4, 60])
def test_where_few_documents_are_signed_a_restart_has_the_same_reference_set(signed):
    run = short_texts_too(22)
    rates = Rates(arrivals=1.0, reference=20)
    live = Audit(rates, run.policy, run.index)
    chooser = random.Random(22)
    texts = [f"t{chooser.getrandbits(60):x}" for _ in range(1_000)]
    for at in chooser.sample(range(1_000), signed):
        texts[at] = fresh(chooser)
    seen = set()
    for batch in batches(texts, 50):
        sketches, judgement, first = run.step(batch)
        live.batch(sketches, judgement, first_ordinal=first)
        restarted = Audit(rates, run.policy, run.index)
        assert restarted.reference_documents == live.reference_documents
        probe = np.arange(run.index.progress.next_ordinal)
        assert (restarted._reference.holds(probe) == live._reference.holds(probe)).all()
        seen.add(live.reference_documents)
    assert max(seen) <= 20
