"""Policies, as verdicts: containment, thresholds by size, slots that agree, and their doubt."""

import random

import numpy as np
import pytest

from streamfilter.index.memory import MemoryIndex
from streamfilter.matching.pipeline import Batch, MatchPolicy, judge
from streamfilter.model import Source, Verdict
from streamfilter.similarity.minhash import MinHasher, estimate
from streamfilter.similarity.scheme import Scheme, Shingling
from streamfilter.similarity.sketch import Sketcher
from streamfilter.similarity.statistics.shape import Shape
from tests.support.cases import cases

SEED = bytes(range(1, 17))
"""One of the 97 in a hundred seeds under which `LONG` and `SHORT` share a band."""
SKETCHER = Sketcher(Scheme(16, 6), seed=SEED)
WORDS = [f"w{i}" for i in range(3_000)]


def verdicts(texts, policy, sketcher=SKETCHER):
    n = len(texts)
    zeros = np.zeros(n, np.int64)
    return judge(
        Batch([f"d{i}" for i in range(n)], zeros, np.arange(n), zeros), sketcher.sketch(texts),
        index=MemoryIndex(sketcher.scheme.widths), policy=policy, number=0, first_ordinal=0,
        locate=lambda p, o: Source("t", p, o),
    ).decisions  # fmt: skip


def pair(one, other, **policy):
    return verdicts([" ".join(one), " ".join(other)], MatchPolicy(**policy))[1]


LONG, SHORT = WORDS[:120], WORDS[:92]
"""118 shingles, and 90 of them: Jaccard .763, containment 1."""


def test_a_text_inside_another_is_a_duplicate_by_containment_and_by_nothing_else():
    assert pair(LONG, SHORT).verdict == Verdict.UNIQUE
    for policy in ({"containment": 0.9}, {"containment": 1.0}):
        found = pair(LONG, SHORT, **policy)
        assert found.verdict == Verdict.NEAR_DUPLICATE
        assert found.method == "exact_containment"
        assert found.p_false_positive == 0.0
        assert found.match.containment == 1.0
        assert found.match.similarity == 90 / 118


def test_what_is_similar_anyway_keeps_its_method_and_tells_its_containment():
    found = pair(LONG, WORDS[:110], containment=0.9)
    assert (found.method, found.match.containment) == ("exact_jaccard", 1.0)
    assert pair(LONG, LONG, containment=0.9).match.containment == 1.0
    assert pair(LONG, WORDS[:110]).match.containment is None


def test_containment_is_of_the_shorter_text_or_of_the_arriving_one_alone():
    longer_later = {"one": SHORT, "other": LONG}
    assert pair(**longer_later, containment=0.9).verdict == Verdict.NEAR_DUPLICATE
    assert pair(**longer_later, containment=0.9, contained="arriving").verdict == Verdict.UNIQUE
    found = pair(LONG, SHORT, containment=0.9, contained="arriving")
    assert found.verdict == Verdict.NEAR_DUPLICATE


def test_a_share_just_below_the_containment_wanted_is_not_enough():
    share = 85 / 90  # five shingles of the shorter text are its own
    changed = [*SHORT[:-5], *(f"x{i}" for i in range(5))]
    assert pair(LONG, changed, containment=share).match.containment == share
    assert pair(LONG, changed, containment=share + 1e-6).verdict == Verdict.UNIQUE


def test_above_the_sample_containment_is_an_estimate_that_knows_its_doubt():
    long = [f"w{i}" for i in range(6_000)]
    found = pair(long, long[:4_600], containment=0.9)
    assert found.verdict == Verdict.NEAR_DUPLICATE
    assert found.method == "sampled_containment"
    assert found.match.containment == pytest.approx(1.0, abs=0.04)
    assert 0 < found.p_false_positive < 1e-3


def test_containment_meets_as_often_as_the_planner_says():
    """Bands know Jaccard alone, so what is contained in much more is hardly ever met."""
    rng = random.Random(5)
    for ratio in (1.2, 1.5, 2.0):
        met = 0
        texts = []
        for _ in range(150):
            words = [f"w{rng.getrandbits(40)}" for _ in range(round(100 * ratio) + 2)]
            texts += [" ".join(words), " ".join(words[:102])]
        decisions = verdicts(texts, MatchPolicy(containment=0.95))
        met = sum(each.verdict == Verdict.NEAR_DUPLICATE for each in decisions)
        expected = Shape(16, 6).contained(1.0, ratio) * 150
        assert abs(met - expected) <= 4 * (expected * (1 - expected / 150)) ** 0.5 + 1, ratio


