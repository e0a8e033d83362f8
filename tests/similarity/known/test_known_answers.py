"""The numbers that the field's notes print, and that streamfilter must give.

Marked "corrected" where the notes print something else than what follows from their own text.
"""

import re
from fractions import Fraction

import numpy as np
import pytest

from streamfilter.inquiry.pair import compare, slots_interval
from streamfilter.matching.verdict.comparers import agreeing_share
from streamfilter.similarity.estimators import wilson
from streamfilter.similarity.minhash import MinHasher
from streamfilter.similarity.scheme import Normalisation, Scheme, Shingling
from streamfilter.similarity.sketch import Sketcher
from streamfilter.similarity.statistics.doubt import chance_at_least
from streamfilter.similarity.statistics.shape import (
    MissesRecall,
    Shape,
    collision_probability,
    plan,
    require,
)
from streamfilter.similarity.text.normalisation import Normaliser
from streamfilter.similarity.text.shingles import Shingler
from tests.support.cases import cases

signed = pytest.mark.usefixtures("signer")

SEED = bytes(range(16))
RAW = Normalisation("none", casefold=False, whitespace=False, invisible=False)


def shingles_of(text: str, shingling: Shingling) -> set[int]:
    how = RAW if shingling.kind == "char" else Normalisation()
    chunk = Normaliser(how).chunk([text], ascii_only=text.isascii())
    return set(Shingler(shingling, seed=SEED).tokens(chunk).values.tolist())


def tokens_of(runs: list[str]) -> set[int]:
    """Return the tokens of runs of three words."""
    return {token for run in runs for token in shingles_of(run, Shingling("word", 3))}


@signed
def test_a_recommendation_has_stop_word_shingles_and_an_advert_has_none():
    how = Shingling("stopword", 2, fallback_below=0)
    assert shingles_of("Buy Sudzo", how) == set()
    assert shingles_of("I recommend that you buy Sudzo for your laundry.", how) == tokens_of(
        ["i recommend that", "that you buy", "you buy sudzo", "for your laundry"]
    )


@signed
def test_stop_words_are_known_in_capitals_too_where_case_is_kept():
    kept = Normaliser(Normalisation(casefold=False))
    shingler = Shingler(Shingling("stopword", 2, fallback_below=0), seed=SEED)
    text = "The cat sat. THE dog ran. the owl flew. Tree tops sway."
    chunk = kept.chunk([text], ascii_only=True)
    assert len(set(shingler.tokens(chunk).values.tolist())) == 3


@signed
@pytest.mark.parametrize(
    ("language", "text", "count"),
    [
        ("de", "Der Rat beriet über die neue Brücke am Fluss", 3),
        ("fr", "Le conseil a débattu du nouveau pont sur la rivière", 4),
        ("ru", "Совет обсудил новый мост через реку и его цену", 2),
        ("tr", "Meclis yeni köprü ve maliyeti için toplandı bugün", 2),
    ],
)
def test_stop_words_of_other_languages_anchor_their_texts(language, text, count):
    how = Shingling("stopword", 2, languages=(language,), fallback_below=0)
    assert len(shingles_of(text, how)) == count


@signed
def test_a_text_with_too_few_stop_words_gets_plain_runs():
    how = Shingling("stopword", 2, fallback_below=4)
    text = "Quake shakes northern coast, tsunami warning lifted after midnight"
    assert shingles_of(text, how) == shingles_of(text, Shingling("word", 3))
    assert len(shingles_of(text, Shingling("stopword", 2, fallback_below=0))) == 0


def with_stop_words(count: int) -> str:
    """Return a text of 90 other words with so many stop words, spread evenly."""
    words = [f"word{number}" for number in range(90)]
    for place in range(count):
        words.insert(place * 97 % 90, "the")
    return " ".join(words)


@signed
def test_a_stop_word_more_or_less_never_makes_another_text():
    how = Shingling("stopword", 2, fallback_below=4)
    for count in range(60):
        one, other = (shingles_of(with_stop_words(count + more), how) for more in (0, 1))
        assert len(one & other) / len(one | other) > 0.8, count


@signed
def test_a_text_keeps_a_share_of_its_other_runs_that_falls_by_a_twentieth_with_each_stop_word():
    anchored, faded = (Shingling("stopword", 2, fallback_below=below) for below in (0, 4))
    runs = Shingling("word", 3)
    others = kept = expected = 0
    for count in range(60):
        text = with_stop_words(count)
        own, some, every = (shingles_of(text, how) for how in (anchored, faded, runs))
        assert own <= some <= every
        share = min(1.0, 0.95 ** (len(own) - 3))
        others += len(every - own)
        kept += len(some - own)
        expected += share * len(every - own)
        if len(own) < 4:
            assert some == every
    assert abs(kept - expected) < 4 * others**0.5


