"""Words of all scripts: which code points take part, and that no two words share a token."""

import hashlib
import sys
import unicodedata
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from streamfilter.entities.joined import join_fields
from streamfilter.entities.sketching import RecordSketcher
from streamfilter.quality.run import text_digest
from streamfilter.similarity.scheme import Normalisation, Shingling
from streamfilter.similarity.text.code_points import (
    FILE,
    LETTER,
    MARK,
    UNSPACED,
    UNSPACED_FROM,
    classes,
    ranges,
    visible,
    words,
)
from streamfilter.similarity.text.normalisation import GROWTH_MAX, Normaliser, normalised_length
from streamfilter.similarity.text.shingles import Shingler
from tests.similarity.known import code_points

signed = pytest.mark.usefixtures("signer")

SEED = bytes(range(16))
NORMALISE = Normaliser(Normalisation())
RAW = Normaliser(Normalisation("none", casefold=False, whitespace=False, invisible=False))
WORDS = Shingler(Shingling("word", 1), seed=SEED)
UNICODE_14 = Path(__file__).with_name("unicode14.txt")
DIGEST = "af653fa56dc0e6f1"
INVISIBLE = frozenset(
    chr(point) for first, last in ranges()["invisible"] for point in range(first, last + 1)
)
TAKE_PART = [chr(point) for point in np.flatnonzero(classes())]


def tokens(texts: list[str], normalise: Normaliser = RAW) -> list[list[int]]:
    """Return the words' tokens of each text."""
    found = WORDS.tokens(normalise.chunk(texts, ascii_only=False))
    values, starts = found.values.tolist(), found.starts.tolist()
    return [values[begin:end] for begin, end in pairwise(starts)]


def test_the_tables_are_those_of_unicodes_data():
    assert FILE.read_text(encoding="ascii") == code_points.text()


@pytest.mark.slow
def test_letters_numbers_marks_and_underscores_take_part_in_words_and_nothing_invisible_is_seen():
    """Python's own data, of whichever Unicode, says the same of all that it has assigned."""
    for point in range(0x110000):
        category, character = unicodedata.category(chr(point)), chr(point)
        if character.isspace():
            assert classes()[point] == 0
        elif category[0] == "M":
            assert classes()[point] == MARK, hex(point)
        elif character == "_" or (category[0] in "LN" and character not in "\uff9e\uff9f"):
            assert classes()[point] in (LETTER, UNSPACED), hex(point)
        if category == "Cf" and not 0x600 <= point < 0x900 and point < 0x10000:
            assert (character in INVISIBLE) == (character not in "\ufff9\ufffa\ufffb"), hex(point)
    assert len(INVISIBLE) == 4_174
    assert np.flatnonzero(classes() == UNSPACED).min() == UNSPACED_FROM


@signed
def test_a_code_point_that_takes_part_joins_a_word_and_makes_it_another():
    """Between letters of its own script: each is one word, and no two have one token."""
    spelled: dict[str, None] = {}
    base = ""
    for character in TAKE_PART:
        kind = classes()[ord(character)]
        base = character if kind == LETTER else base
        if kind != UNSPACED:
            spelled[f"{base}{character}{base}"] = spelled[f"{base}{base}"] = None
    found = tokens([*spelled])
    assert [text for text, each in zip(spelled, found, strict=True) if len(each) != 1] == []
    assert len({token for each in found for token in each}) == len(spelled)


@pytest.mark.slow
@signed
def test_normalised_words_that_differ_have_different_tokens_in_every_script():
    chunk = NORMALISE.chunk([f"\u0915{each}\u0915" for each in TAKE_PART], ascii_only=False)
    normal = {bytes(text).decode("utf-8", "surrogatepass") for text in chunk.texts()}
    whole = [text for text in normal if words(text) == [text]]
    assert len(whole) > 125_000
    found = list(map(tuple, tokens(whole)))
    assert len(set(found)) == len(whole)


