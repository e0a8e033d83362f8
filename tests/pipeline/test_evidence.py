"""The evidence of a duplicate is bounded in bytes, in every output mode."""

import json
import random
from itertools import repeat

import pytest

from streamfilter.engine.messages.forwarding import Destinations, Forwarder, Style
from streamfilter.engine.ports import Layout
from streamfilter.index.memory import MemoryIndex
from streamfilter.matching.pipeline import MatchPolicy, judge
from streamfilter.matching.verdict.envelope import (
    MATCH_BYTES,
    MATCHES_BYTES_MAX,
    encode,
    matches,
    within,
)
from streamfilter.model import Decision, Match, Record, Source, Verdict
from streamfilter.similarity.columns import Widths
from tests.pipeline.test_sequential_model import SKETCHER, batch_of, run_in_batches, story
from tests.support.cases import cases

LONG = "i" * 1_024
BASE = story(random.Random(1), 12)


def variant(number: int) -> str:
    """.91 like the base, and .83 like each other variant."""
    return " ".join([*BASE, f"y{number}"])


def found_of(topics: list[str]) -> Decision:
    """The decision on a text that is like a document of each of *topics*."""
    index, policy = MemoryIndex(Widths(128)), MatchPolicy(threshold=0.9)
    texts = [variant(number) for number in range(len(topics))]
    run_in_batches(texts, repeat(100), index, policy)
    judged = judge(
        batch_of(["new"], [len(topics)]), SKETCHER.sketch([" ".join(BASE)]), index=index,
        policy=MatchPolicy(threshold=0.8),
        locate=lambda _, offset: Source(topics[offset], 0, offset), number=1,
        first_ordinal=len(topics),
    )  # fmt: skip
    return judged.decisions[0]


def matches_of(ids: list[str]) -> list[Match]:
    source = Source("t" * 249, 65_535, 2**63 - 1)
    return [Match(id_, 0.911111, 16, source, n, 0.922222) for n, id_ in enumerate(ids)]


@cases("id_", [LONG, "\x01" * 1_024, "ü" * 512, "\U0001f98a" * 256, "short"])
def test_matches_are_listed_up_to_their_bound_and_the_best_one_always(id_):
    kept = within(matches_of([id_] * 40))
    told = Decision(Verdict.NEAR_DUPLICATE, tuple(kept))
    assert len(kept) == 1 or len(encode(matches(told))) <= MATCHES_BYTES_MAX + 2
    assert 1 <= len(kept) < 40


def test_ordinary_matches_are_all_listed():
    ordinary = matches_of(["0b7ab89c-8d4c-4f0c-9b6a-2f7f3a1d0c55"] * 8)
    several = [each for each in ordinary if len(each.source.topic) == 249][:7]
    assert list(within(several)) == several
    (one,) = matches_of([""])
    spelled = len(encode(matches(Decision(Verdict.NEAR_DUPLICATE, (one,)))))
    assert spelled - 2 - len('""') - 249 <= MATCH_BYTES


def test_matches_that_reach_the_bound_to_the_byte_are_listed(monkeypatch):
    several = matches_of(["short"] * 3)
    all_of_them = 3 * (len(encode("short")) + 249 + MATCH_BYTES)
    for bound, listed in ((all_of_them, 3), (all_of_them - 1, 2)):
        monkeypatch.setattr("streamfilter.matching.verdict.envelope.MATCHES_BYTES_MAX", bound)
        assert len(within(several)) == listed


def test_a_verdict_says_that_matches_were_left_out_for_their_bytes():
    decision = found_of([LONG] * 6)
    assert decision.verdict is Verdict.NEAR_DUPLICATE
    assert (len(decision.matches), decision.matches_truncated) == (2, True)
    few = found_of(["topic"] * 6)
    assert (len(few.matches), few.matches_truncated) == (6, False)


@pytest.mark.parametrize("mode", ["annotate", "envelope", "reference", "shadow"])
def test_no_output_mode_writes_more_evidence(mode):
    kept = tuple(within(matches_of([LONG] * 8)))
    decision = Decision(Verdict.NEAR_DUPLICATE, kept, "exact_jaccard", matches_truncated=True)
    layout, limits = Layout(1, dict.fromkeys(("u", "d"), 1)), dict.fromkeys(("u", "d"), 1_000_000)
    style = Style(
        shadow=mode == "shadow", duplicates_mode=mode.replace("shadow", "annotate"),
        scheme="a1b2c3d4", threshold=0.8,
    )  # fmt: skip
    forwarder = Forwarder(Destinations("u", "d", None, limits), style, layout)
    out = forwarder.output(Record(Source("t", 0, 1), None, b'{"text":"x"}'), decision, "new")
    assert out is not None
    headers = dict(out.headers)
    size = len(out.value or b"") + sum(len(name) + len(value or b"") for name, value in out.headers)
    assert size < MATCHES_BYTES_MAX + 3 * len(LONG) + 1_500
    said = headers.get("__streamfilter.matches_truncated") if headers else None
    assert said == b"true" or json.loads(out.value or b"{}")["matches_truncated"] is True
