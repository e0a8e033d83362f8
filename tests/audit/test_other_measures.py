"""Containment and records: the audit knows the misses and the wrong verdicts that are planted.

The truth is the law's `is_match` of every arrival with every document before it. Keys are few, so
that copies are missed. Verdicts go by a looser policy than the audit's, so that some are wrong.
"""

from __future__ import annotations

import random
from collections import Counter
from functools import partial

import numpy as np
import pytest

from streamfilter.assembly import sketcher_for
from streamfilter.entities.joined import join_fields
from streamfilter.entities.kinds import keys_of
from streamfilter.entities.scoring import RecordColumns, compare_records, score, similar_records
from streamfilter.index.memory import MemoryIndex
from streamfilter.matching.law import Settings, is_match, similarity_of
from streamfilter.matching.pipeline import MatchPolicy
from streamfilter.model import Verdict
from streamfilter.quality.live import audit_sample
from streamfilter.quality.live.audit import Audit, Rates
from streamfilter.quality.live.audit_sample import ArrivalKind
from streamfilter.quality.live.audit_scan import Round
from streamfilter.quality.live.figures import FORGOTTEN, Quality
from streamfilter.similarity.scheme import Scheme
from tests.audit.planted import Run, batches, fresh
from tests.audit.rounds import rounds
from tests.pipeline.test_sequential_model import RECORDS, record
from tests.support.arrivals import arrival
from tests.support.values import replace

SCOPES = ('"a"', '"b"', None)


def passages(rng: random.Random) -> list[str]:
    """Return long texts, and parts of them in other texts: .5 to 1 of the shorter one is shared."""
    long = [" ".join([fresh(rng), fresh(rng)]) for _ in range(60)]
    parts = []
    for text in long:
        begin, words = rng.randrange(20), text.split()
        kept = words[begin : begin + rng.choice((30, 40, 50))]
        parts.append(" ".join([*kept, *fresh(rng).split()[: rng.choice((0, 2, 5, 12, 20))]]))
    texts = [*long, *parts, *(fresh(rng) for _ in range(40)), "too short", long[0]]
    rng.shuffle(texts)
    return texts


def texts_run(policy: MatchPolicy, seed: int) -> tuple[Run, list[str], list]:
    sketcher = sketcher_for(Scheme(12, 2), seed=bytes([seed]) * 16)
    run = Run(sketcher, MemoryIndex(sketcher.scheme.widths), policy)
    return run, passages(random.Random(seed)), []


def records_run(name: str, policy: MatchPolicy, seed: int, digests: tuple[str, ...] = ()):
    rng, (fields, _) = random.Random(seed), RECORDS[name]
    kinds = tuple(fields.values())
    scheme = replace(Scheme.of_fields(fields, keys=keys_of(kinds)), digests=digests)
    sketcher = sketcher_for(scheme, seed=bytes([seed]) * 16)
    texts = [join_fields([each[place] for place in fields]) for each in map(record, [rng] * 250)]
    values = [(rng.choice(SCOPES),) for _ in texts] if digests else []
    return Run(sketcher, MemoryIndex(scheme.widths, bucket_cap=1), policy), texts, values


def people(name: str, **more) -> MatchPolicy:
    fields, rules = RECORDS[name]
    return MatchPolicy(0.7, "fields", 1, 1, fields=tuple(fields.values()), **{**rules, **more})


CASES = {
    "contained": (texts_run, MatchPolicy(containment=0.85)),
    "contained, the arriving one": (
        texts_run, MatchPolicy(containment=0.85, contained="arriving")
    ),
    "contained, or of another threshold": (
        texts_run, MatchPolicy(threshold=0.5, containment=0.9, short_threshold=0.9)
    ),
    "records": (partial(records_run, "of before"), people("of before")),
    "records, of those fields that both have": (
        partial(records_run, "of people"), people("of people")
    ),
    "records of tenants": (
        partial(records_run, "weighed", digests=("scope /t",)), people("weighed")
    ),
}  # fmt: skip


def loose(policy: MatchPolicy) -> MatchPolicy:
    """Return a policy by which some withheld documents are similar to nothing."""
    if policy.fields:
        return replace(policy, threshold=policy.threshold - 0.1)
    return replace(policy, containment=policy.containment - 0.25)


def judged(name: str, seed: int, rates: Rates, strict: bool) -> tuple[list[Round], Counter]:
    """Return the rounds of a whole stream, and how many arrivals have each result in truth."""
    make, policy = CASES[name]
    run, texts, values = make(policy if strict else loose(policy), seed)
    audit = Audit(rates, policy, run.index, run.sketcher.keys_of)
    score_of = partial(score, policy.field_rules) if policy.fields else None
    names = ("threshold", "containment", "contained", "short_threshold", "short_size")
    rules = Settings(**{each: getattr(policy, each) for each in names}, score=score_of)
    stored, counts, at = [], Counter(), 0
    for batch in batches(texts, 17):
        sketches, judgement, first = run.step(batch, values[at : (at := at + len(batch))])
        audit.batch(sketches, judgement, first_ordinal=first)
        for row, decision in enumerate(judgement.decisions):
            me = arrival("", sketches, row)
            tenant = sketches.contents.digests[row].tolist() if values else None
            if me.set_size and decision.verdict in (Verdict.UNIQUE, Verdict.NEAR_DUPLICATE):
                words = set(me.tokens)
                similar = any(
                    its == tenant and is_match(rules, me, other, similarity_of(rules, me, other))
                    for its, other, its_words in stored
                    if score_of or not words.isdisjoint(its_words)  # else .0, which is no match
                )
                near = decision.verdict is Verdict.NEAR_DUPLICATE
                counts[f"{str(similar == near).lower()}_{'positive' if near else 'negative'}"] += 1
            if decision.verdict is Verdict.UNIQUE:
                stored.append((tenant, me, me.tokens))
    return rounds(audit), counts