@signed
@pytest.mark.parametrize("modulus", [2, 3, 16])
def test_modulus_sampling_keeps_the_same_share_of_tokens_in_every_text(modulus):
    words = [f"word{i}" for i in range(8_000)]
    one, other = " ".join(words), " ".join(words[4_000:] + ["more"] * 3)
    every, kept = (
        [shingles_of(text, Shingling(sample_modulus=m)) for text in (one, other)]
        for m in (1, modulus)
    )
    for before, after in zip(every, kept, strict=True):
        assert after == {token for token in before if token % modulus == 0}
    expected = len(every[0]) / modulus
    assert abs(len(kept[0]) - expected) < 4 * (expected * (1 - 1 / modulus)) ** 0.5
    assert kept[0] & kept[1] == {t for t in every[0] & every[1] if t % modulus == 0}


@signed
def test_tokens_of_four_bytes_are_the_upper_half_of_those_of_eight():
    text = "equal shingles give equal tokens wherever they stand"
    eight = shingles_of(text, Shingling())
    assert shingles_of(text, Shingling(token_bytes=4)) == {t >> 32 << 32 for t in eight}
    sampled = shingles_of(text, Shingling(token_bytes=4, sample_modulus=3))
    assert sampled == {t >> 32 << 32 for t in eight if (t >> 32) % 3 == 0}


def minhash(rows: set[int]) -> tuple[int, int]:
    """Return the minima under h(x) = x mod 5 and g(x) = (2x + 1) mod 5, row by row."""
    h = g = 5
    for x in sorted(rows):  # each row once, both slots updated
        h, g = min(h, x % 5), min(g, (2 * x + 1) % 5)
    return h, g


@pytest.mark.parametrize(
    ("one", "other", "signatures", "jaccard"),
    [
        ({1, 3, 4}, {2, 3, 5}, ((1, 2), (0, 0)), Fraction(1, 5)),
        # corrected: the notes print J = 2/5 and other minima
        ({0, 2, 3}, {0, 2, 4}, ((0, 0), (0, 0)), Fraction(2, 4)),
    ],
)
def test_the_worked_examples_with_two_orders_modulo_five(one, other, signatures, jaccard):
    assert (minhash(one), minhash(other)) == signatures
    assert Fraction(len(one & other), len(one | other)) == jaccard


@cases(
    ("similarity", "answer"),
    [
        (0.5, 1.53e-17),  # corrected
        (0.8, 0.00570),
        (0.85, 0.0994),
        (0.9, 0.583),  # corrected: the notes print .988, which is the value at .95
        (0.95, 0.9885),
        (0.96, 0.9978),
    ],
)
def test_what_the_rule_of_90_in_100_slots_finds(similarity, answer):
    assert chance_at_least(90, trials=100, chance=similarity) == pytest.approx(answer, rel=2e-3)


@cases("trials", [1, 7, 100])
@cases("chance", [0.0, 0.03, 0.5, 0.97, 1.0])
def test_the_binomial_tail_is_the_sum_of_its_terms(trials, chance):
    p = Fraction(chance)
    terms, choose = [], 1
    for x in range(trials + 1):
        terms.append(choose * p**x * (1 - p) ** (trials - x))
        choose = choose * (trials - x) // (x + 1)
    tail = Fraction(0)
    for least in range(trials + 1, -1, -1):
        tail += terms[least] if least <= trials else 0
        found = chance_at_least(least, trials=trials, chance=chance)
        assert found == pytest.approx(float(tail), rel=1e-9, abs=1e-300), least


def test_a_share_of_eight_tenths_of_a_hundred_has_wilson_s_interval_at_any_level():
    for level, z in ((0.6827, 1.0), (0.95, 1.959964), (0.99, 2.575829)):
        found = wilson(80, 100, level=level)
        for end in (found.lower, found.upper):  # shares that lie just z of their own errors off
            assert abs(0.8 - end) == pytest.approx(z * (end * (1 - end) / 100) ** 0.5, rel=1e-4)
    assert wilson(100, 100).lower == pytest.approx(0.9630, abs=5e-5)
    for level in (0.0, 1.0, 95):
        with pytest.raises(ValueError, match="such as"):
            wilson(80, 100, level=level)


