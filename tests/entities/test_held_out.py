"""Validation by a held-out field: the printed formula, and the planted truth."""

import json
import random
from pathlib import Path

import numpy as np
import pytest

from streamfilter.assembly import sketcher_for
from streamfilter.cli import main
from streamfilter.documents.fields.record_fields import FieldsReader
from streamfilter.entities.held_out import (
    HeldOut,
    Pool,
    held_out_values,
    partners,
    valid_share,
    validation,
)
from streamfilter.entities.joined import join_fields
from streamfilter.index.memory import MemoryIndex
from streamfilter.index.progress import Progress
from streamfilter.index.protocol import Changes
from streamfilter.matching.pipeline import Batch, judge
from streamfilter.matching.verdict.counts import Counts
from streamfilter.matching.verdict.policy import MatchPolicy
from streamfilter.model import Source, Verdict
from streamfilter.monitoring.batch_report import BatchReport
from streamfilter.monitoring.metrics import Metrics
from streamfilter.process.health import Health
from streamfilter.similarity.scheme import Scheme
from tests.entities.customers import BEFORE, customers, write

CONFIG = str(Path(__file__).parents[2] / "config" / "customers.yaml")


def pool(mean):
    return Pool.of([mean - 1, mean + 1] * 50)


@pytest.mark.parametrize(("x", "share"), [(10, 1.0), (45, 0.0), (27.5, 0.5), (17, 0.8)])
def test_the_valid_share_is_45_less_x_over_35(x, share):
    found = valid_share(HeldOut(matched=pool(x), identical=pool(10), random=pool(45)))
    assert found.value == pytest.approx((45 - x) / 35) == pytest.approx(share)
    assert found.lower < share < found.upper


def test_a_field_that_tells_nothing_gives_no_share():
    assert valid_share(HeldOut()) is None
    assert valid_share(HeldOut(pool(10), pool(10), Pool.of([1.0]))) is None
    assert valid_share(HeldOut(pool(10), pool(45), pool(10))) is None


@pytest.mark.parametrize(
    ("pools", "words"),
    [
        ((17, 10, None), "fewer than 2 pairs are known of: random"),
        ((17, 45, 10), "no farther apart than records with all fields equal"),
        ((70, 10, 45), "farther apart than random pairs"),
        ((5, 10, 45), "closer than records with all fields equal"),
    ],
)
def test_what_cannot_be_is_refused_with_the_reason(pools, words):
    held_out = HeldOut(*(Pool() if mean is None else pool(mean) for mean in pools))
    assert words in validation(held_out)
    assert valid_share(held_out) is None
    metrics = Metrics(Health())
    none = np.zeros(0)
    for each in (HeldOut(pool(17), pool(10), pool(45)), held_out + held_out + held_out):
        counts = Counts(np.zeros(3, np.int64), none, none, held_out=each)
        metrics.batch(BatchReport(verdicts={Verdict.UNIQUE: 3}, counts=[counts]))
    shown = metrics.value("held_out_valid_share")
    told = valid_share(HeldOut(pool(17), pool(10), pool(45)) + held_out + held_out + held_out)
    assert np.isnan(shown) if told is None else shown == told.value


def test_evaluate_says_why_nothing_is_known(tmp_path, capsys):
    told = evaluated(tmp_path, capsys, customers(6, 30), "--sample", "20")["sample"]["held_out"]
    assert (told["valid_share"], told["interval"]) == (None, None)
    assert "fewer than 2 pairs are known of: matched, identical" in told["not_known"]


def test_partners_are_everywhere_before_the_batch_and_the_same_each_time():
    assert partners(0, 10).tolist() == [0] * 10
    asked = partners(10_000, 500)
    assert len(asked) == 64
    assert asked.tolist() == partners(10_000, 500).tolist()
    tenths = np.bincount(asked // 1_000, minlength=10)
    assert (tenths.min(), tenths.max()) >= (5, 5)
    assert asked.max() < 10_000


def sorted_stream(rng, count=6_000):
    """Yield (day, who, name, phone) by rising days; a sixth have the telephone of another one.

    A third come again 10 days later on average; of these every fifth with all fields equal.
    """
    waiting, born = [], []
    for who in range(count):
        day = who / 10
        due = sorted(each for each in waiting if each[0] <= day)
        waiting = [each for each in waiting if each[0] > day]
        yield from due
        name = "".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=12))
        phone = f"{rng.randrange(10**9, 10**10)}"
        if born and rng.random() < 1 / 6:
            phone = rng.choice(born)  # of a person who had it first, and is in the index
        else:
            born.append(phone)
        yield day, who, name, phone
        if rng.random() < 1 / 3:
            other = name if rng.random() < 0.2 else name[:-1] + "."
            waiting.append((day + rng.expovariate(1 / 10), who, other, phone))