@pytest.mark.slow
@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("name", CASES)
def test_with_everything_sampled_the_results_are_the_laws(name, strict, monkeypatch):
    monkeypatch.setattr(audit_sample, "RECORDS_MAX", 1_000)
    (found,), truth = judged(name, 1, Rates(1.0), strict)
    assert {**found.results, "not_known": 0} == {**dict.fromkeys(found.results, 0), **truth}
    assert sum(found.by_cause.values()) == truth["false_negative"]
    if strict:
        assert not truth["false_positive"]
        assert truth["false_negative"] + truth["true_positive"] > 10
    else:
        assert truth["false_positive"] > 1


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_the_intervals_of_a_sample_contain_the_truth(name):
    """Each of 16 figures is outside with a chance of 1 in 20 at most, so three hardly ever are."""
    held, narrow, planted = [], 0, Counter()
    for seed in range(8):
        found, truth = judged(name, seed, Rates(0.4), strict=False)
        quality = Quality()
        quality.exact = False
        for each in found:
            quality.audited(each)
        window = quality.window()
        right, missed = truth["true_positive"], truth["false_negative"]
        for figure, of in (
            (window.recall(), right + missed),
            (window.precision(), right + truth["false_positive"]),
        ):
            assert figure.says in ("interval", "known")
            held.append(figure.lower <= right / of <= figure.upper)
            narrow += figure.upper - figure.lower < 1
        planted.update(truth)
    assert held.count(False) <= 2
    assert narrow > 8
    assert min(planted["false_negative"], planted["false_positive"]) > 5


def test_a_contained_text_is_known_though_the_text_around_it_was_cut():
    rng = random.Random(3)
    long = " ".join(f"w{rng.getrandbits(40):x}" for _ in range(1_500))
    words = long.split()
    inside, half = words[300:1_000], [*words[300:650], *(f"x{i}" for i in range(350))]
    sketcher = sketcher_for(Scheme(4, 13), seed=bytes(16))
    policy = MatchPolicy(containment=0.85)
    run = Run(sketcher, MemoryIndex(sketcher.scheme.widths), policy)
    audit = Audit(Rates(1.0), policy, run.index, sketcher.keys_of)
    for batch in ([long], [" ".join(inside), " ".join(half), fresh(rng)]):
        sketches, judgement, first = run.step(batch)
        audit.batch(sketches, judgement, first_ordinal=first)
    while (found := audit.look()) is None:
        pass
    assert found.kinds.tolist() == [ArrivalKind.UNIQUE] * 4
    assert (found.similarity > 0).tolist() == [False, True, False, False]
    assert found.whole.tolist()[1:] == [True, True, True]


def test_the_pruned_comparison_of_records_is_the_whole_one():
    for name, (fields, rules) in RECORDS.items():
        run, texts, _ = records_run(name, people(name), 5)
        payloads = run.sketcher.sketch(texts[:60]).contents.payloads
        field_rules = run.policy.field_rules
        columns = [RecordColumns.of(each, len(fields)) for each in (payloads[:30], payloads[30:])]
        for threshold in (0.3, 0.75, 1.0):
            one, two, found = similar_records(*columns, field_rules, threshold=threshold)
            left, right = np.divmod(np.arange(900), 30)
            whole = compare_records(
                [payloads[i] for i in left], [payloads[30 + i] for i in right], field_rules
            ).similarity
            kept = whole >= threshold
            assert (one.tolist(), two.tolist()) == (left[kept].tolist(), right[kept].tolist())
            assert found.tolist() == whole[kept].tolist(), rules


def test_records_too_large_to_be_audited_leave_recall_without_a_lower_end():
    policy = people("of before")
    run, texts, _ = records_run("of before", policy, 2)
    audit = Audit(Rates(1.0), policy, run.index, run.sketcher.keys_of)
    huge = join_fields([f"name {'x' * 60_000}", "street", "1"])
    found = None
    for batch in ([huge], texts[:100], [huge.replace("street", "road")]):
        sketches, judgement, first = run.step(batch)
        audit.batch(sketches, judgement, first_ordinal=first)
    while found is None:
        found = audit.look()
    assert found.population[ArrivalKind.OTHER] == 2
    assert found.forgotten >= 1
    quality = Quality()
    quality.exact = False
    quality.audited(found)
    recall = quality.window().recall()
    assert (recall.lower, recall.why) == (None, FORGOTTEN)