@pytest.mark.parametrize(("common", "union"), [(500, 1000), (160, 200), (380, 400), (396, 400)])
def test_the_interval_of_an_estimate_holds_the_truth_as_often_as_it_says(common, union):
    # The plain interval held it in .89 of the cases at J .95 and in .72 at .99.
    rng = np.random.default_rng(common)
    held, pairs = 0, 1_000
    minhasher = MinHasher(128, seed=SEED)
    both, only = common, union - common
    for _ in range(0, pairs, 50):
        tokens, starts = [], [0]
        for _ in range(50):
            shared, rest = np.split(rng.integers(0, 2**63, both + only, np.uint64), [both])
            for own in (rest[: only // 2], rest[only // 2 :]):
                tokens += [shared, own]
                starts.append(starts[-1] + both + len(own))
        slots = minhasher.sign(np.concatenate(tokens), np.array(starts)) & 0xFF
        equal = (slots[::2] == slots[1::2]).sum(axis=1)
        for each in equal.tolist():
            low, high = slots_interval(each, 128)
            held += low <= common / union <= high
    assert held / pairs >= 0.93


def test_equal_signatures_leave_room_for_a_difference():
    low, high = slots_interval(128, 128)
    assert (low, high) == (pytest.approx(0.971, abs=1e-3), 1.0)
    assert slots_interval(0, 128)[0] == 0.0
    assert slots_interval(0, 128)[1] > 0.0


def test_compare_widens_its_interval_with_the_level():
    texts = " ".join(f"w{i}" for i in range(100)), " ".join(f"w{i}" for i in range(10, 110))
    narrow, wide = (compare(*texts, Scheme(16, 6), seed=SEED, level=x) for x in (0.5, 0.999))
    assert narrow.estimate == wide.estimate
    assert wide.interval[0] < narrow.interval[0] < narrow.interval[1] < wide.interval[1]
    assert wide.interval[0] < narrow.jaccard < wide.interval[1]


def test_a_text_without_shingles_has_nothing_in_common_not_even_by_chance():
    texts = [f"the {number}th of some texts" for number in range(20)]
    found = {compare("", text, Scheme(16, 6), seed=SEED).interval for text in texts}
    assert found == {compare("", "", Scheme(16, 6), seed=SEED).interval}


@signed
def test_equal_texts_decide_by_128_bits_after_normalisation():
    sketches = Sketcher(Scheme(16, 6), seed=SEED).sketch(["A  rose", "a rose", "a  nose"])
    prints = sketches.contents.fingerprints
    assert prints.shape[1] * 8 == 128
    assert (prints[0] == prints[1]).all()
    assert (prints[0] != prints[2]).any()


def test_one_band_of_five_at_eight_tenths_and_none_of_twenty():
    assert collision_probability(0.8, bands=1, rows=5) == pytest.approx(0.328, abs=5e-4)
    assert 1 - collision_probability(0.8, bands=20, rows=5) == pytest.approx(0.00035, abs=1e-5)


SHAPES = [(9, 13, 0.40), (20, 13, 0.68), (14, 8, 0.924), (16, 8, 0.947), (16, 6, 0.992),
          (18, 5, 0.999)]  # fmt: skip


@cases(("bands", "rows", "recall"), SHAPES)
def test_a_shape_is_refused_where_it_misses_the_recall_and_the_refusal_names_a_better(
    bands, rows, recall
):
    shape = Shape(bands, rows, slots=260)
    require(shape, threshold=0.8, recall=recall - 0.006)
    with pytest.raises(MissesRecall, match=re.escape(f"{bands} x {rows} finds")) as caught:
        require(shape, threshold=0.8, recall=recall + 0.0009)
    better = re.search(r": (\d+) x (\d+) finds ([\d.]+)$", str(caught.value))
    assert better is not None
    again = Shape(int(better[1]), int(better[2]), slots=260)
    assert again.probability(0.8) == pytest.approx(float(better[3]), abs=1e-4)
    assert again.probability(0.8) >= recall + 0.0009


def test_agreeing_slots_and_their_share_are_the_same_question():
    assert agreeing_share(100, 100) == 1.0
    assert agreeing_share(0, 100) == 0.0
    assert agreeing_share(90, 100) == pytest.approx((0.9 - 1 / 256) / (1 - 1 / 256))


def test_the_planner_gives_the_most_selective_shape_in_either_layout():
    assert plan(0.8, slots=128, recall=0.99) == Shape(16, 6, 128)
    assert plan(0.8, slots=128, recall=0.99, also=((0.5625, 0.95),)) == Shape(32, 4, 128)
    with pytest.raises(ValueError, match="cannot reach recall"):
        plan(0.05, slots=8, recall=0.999)
    random = plan(0.8, slots=128, recall=0.99, layout="random")
    assert random.probability(0.8) >= 0.99
    assert random.rows >= 6
    assert random.bands <= 32
    assert Shape(random.bands, random.rows + 1, 128, "random").probability(0.8) < 0.99


def test_what_a_planner_tells_follows_from_the_curve():
    shape = Shape(16, 6)
    curve = dict(shape.curve())
    assert [round(s, 2) for s in curve] == [round(i / 20, 2) for i in range(21)]
    grid = np.linspace(0.8, 1, 20_001)
    assert shape.false_negatives(0.8) == pytest.approx(
        1 - np.mean([shape.probability(s) for s in grid]), abs=1e-5
    )
    assert shape.false_positives(0.8) == pytest.approx(
        np.mean([shape.probability(s) for s in np.linspace(0, 0.8, 20_001)]), abs=1e-4
    )


def test_memory_per_document_is_near_what_was_measured():
    """index.json at five million: bands 445 bytes; documents 869 at 170 tokens each."""
    assert Shape(16, 6).bytes_per_document(shingles=170) == pytest.approx(445 + 869, rel=0.05)
    long = Shape(16, 6).bytes_per_document(shingles=1_000_000)
    assert long == Shape(16, 6).bytes_per_document(shingles=1_024)


def test_containment_is_found_by_bands_that_know_only_jaccard():
    """The setting's description quotes these."""
    shape = Shape(16, 6)
    assert shape.contained(0.9, 1.2) == pytest.approx(0.85, abs=0.01)
    assert shape.contained(0.9, 2.0) == pytest.approx(0.10, abs=0.01)
    assert shape.contained(1.0, 1.0) == 1.0
