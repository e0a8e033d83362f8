"""Texts of more than 1,024 shingles: the second look reads what the verdict read, and says so."""

import random

import numpy as np
import pytest

from streamfilter.quality.live.audit import Audit, Rates
from streamfilter.quality.live.audit_sample import ArrivalKind
from streamfilter.quality.live.audit_scan import Round
from streamfilter.quality.live.change import errors_of
from streamfilter.quality.live.figures import Quality
from streamfilter.similarity.scheme import Scheme, Shingling
from streamfilter.similarity.sketch import Sketcher
from tests.audit.planted import Run, batches
from tests.audit.rounds import rounds
from tests.support.values import replace

THRESHOLD = 0.8


def pairs(seed: int, number: int, *, words: int) -> tuple[list[str], list[bool]]:
    """Return texts of *words*, one after the other a copy of each, and which copies are true."""
    chooser, originals, copies, similar = random.Random(seed), [], [], []
    for _ in range(number):
        text = [f"w{chooser.getrandbits(48):x}" for _ in range(words)]
        wanted = chooser.uniform(0.76, 0.83)
        kept = round(2 * words * wanted / (1 + wanted))
        changed = [f"w{chooser.getrandbits(48):x}" for _ in range(words - kept)]
        originals.append(" ".join(text))
        copies.append(" ".join([*text[:kept], *changed]))
        similar.append(kept / (2 * words - kept) >= THRESHOLD)
    return originals + copies, [False] * number + similar


def audited(texts: list[str], *, bands: int = 16, rows: int = 6, method: str = "exact",
            scheme: Scheme | None = None) -> Round:  # fmt: skip
    run = Run.of(bands=bands, rows=rows, threshold=THRESHOLD, seed=0, method=method)
    scheme = scheme or Scheme(bands, rows, shingling=Shingling(size=1))
    run = replace(run, sketcher=Sketcher(scheme, seed=bytes(range(16))))
    modulus = scheme.shingling.sample_modulus
    run = replace(run, policy=replace(run.policy, sample_modulus=modulus))
    audit = Audit(Rates(arrivals=1.0), run.policy, run.index, run.sketcher.keys_of)
    for batch in batches(texts, 60):
        sketches, judgement, first = run.step(batch)
        audit.batch(sketches, judgement, first_ordinal=first)
    (found,) = rounds(audit)
    return found


def judged(found: Round, *, exact: bool = True) -> Quality:
    quality = Quality()
    quality.exact = exact
    quality.audited(found)
    return quality


def truth(found: Round, similar: list[bool]) -> tuple[float, float]:
    """Return (recall, precision) of all, by the sets as they were made."""
    near, right = found.kinds == ArrivalKind.NEAR, np.array(similar)
    return float((near & right).sum() / right.sum()), float((near & right).sum() / near.sum())


@pytest.mark.parametrize("method", ["exact", "signature"])
def test_of_cut_sets_the_audit_knows_nothing_and_says_why(method):
    """It reported 1.0 [1.0, 1.0] of both where verdicts were wrong and copies were missed."""
    texts, similar = pairs(1, 120, words=2_000)
    found = audited(texts, method=method)
    assert max(truth(found, similar)) < 1
    told = judged(found, exact=method == "exact").as_dict()
    for name in ("audit_recall", "audit_precision"):
        assert told[name]["says"] == "not known"
        assert "1,024" in told[name]["why"]
    assert told["reliability"] == []
    assert {row["recall"]["says"] for row in told["audit_by_similarity"]} == {"not known"}
    assert not found.doubting.any()


def test_of_a_stream_with_some_cut_sets_the_bounds_hold_the_truth():
    long, short = pairs(2, 30, words=2_000), pairs(3, 90, words=400)
    texts, similar = short[0] + long[0], short[1] + long[1]
    found = audited(texts, bands=8, rows=8)
    recall, precision = truth(found, similar)
    quality = judged(found).window()
    assert (quality.recall().lower or 0) <= recall <= (quality.recall().upper or 1)
    assert quality.recall().upper < 1  # what was missed of short texts is known
    assert quality.precision().says == "lower bound"
    assert 0.4 < quality.precision().lower <= precision < 1
    for figure in (quality.recall(), quality.precision()):
        assert (figure.value is None) == (None in (figure.lower, figure.upper))
        assert "1,024" in figure.why
    for row in quality.reliability():
        assert row["verdicts"] == found.whole[found.kinds == ArrivalKind.NEAR].sum()
        assert "1,024" in row["why"]


