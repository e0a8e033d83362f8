"""Change detection: how seldom it is wrong, how soon it is right, and what it takes for pairs."""

import numpy as np
import pytest

from streamfilter.monitoring.metrics import Metrics
from streamfilter.quality.live import change
from streamfilter.quality.live.change import (
    ALARMING,
    ERROR,
    HEALTHY,
    LIMIT,
    ChangeDetector,
    errors_of,
)
from streamfilter.quality.live.figures import SAMPLED, SAMPLED_MIN, Quality
from streamfilter.quality.live.population import bounds
from streamfilter.similarity.scheme import Scheme
from streamfilter.similarity.text.shingles import Shingling
from tests.audit.planted import Run
from tests.audit.rounds import a_round
from tests.audit.test_audit import a_stream, audited

PAIRS_TO_FALSE_ALARM = 100_000


def pairs_to_alarm(errors: float, limit: int = LIMIT) -> float:
    """The mean length of the walk from 0 to *limit*, exactly: one equation for each score."""
    equations = np.eye(limit)
    for score in range(limit):
        equations[score, max(score - 1, 0)] -= 1 - errors
        if score + ERROR < limit:
            equations[score, score + ERROR] -= errors
    return float(np.linalg.solve(equations, np.ones(limit))[0])


def delays(errors: float, runs: int, seed: int) -> list[int]:
    """Pairs until each of some watches, all at 0 when it becomes bad, tells so."""
    draws, found = np.random.default_rng(seed), []
    for _ in range(runs):
        watch, pairs = ChangeDetector(), 0
        while not watch.changes:
            watch.see([bool(draws.random() < errors)])
            pairs += 1
        found.append(pairs)
    return found


def test_the_limit_is_the_least_that_leaves_1e5_healthy_pairs_between_false_alarms():
    assert pairs_to_alarm(HEALTHY) >= PAIRS_TO_FALSE_ALARM > pairs_to_alarm(HEALTHY, LIMIT - 1)
    assert pairs_to_alarm(HEALTHY / 2) > 100 * PAIRS_TO_FALSE_ALARM  # as the default bands promise


@pytest.mark.slow
def test_a_healthy_stream_is_left_alone_as_long_as_was_computed():
    """Two million healthy pairs: 20 false alarms are expected of them, and not twice as many."""
    watch, errors = ChangeDetector(), np.random.default_rng(14).random(2_000_000) < HEALTHY
    watch.see(errors.tolist())
    assert watch.changes <= 2 * len(errors) / PAIRS_TO_FALSE_ALARM
    assert watch.changes >= len(errors) / PAIRS_TO_FALSE_ALARM / 2


@pytest.mark.parametrize(
    ("errors", "mean", "most"), [(ALARMING, 91, 200), (0.2, 33, 65), (0.5, 12, 20)]
)
def test_a_change_is_reported_within_so_many_pairs(errors, mean, most):
    """On average *mean*, and *most* in 19 of 20 of the cases."""
    assert pairs_to_alarm(errors) <= mean
    found = delays(errors, runs=2_000, seed=7)
    assert np.mean(found) == pytest.approx(pairs_to_alarm(errors), rel=0.07)
    assert np.quantile(found, 0.95) <= most


def pairs_until_the_interval_tells(errors: float, duplicates: float, seed: int) -> int:
    """Pairs after which the upper end of the window's recall is below .95 (AuditedRecallLow)."""
    draws = np.random.default_rng(seed)
    window = int(SAMPLED_MIN * duplicates)
    missed = (draws.random(window) < HEALTHY).tolist()
    for pairs in range(1, 10 * window):
        missed = [*missed[1:], bool(draws.random() < errors)]
        lost, unseen = sum(missed), SAMPLED_MIN - (window - sum(missed))
        least_lost, _ = bounds(lost, sample=unseen, population=20 * unseen)
        found = 20 * (window - lost)
        if found / (found + least_lost) < 0.95:
            return pairs
    return 10 * window


