"""Known answers of the method, and the fast ASCII path against the general one."""

import random
import re

import numpy as np
import pytest

from streamfilter.similarity.exact import jaccard
from streamfilter.similarity.scheme import Normalisation, Scheme, Shingling
from streamfilter.similarity.sketch import Sketcher
from streamfilter.similarity.text.normalisation import Normaliser
from streamfilter.similarity.text.shingles import Shingler
from tests.support.cases import cases, over

pytestmark = pytest.mark.usefixtures("signer")

SEED = bytes(range(16))
RAW = Normalisation(unicode="none", casefold=False, whitespace=False, invisible=False)


def tokens(text: str, kind: str, size: int, *, ascii_only: bool | None = None) -> list[int]:
    shingler = Shingler(Shingling(kind, size), seed=SEED)
    plain = text.isascii() if ascii_only is None else ascii_only
    return shingler.tokens(Normaliser(RAW).chunk([text], ascii_only=plain)).values.tolist()


def raw_jaccard(one: str, other: str, kind: str, size: int) -> float:
    sketcher = Sketcher(
        Scheme(16, 6, shingling=Shingling(kind, size), normalisation=RAW), seed=SEED
    )
    s = sketcher.sketch([one, other])
    samples = s.contents.samples
    return float(jaccard(samples, np.array([0]), samples, np.array([1])).similarity[0])


WORD = re.compile(r"\w[\w\u0301]*")


def word_set(text: str, size: int) -> set[tuple[str, ...]]:
    words = WORD.findall(text)
    return {tuple(words[i : i + size]) for i in range(len(words) - size + 1)}


@cases(
    ("text", "size", "distinct"),
    [
        ("a rose is a rose is a rose", 4, 3),
        ("In a hole in the ground there lived a hobbit", 5, 6),
        ("one two", 3, 0),
        ("", 1, 0),
        ("___ 1_a", 1, 2),
    ],
)
def test_word_shingles_known_answers(text, size, distinct):
    assert len(set(tokens(text, "word", size))) == distinct


def test_character_shingles_of_abcab_are_ab_bc_ca():
    assert len(set(tokens("abcab", "char", 2))) == 3
    assert set(tokens("abcab", "char", 2)) == {
        token for pair in ("ab", "bc", "ca") for token in tokens(pair, "char", 2)
    }


@pytest.mark.parametrize(("k", "answer"), [(2, 0.8095), (3, 0.75), (4, 0.6923), (5, 0.6154)])
def test_the_cat_known_answers(k, answer):
    value = raw_jaccard("The cat sat on the mat.", "The red cat sat on the mat.", "char", k)
    assert value == pytest.approx(answer, abs=5e-5)


@pytest.mark.parametrize(
    ("one", "other", "answer"),
    [
        ("Jack London traveled to Oakland", "Jack London traveled to the city of Oakland", 3 / 8),
        ("Jack London traveled to Oakland", "Jack traveled from Oakland to London", 0),
        ("Jack London traveled to the city of Oakland", "Jack traveled from Oakland to London", 0),
    ],
)
def test_jack_london_known_answers(one, other, answer):
    assert raw_jaccard(one, other, "word", 2) == answer


@pytest.mark.parametrize(
    ("other", "answer"),
    [
        ("how long does it take to fly from Berlin to Helsinki?", 0.30985915),
        ("what's the flight time from Berlin to Oulu?", 0.71428571),
    ],
)
def test_flight_time_known_answers(other, answer):
    one = "what's the flight time from Berlin to Helsinki?"
    assert raw_jaccard(one, other, "char", 4) == pytest.approx(answer, abs=1e-8)


ALPHABET = "abcXYZ019_ .,\t\n-'é ñ中文字กา日本語한국어ы👍\u0301"


@over(range(40))
def test_the_ascii_path_agrees_with_the_general_one(seed):
    rng = random.Random(seed)
    text = "".join(rng.choice(ALPHABET[:17]) for _ in range(rng.randrange(400)))
    for kind, size in (("word", 1), ("word", 3), ("char", 1), ("char", 5), ("char", 8)):
        fast = tokens(text, kind, size, ascii_only=True)
        assert fast == tokens(text, kind, size, ascii_only=False), (seed, kind, size)


@over(range(40))
def test_words_are_those_of_pythons_re_and_their_marks_where_scripts_have_spaces(seed):
    rng = random.Random(seed)
    text = "".join(rng.choice("abéñß_ ы,א ك.1٣ \u0301한🎈") for _ in range(200))
    assert len(tokens(text, "word", 1)) == len(WORD.findall(text)), seed
    assert len(set(tokens(text, "word", 2))) == len(word_set(text, 2)), seed


@over(range(20))
def test_character_shingles_are_code_points_in_any_script(seed):
    rng = random.Random(seed)
    text = "".join(rng.choice(ALPHABET) for _ in range(120))
    runs = {text[i : i + 5] for i in range(len(text) - 4)}
    assert len(set(tokens(text, "char", 5, ascii_only=False))) == len(runs), seed


def test_scripts_without_spaces_give_pairs_of_characters():
    assert tokens("春眠不覺曉", "word", 1) == [
        token for pair in ("春眠", "眠不", "不覺", "覺曉") for token in tokens(pair, "word", 1)
    ]
    mixed = tokens("iPhone手機x", "word", 1)
    expected = [tokens(w, "word", 1)[0] for w in ("iPhone", "手機", "x")]
    assert mixed == expected
    assert len(tokens("字", "word", 1)) == 1


def test_a_word_hashes_alike_in_ascii_and_in_other_company():
    alone = tokens("plain words here", "word", 3)
    assert alone[0] in tokens("plain words here – naïve", "word", 3)


def test_texts_in_a_chunk_do_not_touch_each_other():
    shingler = Shingler(Shingling("word", 2), seed=SEED)
    together = shingler.tokens(Normaliser(RAW).chunk(["a b", "", "c", "d e f"], ascii_only=True))
    assert np.diff(together.starts).tolist() == [1, 0, 0, 2]
    assert together.values.tolist() == tokens("a b", "word", 2) + tokens("d e f", "word", 2)


@cases("length", [1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 64, 1_000_000])
def test_words_of_any_length_differ_by_their_last_character(length):
    one, other = "x" * length, "x" * (length - 1) + "y"
    assert tokens(one, "word", 1) == tokens(one, "word", 1)
    assert tokens(one, "word", 1) != tokens(other, "word", 1)
    assert tokens(one, "word", 1) != tokens(one + "x", "word", 1)


def test_another_seed_gives_other_tokens():
    other = Shingler(Shingling("word", 1), seed=bytes(16))
    chunk = Normaliser(RAW).chunk(["hobbit"], ascii_only=True)
    assert other.tokens(chunk).values.tolist() != tokens("hobbit", "word", 1)
