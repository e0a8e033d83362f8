"""Validation by a held-out field: the printed formula, and the planted truth."""

import json
from pathlib import Path

import numpy as np
import pytest

from streamfilter.batch_report import BatchReport
from streamfilter.cli import main
from streamfilter.entities.held_out import HeldOut, Pool, held_out_values, valid_share
from streamfilter.health import Health
from streamfilter.metrics import Metrics
from streamfilter.model import Verdict
from streamfilter.pipeline import Counts
from streamfilter.record_fields import FieldsReader
from tests.entities.customers import customers, write

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
    assert main(["evaluate", path, "-c", CONFIG, "-o", "json", *options]) == 0
    return json.loads(capsys.readouterr().out)


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
        text, _ = reader.read(json.dumps({"name": "Ann", "at": at}).encode())
        return held_out_values([text.encode()])[0]

    assert value(7) == value("7") == 7.0
    assert value("1970-01-11") == value("1970-01-11T00:00:00Z") == 10.0
    assert value("1970-01-11T12:00:00+12:00") == 10.0
    for unknown in (None, "soon", "nan", "inf", [1], True):
        assert np.isnan(value(unknown))