@pytest.mark.slow
def test_a_stream_that_is_sorted_by_the_held_out_field_is_judged_right():
    # By pairs of one batch, which came within days, the share was below zero.
    print("seed 12")
    scheme = Scheme.of_fields({"/name": "words", "/phone": "digits"})
    policy = MatchPolicy(threshold=0.5, method="fields", fields=scheme.field_kinds)
    index, sketcher = MemoryIndex(scheme.widths), sketcher_for(scheme, seed=bytes(16))
    records, held_out, right = list(sorted_stream(random.Random(12))), HeldOut(), []
    for number, first in enumerate(range(0, len(records), 200)):
        rows = records[first : first + 200]
        places = np.arange(first, first + len(rows))
        found = judge(
            Batch([str(who) for _, who, _, _ in rows], places * 0, places, places * 0 - 1),
            sketcher.sketch([join_fields((a, b), repr(day)) for day, _, a, b in rows]),
            index=index, policy=policy, number=number, first_ordinal=first,
            locate=lambda partition, offset: Source("t", partition, offset),
        )  # fmt: skip
        progress = Progress(next_batch=number + 1, next_ordinal=first + len(rows))
        index.apply(Changes(progress, found.additions))
        held_out += found.counts.held_out
        for (_, who, _, _), decision in zip(rows, found.decisions, strict=True):
            if decision.verdict is Verdict.NEAR_DUPLICATE:
                right.append(decision.match.document_id == str(who))
    share, told = sum(right) / len(right), validation(held_out)
    print(f"true {share:.3f}, told {told}")
    assert 0.3 < share < 0.9
    assert not isinstance(told, str)
    assert told.lower <= share <= told.upper
    assert told.upper - told.lower < 0.3


def test_the_interval_holds_the_truth_of_mixtures():
    print("seed 4")
    rng, held = np.random.default_rng(4), 0
    for _ in range(300):
        share = rng.uniform(0.2, 1)
        true = rng.random(200) < share
        matched = np.where(true, rng.exponential(10, 200), rng.exponential(45, 200))
        pools = (matched, rng.exponential(10, 100), rng.exponential(45, 400))
        found = valid_share(HeldOut(*map(Pool.of, pools)))
        held += found.lower <= share <= found.upper
    assert held >= 0.9 * 300


def evaluated(tmp_path, capsys, planted, *options):
    path = write(tmp_path / "in.jsonl", planted)
    capsys.readouterr()
    assert main(["evaluate", path, "-c", BEFORE, "-o", "json", *options]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.slow
def test_the_estimate_of_a_run_holds_the_planted_truth(tmp_path, capsys):
    print("seed 6")
    planted = customers(6, 600, shared_phones=150)
    strict = evaluated(tmp_path, capsys, planted)
    assert strict["recall"]["share"] == strict["precision"]["share"] == 1.0
    assert strict["sample"]["held_out"]["interval"][1] >= 1.0
    # One equal telephone is enough now, so that strangers match; how many, is known.
    loose = evaluated(tmp_path, capsys, planted, "--threshold", "0.32")["sample"]
    pools, (low, high) = loose["held_out"]["pools"], loose["held_out"]["interval"]
    pairs = pools["matched"]["pairs"]
    slips = len(planted.pairs) - pools["identical"]["pairs"]
    truth = slips / pairs
    print(f"planted {truth:.3f}, estimated {loose['held_out']['valid_share']:.3f} [{low}, {high}]")
    assert 0.3 < truth < 0.8
    assert low <= truth <= high
    assert high - low < 0.3


def test_the_service_exports_pools_and_share():
    metrics = Metrics(Health())
    none = np.zeros(0)
    held_out = HeldOut(pool(17), pool(10), pool(45))
    counts = Counts(np.zeros(3, np.int64), none, none, held_out=held_out)
    assert np.isnan(metrics.value("held_out_valid_share"))
    for _ in range(2):
        metrics.batch(BatchReport(verdicts={Verdict.UNIQUE: 3}, counts=[counts]))
    assert metrics.value("held_out_pairs_total", "matched") == 200
    assert metrics.value("held_out_difference_total", "random") == 9_000
    assert metrics.value("held_out_valid_share") == pytest.approx(0.8)
    assert metrics.value("held_out_valid_share_lower") < 0.8


def test_numbers_dates_and_what_is_neither():
    reader = FieldsReader(["/name"], id_pointer=None, held_out="/at")

    def value(at):
        text, _ = reader({"name": "Ann", "at": at})
        return held_out_values([text.encode()])[0]

    assert value(7) == value("7") == 7.0
    assert value("1970-01-11") == value("1970-01-11T00:00:00Z") == 10.0
    assert value("1970-01-11T12:00:00+12:00") == 10.0
    for unknown in (None, "soon", "nan", "inf", 1e300, "-1e21", [1], True):
        assert np.isnan(value(unknown))