def test_a_short_text_needs_more_when_its_threshold_is_raised():
    """40 words, the last of them changed: Jaccard 37/39; 200 words, five changed: .951."""
    short, long = WORDS[:40], WORDS[:200]
    near_short, near_long = [*short[:-1], "x"], [*long[:-5], *"vwxyz"]
    policy = {"short_threshold": 0.99, "short_size": 60}
    assert pair(short, near_short).verdict == Verdict.NEAR_DUPLICATE
    # 38 of 60 shingles: .99 - .19 * 38 / 60 = .8697
    assert pair(short, near_short, **policy).verdict == Verdict.NEAR_DUPLICATE
    assert pair(WORDS[:12], [*WORDS[:11], "x"], threshold=0.8).verdict == Verdict.NEAR_DUPLICATE
    assert pair(WORDS[:12], [*WORDS[:11], "x"], **policy).verdict == Verdict.UNIQUE
    assert pair(long, near_long, **policy).verdict == Verdict.NEAR_DUPLICATE


def test_the_line_from_short_to_long_is_straight_and_ends_at_the_threshold():
    policy = MatchPolicy(threshold=0.8, short_threshold=0.96, short_size=40)
    sizes = np.array([0, 10, 20, 39, 40, 41, 5_000])
    wanted = policy.terms(sizes, np.full(7, 10_000)).wanted
    assert wanted[:3] == pytest.approx([0.96, 0.92, 0.88])
    assert 0.8 < wanted[3] < 0.81
    assert wanted[4:].tolist() == [0.8, 0.8, 0.8]
    assert (wanted == policy.terms(np.full(7, 10_000), sizes).wanted).all()


def passed_over(common: int, union: int, *, pairs: int, **policy) -> int:
    """How many of *pairs* of sets with so many *common* tokens would not be compared."""
    tokens = np.random.default_rng(5).integers(0, 2**64, (pairs, union), dtype=np.uint64)
    more = common + (union - common) // 2
    shared = tokens[:, :common]
    sides = tokens[:, :more], np.concatenate((shared, tokens[:, more:]), axis=1)
    hasher = MinHasher(128, seed=SEED)
    one, other = (
        hasher.sign(side.reshape(-1), np.arange(pairs + 1) * side.shape[1]).astype(np.uint8)
        for side in sides
    )
    estimated = estimate((one == other).sum(axis=1), 128)
    sizes = (np.full(pairs, side.shape[1]) for side in sides)
    return int((~MatchPolicy(**policy).terms(*sizes).hopeful(estimated, slots=128)).sum())


@pytest.mark.slow
@cases(("common", "union"), [(1, 2), (2, 4), (4, 5), (8, 10), (20, 25), (80, 100)])
def test_of_pairs_at_the_threshold_one_in_ten_thousand_is_not_compared(common, union):
    """By 3.5 standard errors, and of few tokens too small ones, it was 4 to 36; now 0 or 1."""
    exactly = {"threshold": common / union}
    assert passed_over(common, union, pairs=20_000, **exactly) <= 4
    # The same where thresholds differ from pair to pair: near nothing it is the raised one.
    raised = {"threshold": 0.01, "short_threshold": common / union, "short_size": 10**9}
    assert passed_over(common, union, pairs=2_000, **raised) <= 1


def test_pairs_well_below_the_threshold_are_not_compared():
    """Of 100 shingles the signatures know more than 128 coin flips would: .24 were compared."""
    assert passed_over(79, 121, pairs=2_000) >= 0.9 * 2_000  # two variants of one text in a flood


def test_a_threshold_of_one_compares_only_what_is_equal_in_all_slots_or_nearly():
    terms = MatchPolicy(threshold=1.0).terms(*np.full((2, 1), 60))
    limits = [terms.hopeful(estimate(np.array([k]), 128), slots=128) for k in (100, 126, 128)]
    assert [bool(each[0]) for each in limits] == [False, False, True]


@pytest.mark.parametrize(("agree", "of"), [(90, 100), (60, 64), (128, 128), (1, 1)])
def test_the_sketch_rule_counts_the_first_slots_and_nothing_else(agree, of):
    rng = random.Random(agree)
    texts = []
    for _ in range(120):
        words = [f"w{rng.getrandbits(40)}" for _ in range(80)]
        changed = list(words)
        changed[-rng.randrange(1, 14) :] = [f"x{rng.getrandbits(40)}"]
        texts += [" ".join(words), " ".join(changed)]
    policy = MatchPolicy(method="sketch", agree=agree, of=of)
    signatures = SKETCHER.sketch(texts).contents.signatures
    decisions = verdicts(texts, policy)
    duplicates = 0
    for i in range(0, len(texts), 2):
        equal = int((signatures[i, :of] == signatures[i + 1, :of]).sum())
        if decisions[i + 1].verdict == Verdict.NEAR_DUPLICATE:
            duplicates += 1
            assert equal >= agree
            assert decisions[i + 1].method == "sketch"
        elif equal >= agree:  # never met
            keys = SKETCHER.sketch(texts[i : i + 2]).keys
            assert not (keys[0] == keys[1]).any()
    assert duplicates or agree == of == 128


