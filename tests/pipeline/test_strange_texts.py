"""Texts with nothing in them, or nothing but one thing: no accident makes two of them alike."""

import random

import numpy as np
import pytest

from streamfilter.index.memory import MemoryIndex
from streamfilter.matching.pipeline import Batch, MatchPolicy, judge
from streamfilter.model import Source, Verdict
from streamfilter.similarity.scheme import Scheme, Shingling
from streamfilter.similarity.sketch import Sketcher
from streamfilter.similarity.text.stopwords import stop_words
from tests.similarity.known.vectors import SCHEMES
from tests.support.cases import cases

SEED = bytes(range(16))
MEGABYTE = 1_000_000

TINY = (
    "", "a", "b", "I", "7", "the", "of the", "Buy Sudzo", "Buy Velto", "字", "東", "ก", "ກ", "ក",
    "é", "🎈", "🎈🎈", "👍 👍", "👩‍👩‍👧", "…", "!!!", "?!?", "مرحبا", "שלום",
    "\x00", "\ud800", "- -",
)  # fmt: skip
LONELY = ("x" * MEGABYTE, "y" * MEGABYTE, "x" * (MEGABYTE - 1) + "y", "é" * (MEGABYTE // 2))

POLICIES = (
    MatchPolicy(short_text="exact_only"),
    MatchPolicy(short_text="exact_only", threshold=0.05, containment=0.05),
    MatchPolicy(short_text="exact_only", method="signature"),
    MatchPolicy(short_text="exact_only", method="sketch", agree=50, of=64),
)


def verdicts(texts, scheme, policy):
    n = len(texts)
    zeros = np.zeros(n, np.int64)
    decisions = judge(
        Batch([f"d{i}" for i in range(n)], zeros, np.arange(n), zeros),
        Sketcher(scheme, seed=SEED).sketch(texts), index=MemoryIndex(scheme.widths),
        policy=policy, number=0, first_ordinal=0, locate=lambda p, o: Source("t", p, o),
    ).decisions  # fmt: skip
    return [each.verdict for each in decisions]


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.method)
@pytest.mark.parametrize("name", SCHEMES)
def test_empty_and_tiny_texts_are_like_nothing_but_themselves(name, policy):
    shortest = [text for text in TINY if name != "word-1, 64 slots" or " " not in text]
    found = verdicts([*shortest, *shortest], SCHEMES[name], policy)
    half = len(shortest)
    assert dict(zip(shortest, found, strict=False)) == dict.fromkeys(shortest, Verdict.UNIQUE)
    assert found[half:] == [Verdict.EXACT_DUPLICATE] * half


@pytest.mark.parametrize("name", ["default", "char-5", "stopword-2", "random"])
def test_words_of_a_megabyte_differ_by_one_character(name):
    found = verdicts([*LONELY, LONELY[0]], SCHEMES[name], POLICIES[0])
    assert found[:2] == [Verdict.UNIQUE] * 2
    assert found[3:] == [Verdict.UNIQUE, Verdict.EXACT_DUPLICATE]
    if name != "char-5":  # to which they are one run of five, and four more
        assert found[2] == Verdict.UNIQUE


@pytest.mark.parametrize("kind", ["word", "stopword"])
def test_texts_of_nothing_but_stop_words_are_judged_like_others(kind):
    rng = random.Random(3)
    words = stop_words(["en"])
    one, other = (" ".join(rng.choices(words, k=80)) for _ in "ab")
    near = one.replace(one.split()[70], "quite", 1)
    scheme = Scheme(16, 6, shingling=Shingling(kind, 3 if kind == "word" else 2))
    found = verdicts([one, other, near], scheme, MatchPolicy())
    assert found == [Verdict.UNIQUE, Verdict.UNIQUE, Verdict.NEAR_DUPLICATE]


@cases(
    ("alphabet", "kind", "size"),
    [
        ("ابجدهوزحطيكلمنسعفصقرشت", "word", 3),  # written from right to left
        ("אבגדהוזחטיכלמנסעפצקרשת", "stopword", 2),
        ("春眠不覺曉處處聞啼鳥夜來風雨聲花落知多少", "word", 3),
        ("ກຂຄງຈສຊຍດຕຖທນບປຜຝພ", "word", 3),
        ("กขคงจฉชซญดตถทนบปผฝพฟภมยรลวศษสห", "char", 4),
        ("កខគឃងចឆជឈញដឋឌឍណតថទធន", "stopword", 2),
        ("😀😁😂🤣😃😄😅😆😉😊😋😎😍😘🥰😗", "char", 3),
        ("あいうえおカキクケコ漢字", "word", 2),
    ],
)
def test_any_script_is_compared_in_its_own_runs(alphabet, kind, size):
    rng = random.Random(7)
    spaced = alphabet[0] in "اא"

    def text() -> list[str]:
        if spaced:
            return ["".join(rng.choices(alphabet, k=5)) for _ in range(120)]
        return rng.choices(alphabet, k=400)

    def joined(parts: list[str]) -> str:
        return (" " if spaced else "").join(parts)

    one, other = text(), text()
    near = [*one[:60], *one[62:]]
    scheme = Scheme(16, 6, shingling=Shingling(kind, size))
    found = verdicts([joined(one), joined(other), joined(near)], scheme, MatchPolicy())
    assert found == [Verdict.UNIQUE, Verdict.UNIQUE, Verdict.NEAR_DUPLICATE]


def test_direction_marks_and_zero_width_characters_do_not_make_another_text():
    plain = "اجتمع المجلس يوم الاثنين لمناقشة الجسر الجديد"
    marked = "\u202b" + plain.replace(" ", " \u200f") + "\u202c\u200b\ufeff"
    found = verdicts([plain, marked], SCHEMES["default"], MatchPolicy())
    assert found == [Verdict.UNIQUE, Verdict.EXACT_DUPLICATE]


def test_a_combining_mark_and_its_composed_letter_are_one():
    one = "cafe\u0301 nai\u0308ve A\u030angstro\u0308m"
    found = verdicts([one, "caf\u00e9 na\u00efve \u00c5ngstr\u00f6m"], SCHEMES["default"],
                     MatchPolicy())  # fmt: skip
    assert found == [Verdict.UNIQUE, Verdict.EXACT_DUPLICATE]


def test_mixed_scripts_in_one_document_keep_their_words_and_their_pairs():
    one = "The new iPhone 手機の新製品 ราคา arrives in 東京タワー tomorrow with a new chip inside"
    other = one.replace("tomorrow", "today")
    sketches = Sketcher(SCHEMES["default"], seed=SEED).sketch([one, other])
    # The space between the Japanese and the Thai is no character: a pair goes across it.
    assert sketches.contents.set_sizes.tolist() == [22, 22]
    samples = sketches.contents.samples
    shared = set(samples.tokens[: samples.starts[1]].tolist()) & set(
        samples.tokens[samples.starts[1] :].tolist()
    )
    assert len(shared) == 22 - 3


def test_a_text_of_which_the_sample_keeps_nothing_is_a_short_one():
    scheme = Scheme(16, 6, shingling=Shingling(sample_modulus=1_000))
    texts = ["six short words in a row", "six other words in a line"]
    assert Sketcher(scheme, seed=SEED).sketch(texts).contents.set_sizes.tolist() == [0, 0]
    assert verdicts(texts, scheme, MatchPolicy(sample_modulus=1_000)) == [Verdict.PASSTHROUGH] * 2