@pytest.mark.parametrize(
    ("shared", "known"), [(0, True), (760, True), (1_760, False), (1_880, True)]
)
def test_a_cut_set_leaves_only_those_open_that_are_close_to_the_threshold(shared, known):
    """An estimate from 1,024 tokens errs by .0125; .05 from the threshold it decides."""
    words = [f"w{i}" for i in range(6_000)]
    texts = [" ".join(words[:2_000]), " ".join(words[2_000 - shared :][:2_000])]
    found = audited([*texts, " ".join(words[4_500:5_000])])
    assert found.whole.tolist() == [True, known, True]
    assert found.results["not_known"] == (not known)


def test_some_long_texts_leave_the_figures_of_all_others():
    """Two in a hundred of them, like nothing else, made every figure a bound or nothing."""
    chooser = random.Random(7)
    long = [" ".join(f"v{chooser.getrandbits(48):x}" for _ in range(1_500)) for _ in range(6)]
    texts = pairs(3, 90, words=400)[0]
    alone, beside = audited(texts, bands=8, rows=8), audited(texts + long, bands=8, rows=8)
    figures = [judged(found).window().recall() for found in (alone, beside)]
    assert figures[0] == figures[1]
    assert figures[0].says == "known"
    assert [row["recall"]["why"] for row in judged(beside).window().by_similarity()] == [""]


def test_verdicts_on_cut_sets_do_not_soothe_the_watch_for_a_change():
    """Each took 1 off the score, and reported nothing: 18 in a row hide an error."""
    found = audited(pairs(1, 40, words=2_000)[0])
    assert (found.kinds == ArrivalKind.NEAR).sum() > 5
    assert {name: len(errors) for name, errors in errors_of(found).items()} == {
        "recall": 0, "wrong": 0,
    }  # fmt: skip


def test_equal_texts_are_reported_by_the_whole_of_them():
    texts, _ = pairs(4, 10, words=2_000)
    found = audited([*texts, *texts[:5]])
    assert judged(found).as_dict()["audit_recall_equal"]["says"] == "known"


def test_verdicts_on_cut_sets_are_counted_apart_from_the_audited_results():
    """Each was a true positive or a true negative: the second look reads what the verdict read."""
    found = audited(pairs(1, 40, words=2_000)[0], bands=8, rows=8)
    assert found.results == {
        "true_positive": 0, "false_positive": 0, "false_negative": 0, "true_negative": 41,
        "not_known": 39,
    }  # fmt: skip
    assert set(found.by_cause.values()) == {0}
    told = judged(found).as_dict()
    assert (told["audit_not_known"], told["audit_missed_sampled"]) == (39, 0)
    some = audited(pairs(2, 10, words=2_000)[0] + pairs(3, 20, words=400)[0])
    assert 8 <= some.results["not_known"] <= 10
    assert sum(some.results.values()) == len(some.kinds) == 60


def test_under_a_sample_modulus_no_audited_result_is_counted():
    """Of half of the shingles all four results, the losses and the reliability were counted."""
    texts, _ = pairs(5, 40, words=300)
    scheme = Scheme(8, 8, shingling=Shingling(size=1, sample_modulus=2))
    found = audited(texts, bands=8, rows=8, scheme=scheme)
    assert (found.kinds == ArrivalKind.NEAR).sum() > 5
    assert found.results["not_known"] == sum(found.results.values()) == 80
    assert not found.doubting.any()
    assert {name: len(errors) for name, errors in errors_of(found).items()} == {
        "recall": 0, "wrong": 0,
    }  # fmt: skip