@pytest.mark.slow
@pytest.mark.parametrize("errors", [ALARMING, 0.2, 0.5])
def test_it_is_reported_far_sooner_than_by_the_interval_of_the_window(errors):
    """A tenth of the stream are duplicates; a twentieth of them is audited: 400 in a window."""
    waits = [pairs_until_the_interval_tells(errors, 0.1, seed) for seed in range(8)]
    assert np.median(waits) > 2.5 * pairs_to_alarm(errors)


def test_the_score_follows_from_the_pairs_alone_however_rounds_cut_them():
    errors = (np.random.default_rng(3).random(5_000) < 0.06).tolist()
    whole, cut = ChangeDetector(), ChangeDetector()
    whole.see(errors)
    for begin in range(0, len(errors), 37):
        cut.see(errors[begin : begin + 37])
    assert cut == whole
    assert whole.changes > 0


def test_five_errors_in_a_row_tell_and_right_pairs_between_them_delay_it():
    watch = ChangeDetector()
    assert watch.share is None
    watch.see([True] * 4)
    assert (watch.score, watch.changes) == (4 * ERROR, 0)
    watch.see([True])
    assert (watch.score, watch.changes) == (0, 1)
    watch.see([False] * 10)
    assert watch.score == 0  # a good past buys nothing
    watch.see([True, True, False, True, True, True])
    assert (watch.score, watch.changes) == (5 * ERROR - 1, 1)


def test_of_a_round_only_what_has_an_original_speaks_of_recall():
    found = a_round(near=40, unique=500, missed=6)
    errors = errors_of(found)
    assert errors["recall"].tolist() == [False] * 40 + [True] * 6
    assert errors["wrong"].tolist() == [False] * 40
    found.similarity[:3] = 0  # withheld, and similar to nothing
    found.equal[40:42] = True  # recall of equal texts is another figure
    errors = errors_of(found)
    assert errors["recall"].tolist() == [False] * 37 + [True] * 4
    assert errors["wrong"].tolist() == [True] * 3 + [False] * 37


def test_bands_that_miss_are_reported_and_bands_that_hit_are_not():
    """The same copies, alike to .8 and more, through the audit itself."""
    texts = a_stream(21, originals=150, copies=150, words=(2, 4, 6))
    told = {}
    for bands, rows in ((5, 12), (16, 6)):
        quality = Quality()
        quality.audited(audited(Run.of(bands=bands, rows=rows, threshold=0.8, seed=21), texts))
        told[bands, rows] = {name: watch.changes for name, watch in quality.changes.items()}
    assert told[5, 12]["recall"] >= 1
    assert told[16, 6] == {"recall": 0, "wrong": 0}
    assert told[5, 12]["wrong"] == 0


def test_verdicts_by_signature_alone_that_become_wrong_are_reported():
    texts = a_stream(3, originals=300, copies=300, words=(8,))
    quality = Quality()
    run = Run.of(bands=32, rows=4, threshold=0.76, seed=3, method="signature")
    quality.audited(audited(run, texts))
    assert quality.changes["wrong"].changes >= 1


def test_metrics_and_status_show_it_and_what_is_not_known_is_nan_with_the_reason():
    metrics = Metrics()
    before = metrics.quality()["audit_changes"]["recall"]
    assert np.isnan(metrics.value("audit_change_score", "recall"))
    assert before["score"] is None
    assert "audit.arrivals" in before["why"]
    metrics.audited(a_round(near=40, unique=400, missed=6))
    assert metrics.value("audit_changes_total", "recall") == 1
    assert metrics.value("audit_change_score", "recall") == ERROR / change.LIMIT
    assert metrics.value("audit_change_score", "wrong") == 0
    told = metrics.quality()["audit_changes"]["recall"]
    assert told == {"score": ERROR / LIMIT, "changes": 1, "why": ""}


def test_where_shingles_are_sampled_no_change_is_reported_but_why():
    metrics = Metrics()
    metrics.describe(Scheme(16, 6, shingling=Shingling(sample_modulus=4)), threshold=0.8)
    metrics.audited(a_round(near=0, unique=400, missed=50))
    assert metrics.value("audit_changes_total", "recall") == 0
    assert np.isnan(metrics.value("audit_change_score", "recall"))
    assert metrics.quality()["audit_changes"]["recall"]["why"] == SAMPLED