@signed
@pytest.mark.parametrize(
    "mark", ["\u0301", "\u093f", "\u0e34", "\u3099", "\u200d", "\u20e3", "\U0001f3fb"]
)
def test_a_mark_belongs_to_what_it_stands_behind(mark):
    """UAX #29, rule WB4: to a letter, to a character without spaces, or to what is no word."""
    assert len(tokens([f"a{mark}b"])[0]) == 1
    assert tokens([f"a{mark}b"]) != tokens(["ab"])
    assert len({*tokens([f"字{mark}字"])[0], *tokens(["字字"])[0]}) == 3  # of pairs
    assert tokens([f"!{mark} {mark}{mark}a"]) == tokens(["a"])
    assert tokens([f"a{mark * 40}b{mark}"]) != tokens([f"a{mark * 41}b{mark}"])


@signed
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("शेर शोर", 2),
        ("می‌خواهم", 1),
        ("don't 3.14 a_b l´eau", 7),
        ("ދިވެހި བོད་ཡིག ಕನ್ನಡ", 4),
        ("1️⃣ ❤️ 👩‍👩‍👧", 1),
    ],
)
def test_words_as_people_write_them(text, expected):
    assert len(tokens([text], NORMALISE)[0]) == expected


@signed
def test_an_invisible_character_changes_nothing_wherever_it_stands():
    texts = ["The harbour, e\u0301 a\u0323\u0316 \u1100\u1161\u11a8", "港口 और शेर کتاب"]
    plain, characters = [NORMALISE(text) for text in texts], sorted(INVISIBLE)
    changed = [
        character + "".join(f"{each}{character}" for each in text)
        for character in characters
        for text in texts
    ]
    found = NORMALISE.chunk(changed, ascii_only=False).texts()
    for row, character in enumerate(characters):
        these = slice(2 * row, 2 * row + 2)
        assert [*found[these]] == plain, hex(ord(character))
        assert list(map(visible, changed[these])) == texts


@pytest.mark.slow
@signed
def test_every_version_of_python_agrees_on_what_unicode_14_has():
    """The bytes and the class of each character; what later versions added may differ."""
    assigned = [
        point
        for line in UNICODE_14.read_text(encoding="ascii").splitlines()[1:]
        for word in line.split()
        for first, _, last in [word.partition("-")]
        for point in range(int(first, 16), int(last or first, 16) + 1)
    ]
    seen = hashlib.blake2b(digest_size=8)
    for how in (Normalisation(digits=True), Normalisation("NFC")):
        for text in Normaliser(how).chunk([*map(chr, assigned)], ascii_only=False).texts():
            seen.update(text)
            seen.update(b"\n")
    seen.update(classes()[assigned].tobytes())
    assert seen.hexdigest() == DIGEST, sys.version


@signed
def test_the_words_of_a_records_field_keep_their_marks_and_lose_what_is_invisible():
    records = RecordSketcher(["words", "exact"], seed=SEED)
    given = ["शेर-\u200bसिंह_O\u00adBrien \ufe0f", " Mü\u2066ller\u200b "]
    assert records.normalised(join_fields(given)) == ["शेर सिंह obrien", "Müller", ""]
    plain = ["A. B_c-D  e", "x"]
    assert records.normalised(join_fields(plain)) == ["a b c d e", "x", ""]


def test_an_evaluation_takes_texts_for_equal_that_are_normalised_alike():
    for one, other in (("港口\n码头", "港口码头"), ("ha\u2066rbour\U000e0041", "Harbour")):
        assert text_digest(one) == text_digest(other)
    assert text_digest("a b") != text_digest("ab")
    assert text_digest("शेर") != text_digest("शोर")


def test_how_long_a_text_becomes_is_known_before_it_is_made():
    """18 times its length at most: a text of 2 million U+FDFA took 860 MB."""
    everything = [chr(point) for point in range(0x110000) if not 0xD800 <= point < 0xE000]
    became = [len(unicodedata.normalize("NFKC", each).casefold()) for each in everything]
    assert normalised_length("".join(everything)) == sum(became)
    assert list(map(normalised_length, everything[:0x3000])) == became[:0x3000]
    assert normalised_length("\ufdfa") == max(became) == GROWTH_MAX
    assert normalised_length("e\u0301 plain") == 8  # where marks compose it is a bound
