"""The service's pools: what the pipeline counts of a batch of records."""

import numpy as np
import pytest

from streamfilter.assembly import sketcher_for
from streamfilter.entities.joined import join_fields
from streamfilter.index.memory import MemoryIndex
from streamfilter.index.progress import Progress
from streamfilter.index.protocol import Changes
from streamfilter.matching.pipeline import Batch, judge
from streamfilter.matching.verdict.policy import MatchPolicy
from streamfilter.model import Source, Verdict
from streamfilter.similarity.scheme import Scheme

SCHEME = Scheme.of_fields({"/name": "words", "/phone": "digits"})
POLICY = MatchPolicy(threshold=0.7, method="fields", fields=SCHEME.field_kinds)


def test_each_match_goes_into_the_pool_of_its_verdict_stored_or_of_the_batch():
    index, sketcher = MemoryIndex(SCHEME.widths), sketcher_for(SCHEME, seed=bytes(16))

    def judged(first, *records):
        rows = np.arange(first, first + len(records))
        batch = Batch([f"r{row}" for row in rows], rows * 0, rows, rows * 0)
        sketches = sketcher.sketch([join_fields(fields, at) for *fields, at in records])
        found = judge(
            batch, sketches, index=index, policy=POLICY, number=first, first_ordinal=first,
            locate=lambda partition, offset: Source("t", partition, offset),
        )  # fmt: skip
        index.apply(Changes(Progress(next_ordinal=first + len(records)), found.additions))
        return [each.verdict for each in found.decisions], found.counts.held_out

    near, same = Verdict.NEAR_DUPLICATE, Verdict.EXACT_DUPLICATE
    ann, bob = ("Ann Lee", "0123"), ("Bob Ray", "9876")
    verdicts, pools = judged(0, (*ann, "10"), (*bob, "50"), ("Anne Lee", "0123", "13"), (*ann, ""))
    assert verdicts == [Verdict.UNIQUE, Verdict.UNIQUE, near, same]
    assert (pools.matched.pairs, pools.matched.total) == (1, 3.0)
    assert pools.identical.pairs == 0, "one of the two has no date"
    assert pools.random.pairs == 0, "nothing is known yet"
    verdicts, pools = judged(4, (*bob, "57"), ("Bob Rai", "9876", "40"))
    assert verdicts == [same, near]
    assert (pools.identical.total, pools.matched.total) == pytest.approx((7.0, 10.0))
