"""Explanations agree with the verdict: `explain` and `query` against the filter."""

import itertools
import json
import random
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamfilter.assembly import sketcher_for
from streamfilter.cli import main
from streamfilter.entities.joined import join_fields
from streamfilter.index.memory import MemoryIndex
from streamfilter.index.progress import Progress
from streamfilter.index.protocol import Changes
from streamfilter.matching.explanation import explain, one_after_the_other
from streamfilter.matching.pipeline import Batch, judge
from streamfilter.matching.search import search
from streamfilter.matching.verdict.decision import Fate
from streamfilter.matching.verdict.policy import MatchPolicy
from streamfilter.model import DUPLICATES, Source, Verdict
from streamfilter.similarity.scheme import Scheme, Shingling
from streamfilter.similarity.sketch import Sketcher

SEED = bytes(range(16))
CAP = 4
RECORDS = Scheme.of_fields({"/name": "words", "/address": "words", "/phone": "digits"})
SKETCHERS = {
    "words": Sketcher(Scheme(32, 4, shingling=Shingling(size=1)), seed=SEED),
    "cut": Sketcher(Scheme(42, 3, shingling=Shingling(size=1, sample_modulus=2)), seed=SEED),
    "random": Sketcher(Scheme(32, 3, layout="random", shingling=Shingling(size=1)), seed=SEED),
    "records": sketcher_for(RECORDS, seed=SEED),
}
SHARE = st.sampled_from([0.4, 0.5, 0.6, 2 / 3, 0.75, 0.8, 0.9, 1.0])
BY_SIZE = {
    "containment": st.none() | SHARE,
    "contained": st.sampled_from(["shorter", "arriving"]),
    "short_threshold": st.none() | SHARE,
    "short_size": st.sampled_from([4, 12, 32]),
}
COMMON = {
    "threshold": SHARE,
    "max_candidates": st.integers(1, 4),
    "short_text": st.sampled_from(["forward", "exact_only", "drop"]),
}
POLICIES = st.one_of(
    st.fixed_dictionaries({"method": st.sampled_from(["exact", "signature"]), **COMMON, **BY_SIZE}),
    st.fixed_dictionaries({"method": st.just("sketch"), **COMMON, "agree": st.integers(50, 100)}),
)


def text_of(rng: random.Random, known: list[str]) -> str:
    """Return a new text, or one made of an earlier one: cut, grown, changed in places."""
    words = [f"w{rng.randrange(400)}" for _ in range(rng.choice([0, 3, 8, 20, 60]))]
    if known and rng.random() < 0.75:
        old = rng.choice(known).split()
        keep = rng.choice([1.0, 0.95, 0.9, 0.8, 0.6])
        grown = rng.choice([0, 0, 2, 6])
        words = [word for word in old if rng.random() < keep] + words[:grown]
    return " ".join(words)


def record_of(rng: random.Random, known: list[str]) -> str:
    names, phones = ["Ann Lee", "Ann Lea", "Bob", ""], ["5551234567", "5551234568", ""]
    values = [rng.choice(column) for column in (names, ["1 Elm", "2 Elm", "9 Oak"], phones)]
    return join_fields(values)


def batch(name: str, offset: int) -> Batch:
    return Batch([name], np.zeros(1, np.int64), np.array([offset]), np.full(1, -1))


def locate(partition: int, offset: int) -> Source:
    return Source("in", partition, offset)


def stories(kind: str, seed: int, count: int = 10) -> list[str]:
    rng, known = random.Random(seed), []
    for _ in range(count):
        known.append((record_of if kind == "records" else text_of)(rng, known))
    return known


NUMBERS = re.compile(r"(?:similarity|score) ([\d.e-]+) (reaches|misses) the threshold ([\d.e-]+)")


def check_words(why: str, fate: Fate) -> None:
    """Hold the sentence to itself: its numbers say what its verb says, and that is its fate."""
    for value, verb, limit in NUMBERS.findall(why):
        assert (float(value) >= float(limit)) is (verb == "reaches"), why
    told = NUMBERS.search(why)
    if fate is Fate.MATCH and told:
        assert told[2] == "reaches", why
    if fate in (Fate.BELOW, Fate.CONTAINED) and told:
        assert told[2] == "misses", why
    if fate is Fate.CONTAINED:
        assert "reaches verify.containment" in why


@pytest.mark.slow
@settings(max_examples=25)
@given(kind=st.sampled_from(list(SKETCHERS)), given_=POLICIES, seed=st.integers(0, 10**6))
def test_explain_says_what_the_filter_does_verdict_evidence_and_reason(kind, given_, seed):
    sketcher = SKETCHERS[kind]
    policy = policy_of(kind, given_)
    index = MemoryIndex(sketcher.scheme.widths, bucket_cap=CAP)
    for place, text in enumerate(stories(kind, seed)):
        sketches = sketcher.sketch([text])
        told = explain(index, sketches, policy=policy, locate=locate)
        done = judge(
            batch(f"d{place}", place), sketches, index=index, policy=policy, locate=locate,
            number=place, first_ordinal=place,
        )  # fmt: skip
        (decision,) = done.decisions
        assert told.decision == decision
        steps = [step for step in told.candidates if step.confirmed]
        assert [step.id for step in steps] == [match.document_id for match in decision.matches]
        for step in told.candidates:
            check_words(step.finding.why, step.finding.fate)
            assert len(step.shared) == step.bands
            assert set(step.shared) <= set(range(sketcher.scheme.bands))
        for step, match in zip(steps, decision.matches, strict=True):
            assert step.finding.similarity == match.similarity
        if decision.match is not None:
            assert steps[0].finding.method == decision.method
            assert steps[0].finding.p_false_positive == decision.p_false_positive
            expected = f"of {decision.match.document_id}: {steps[0].finding.why}"
            exact = decision.verdict is Verdict.EXACT_DUPLICATE
            assert told.reason == ("an earlier document has the same text" if exact else expected)
        check_search(index, sketches, policy, decision)
        index.apply(Changes(Progress(next_batch=place + 1, next_ordinal=place + 1), done.additions))