def test_a_verdict_by_the_sketch_rule_doubts_by_the_share_that_the_rule_wants():
    """At just 90 of 100 slots, .8996 or less is as likely as more; that .8 is missed is not."""
    doubts = []
    for seed in range(40):
        rng = random.Random(seed)
        words = [f"w{rng.getrandbits(40)}" for _ in range(120)]
        changed = [*words[:-6], *(f"x{rng.getrandbits(40)}" for _ in range(6))]
        texts = [" ".join(words), " ".join(changed)]
        signatures = SKETCHER.sketch(texts).contents.signatures
        found = verdicts(texts, MatchPolicy(method="sketch"))[1]
        if (signatures[0, :100] == signatures[1, :100]).sum() == 90 and found.match:
            doubts.append(found.p_false_positive)
    assert doubts
    assert all(0.4 < doubt < 0.6 for doubt in doubts), doubts


def test_sampled_tokens_are_no_whole_sets_and_say_so():
    sketcher = Sketcher(Scheme(16, 6, shingling=Shingling(sample_modulus=2)), seed=SEED)
    texts = [" ".join(WORDS[:400]), " ".join([*WORDS[:390], "x"])]
    found = verdicts(texts, MatchPolicy(sample_modulus=2), sketcher)[1]
    assert found.method == "sampled_jaccard"
    assert 0 < found.p_false_positive < 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("method", ["signature", "sketch"])
def test_signatures_of_a_part_of_the_tokens_doubt_the_tokens_too(method):
    """Of 600 pairs 31 were wrong, and 13 were reported: by the slots alone, as if all was kept."""
    rng, told, wrong = random.Random(5), 0.0, 0
    scheme = Scheme(32, 4, shingling=Shingling(size=1, sample_modulus=16))
    sketcher = Sketcher(scheme, seed=SEED)
    policy = MatchPolicy(method=method, agree=80, of=100, sample_modulus=16)
    for _ in range(600):
        words = [f"{rng.getrandbits(48):x}" for _ in range(1_000)]
        truth = rng.uniform(0.6, 0.99)
        common = round(2_000 * truth / (1 + truth))
        other = [*words[:common], *(f"{rng.getrandbits(48):x}" for _ in range(1_000 - common))]
        found = verdicts([" ".join(words), " ".join(other)], policy, sketcher)[1]
        if found.verdict == Verdict.NEAR_DUPLICATE:
            told += found.p_false_positive
            limit = 0.8 if method == "signature" else (0.8 - 1 / 256) / (1 - 1 / 256)
            wrong += common / (2_000 - common) < limit
    assert wrong > 15
    assert abs(told - wrong) < 2 * wrong**0.5, (told, wrong)


def test_a_text_is_short_by_its_shingles_however_few_of_them_are_kept():
    """A sixteenth of 400 shingles is 25: as if it were short it had to be .85 similar."""
    sketcher = Sketcher(Scheme(32, 4, shingling=Shingling(size=1, sample_modulus=16)), seed=SEED)
    rules = MatchPolicy(threshold=0.7, short_threshold=0.95, short_size=64, sample_modulus=16)
    sketches = sketcher.sketch([" ".join(WORDS[:n]) for n in (1_600, 400, 16)])
    sizes = sketches.contents.set_sizes
    assert sizes[1] < 64 < sizes[0]
    assert rules.terms(sizes[:2], sizes[[1, 1]]).wanted.tolist() == [0.7, 0.7]
    assert 0.7 < float(rules.terms(sizes[2:], sizes[2:]).wanted[0]) <= 0.95


@cases(
    "wrong",
    [
        {"threshold": 0.0}, {"threshold": 1.01}, {"threshold": -1}, {"method": "guess"},
        {"containment": 0}, {"containment": 2}, {"contained": "longer"}, {"short_threshold": 1.5},
        {"agree": 101}, {"agree": 0}, {"agree": 5, "of": 4},
        {"method": "sketch", "containment": 0.9}, {"method": "sketch", "short_threshold": 0.9},
    ],
)  # fmt: skip
def test_an_impossible_policy_is_refused(wrong):
    with pytest.raises(ValueError, match="use "):
        MatchPolicy(**wrong)
