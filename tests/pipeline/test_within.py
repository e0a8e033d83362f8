"""How old a match may be: an older copy is forwarded again, and stays remembered."""

from __future__ import annotations

import numpy as np
import pytest

from streamfilter.assembly import policy_for, retention_for
from streamfilter.config.loading import load_config
from streamfilter.index.memory import MemoryIndex
from streamfilter.matching.blocking.retention import Retention, came_at
from streamfilter.matching.explanation import beside, explain
from streamfilter.matching.pipeline import MatchPolicy
from streamfilter.matching.search import search
from streamfilter.matching.verdict.decision import Fate
from streamfilter.similarity.columns import Widths
from streamfilter.stops import ConfigError
from tests.pipeline.test_sequential_model import SKETCHER, run_in_batches
from tests.support.cases import cases

DAY = 86_400_000
WITHIN = Retention(within=3 * DAY)
POLICY = MatchPolicy(short_text="exact_only", within=3 * DAY)
TEXT = " ".join(f"w{number}" for number in range(60))
NEAR = TEXT.replace("w30 ", "other ")


def judged(index, texts, days, *, size=1, retention=WITHIN, before=0):
    """Judge *texts* that arrive on these *days*, in batches of *size*, by a law of days."""
    left = iter(days)

    def extents(index, size):
        times = np.array([next(left) * DAY for _ in range(size)], np.int64)
        progress = index.progress
        return retention.extent(
            progress, index.windows, times=times, time=int(times[-1]), mark=index.mark
        )

    decisions = run_in_batches(texts, iter(lambda: size, None), index, POLICY, extents=extents)
    return [each.match.document_id if each.match else str(each.verdict) for each in decisions]


@cases("size", [1, 4, 100])
@cases("text", [TEXT, "short"])
def test_the_oldest_equal_text_within_reach_is_the_match_and_no_older_one_hides_it(size, text):
    days = [0, 2, 3, 4, 5, 7, 8, 11.5]
    found = judged(MemoryIndex(Widths(128)), [text] * 8, days, size=size)
    assert found == ["unique", "d0", "d0", "unique", "d3", "d3", "unique", "unique"]


def test_many_old_candidates_take_no_place_of_a_recent_one():
    texts, days = [], []
    for number in range(200):  # more than verify.max_candidates and the bound of 128 in all
        texts += [TEXT.replace("w59", f"x{number}"), TEXT.replace("w59", f"y{number}")]
        days += [4 * number, 4 * number + 1]
    found = judged(MemoryIndex(Widths(128)), texts, days, size=50)
    assert found == [f"d{n - 1}" if n % 2 else "unique" for n in range(400)]


@pytest.mark.parametrize("limit", [WITHIN, Retention(within=3 * DAY, documents=1_000)])
def test_explanations_name_what_is_too_old_and_counts_say_how_many(limit):
    index = MemoryIndex(Widths(128))
    days = [0, 1, 9]
    other = TEXT[::-1]
    assert judged(index, [TEXT, other, NEAR], days, retention=limit) == ["unique"] * 3
    sketches = SKETCHER.sketch([NEAR])
    stored = index.fetch(np.array([2]))
    assert came_at(index, stored) == 9 * DAY
    reach = limit.reach_at(index, came_at(index, stored))
    assert reach == 2
    told = explain(index, sketches, policy=POLICY, before=2, reach=reach)
    assert str(told.decision.verdict) == "unique"
    (step,) = told.candidates
    assert (step.id, step.finding.fate, step.confirmed) == ("d0", Fate.TOO_OLD, False)
    assert "more than verify.within (3 days, 0:00:00) before" in step.finding.why
    assert "1 of them arrived earlier than verify.within" in told.reason
    (found,) = search(index, sketches, policy=POLICY, reach=reach)
    assert {each.id: each.confirmed for each in found} == {"d0": False, "d2": True}
    first = index.fetch(np.array([0]))
    keys = SKETCHER.keys_of(first.contents)
    assert beside(sketches, first, keys, policy=POLICY, reach=2).other.finding.fate is Fate.TOO_OLD
    assert beside(sketches, first, keys, policy=POLICY).other.confirmed


def test_documents_from_before_it_was_set_count_as_arrived_then_and_a_longer_one_finds_them_again():
    retentions = iter([Retention()] * 2 + [WITHIN] * 3 + [Retention(within=90 * DAY), Retention()])
    days, index = iter([0, 1, 20, 22, 24, 30, 31]), MemoryIndex(Widths(128))
    copies = [TEXT, "another", "third", TEXT, TEXT, NEAR, "another"]

    def extents(index, size):
        times = np.array([next(days) * DAY], np.int64)
        retention = next(retentions)
        return retention.extent(
            index.progress, index.windows, times=times, time=int(times[0]), mark=index.mark
        )

    found = run_in_batches(copies, iter(lambda: 1, None), index, POLICY, extents=extents)
    names = [each.match.document_id if each.match else "unique" for each in found]
    assert names == ["unique", "unique", "unique", "d0", "unique", "d0", "d1"]
    assert {each.document_id for each in found[5].matches} == {"d0", "d4"}


@cases("value", ["0s", "3", "-1d", "[1d]", "true", "1e9d"])
def test_a_time_that_is_none_is_refused(value):
    with pytest.raises(ConfigError, match=r"verify\.within"):
        load_config((), {}, [f"verify.within={value}"])


def test_the_setting_is_no_part_of_the_scheme_and_reaches_policy_and_retention():
    off, on = load_config((), {}, []), load_config((), {}, ["verify.within=36h"])
    assert on.scheme() == off.scheme()
    assert (policy_for(off).within, retention_for(off).within) == (None, None)
    assert policy_for(on).within == retention_for(on).within == 36 * 3_600_000
    assert not retention_for(on).limited