def policy_of(kind: str, given_: dict) -> MatchPolicy:
    if kind == "records":
        common = {name: given_[name] for name in COMMON}
        return MatchPolicy(**common, method="fields", fields=RECORDS.field_kinds)
    return MatchPolicy(**given_, sample_modulus=2 if kind == "cut" else 1)


def check_search(index, sketches, policy, decision):
    """A search finds at least what the verdict names, each with the same similarity."""
    (found,) = search(index, sketches, policy=policy)
    confirmed = {each.id: each.finding for each in found if each.finding.confirmed}
    for match in decision.matches:
        assert confirmed[match.document_id].similarity == match.similarity
        assert confirmed[match.document_id].containment == match.containment


@pytest.mark.slow
@settings(max_examples=25)
@given(kind=st.sampled_from(list(SKETCHERS)), given_=POLICIES, seed=st.integers(0, 10**6))
def test_compare_says_what_the_filter_does_with_two_texts(kind, given_, seed):
    sketcher, policy = SKETCHERS[kind], policy_of(kind, given_)
    texts = stories(kind, seed, 6)
    for one, other in itertools.pairwise(texts):
        zeros = np.zeros(2, np.int64)
        done = judge(
            Batch(["the first", "b"], zeros, np.arange(2), zeros - 1),
            sketcher.sketch([one, other]), index=MemoryIndex(sketcher.scheme.widths),
            policy=policy, locate=locate, number=0, first_ordinal=0,
        )  # fmt: skip
        pair = one_after_the_other(one, other, sketcher, policy=policy, bucket_cap=CAP)
        ours, theirs = pair.explanation.decision, done.decisions[1]
        assert (ours.verdict, ours.method, ours.p_false_positive, ours.reason) == (
            theirs.verdict, theirs.method, theirs.p_false_positive, theirs.reason
        )  # fmt: skip
        if theirs.verdict in DUPLICATES:
            assert pair.beside.other.confirmed
            assert pair.beside.other.finding.similarity == theirs.matches[0].similarity
        elif theirs.verdict is Verdict.UNIQUE and pair.remembered:
            assert not pair.beside.other.confirmed
        if pair.beside.other.finding.fate is not Fate.UNMET:
            check_words(pair.beside.why, pair.beside.other.finding.fate)


WORDS = [f"word{i}" for i in range(40)]
CASES = {  # words of both texts, a setting, and what is to be reported
    "containment": (38, 26, "verify.containment=0.9", "near_duplicate", "exact_containment",
                    "1.0000 of the shorter text is in the other and reaches verify.containment 0.9;"
                    " similarity 0.6667 misses the threshold 0.8"),
    "plain": (38, 30, "verify.max_candidates=8", "unique", None,
              "similarity 0.7778 misses the threshold 0.8"),
    "similar": (32, 28, "verify.max_candidates=8", "near_duplicate", "exact_jaccard",
                "similarity 0.8667 reaches the threshold 0.8"),
    "short": (32, 28, "verify={short_threshold: 0.95, short_size: 64}", "unique", None,
              "similarity 0.8667 misses the threshold 0.889062 of so short a text"),
    "sketch": (38, 26, "verify.method=sketch", "unique", None,
               "of 100 slots agree: that misses the 90 that are wanted"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_one_reason_from_the_command_line_whatever_is_asked(case, tmp_path, capsys):
    long, short, setting, verdict, method, words = CASES[case]
    texts = [" ".join(WORDS[:count]) for count in (long, short)]
    lines = [json.dumps({"id": f"d{i}", "text": text}) for i, text in enumerate(texts)]
    (tmp_path / "in").write_text("\n".join(lines))
    shape = ["-s", "similarity.bands=42", "-s", "similarity.rows=3", "-s", setting]
    out = [f"--{name}={tmp_path / name}" for name in ("unique", "duplicates", "state")]
    assert main(["filter", str(tmp_path / "in"), *out, *shape]) == 0
    withheld = (tmp_path / "duplicates").read_text().splitlines()
    capsys.readouterr()
    # Who was forwarded is explained as it was judged: against the earlier ones.
    asked = [texts[1]] if withheld else ["--id", "d1"]
    explained = ["explain", "--state", str(tmp_path / "state"), *asked]
    for command in (explained, ["explain", *texts, *shape]):
        assert main([*command, "-o", "json"]) == 0
        told = json.loads(capsys.readouterr().out)
        assert (told["verdict"], told["method"]) == (verdict, method)
        why = told["reason"] if "candidates" not in told else told["candidates"][0]["why"]
        assert words in why
    assert bool(withheld) is (verdict == "near_duplicate")
    if withheld:
        assert json.loads(withheld[0])["method"] == method
