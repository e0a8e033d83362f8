"""Every parameter is part of the scheme, and every scheme survives the loss of the disk."""

import re
import unicodedata

import numpy as np
import pytest
from msgspec.structs import fields

from streamfilter.assembly import sketcher_for
from streamfilter.index.format import decode_documents, encode_documents
from streamfilter.index.protocol import Documents
from streamfilter.similarity.scheme import Normalisation, Scheme, Shingling
from streamfilter.similarity.text.stopwords import LANGUAGES, digest, lists, stop_words
from tests.similarity.known.vectors import SCHEMES, TEXTS
from tests.support.cases import cases
from tests.support.values import replace

SEED = bytes(range(16))
BASE = Scheme(16, 6, shingling=Shingling("stopword", 2))

OTHER = {
    Scheme: {"bands": 15, "rows": 5, "slots": 256, "layout": "random", "algorithm": 1,
             "fields": ("/name words", "/phone digits"), "digests": ("scope /tenant",),
             "shingling": Shingling("char", 5), "normalisation": Normalisation("none")},
    Shingling: {"kind": "word", "size": 3, "token_bytes": 4, "sample_modulus": 16,
                "languages": ("en", "de"), "fallback_below": 5},
    Normalisation: {"unicode": "NFC", "casefold": False, "whitespace": False, "digits": True,
                    "invisible": False, "html": True, "ansi": True, "quotes": True,
                    "hyphens": True, "mask": ("url",), "fold": ("marks",), "boilerplate": "a1"},
}  # fmt: skip


def variants():
    for kind, values in OTHER.items():
        assert values.keys() == {field.name for field in fields(kind)}, "a parameter without test"
        for name, value in values.items():
            if kind is Scheme:
                yield replace(BASE, **{name: value})
            elif kind is Shingling:
                yield replace(BASE, shingling=replace(BASE.shingling, **{name: value}))
            else:
                yield replace(BASE, normalisation=replace(BASE.normalisation, **{name: value}))


def test_a_fingerprint_differs_by_every_parameter():
    schemes = [BASE, *variants()]
    assert len({scheme.fingerprint for scheme in schemes}) == len(schemes)


def test_a_setting_of_another_kind_of_shingle_does_not_make_another_scheme():
    word = Scheme(16, 6)
    for other in ({"languages": ("de",)}, {"fallback_below": 9}):
        assert replace(word, shingling=replace(word.shingling, **other)) != word
        same = replace(word, shingling=replace(word.shingling, **other))
        assert same.fingerprint == word.fingerprint


@cases("name", SCHEMES)
def test_keys_are_made_again_from_what_the_changelog_keeps(name):
    sketcher = sketcher_for(SCHEMES[name], seed=SEED)
    sketches, n = sketcher.sketch(TEXTS), len(TEXTS)
    numbers = np.arange(n)
    documents = Documents(
        numbers, [f"d{i}" for i in range(n)], numbers, numbers, numbers, numbers, sketches.contents
    )
    restored = decode_documents(numbers, encode_documents(documents), SCHEMES[name].widths)
    again = sketcher_for(SCHEMES[name], seed=SEED)
    keys = again.keys_of(restored.contents)
    assert (keys == sketches.keys).all()
    assert keys.shape == (n, SCHEMES[name].bands + 1)


@cases(
    ("wrong", "cure"),
    [
        (lambda: Shingling("words"), "use word, char, stopword"),
        (lambda: Shingling(size=0), "1 or more"),
        (lambda: Shingling(sample_modulus=0), "1 or more"),
        (lambda: Shingling(token_bytes=5), "4 or 8 bytes"),
        (lambda: Scheme(20, 8), "use fewer bands or rows"),
        (lambda: Scheme(0, 8), "1 or more"),
        (lambda: Scheme(125, 3), "use fewer bands or rows"),
        (lambda: Scheme(7, 2, slots=4, layout="random"), "only 6 ways to choose 2 of 4"),
        (lambda: Scheme(4, 200, layout="random"), "only 0 ways"),
        (lambda: Scheme(4, 4, layout="stripes"), "use bands, random"),
        (lambda: stop_words(["en", "xx"]), "no stop words for xx; there are lists for da, de"),
        (lambda: stop_words([]), "there are lists for"),
    ],
)
def test_an_impossible_scheme_is_refused_with_what_is_possible(wrong, cure):
    with pytest.raises(ValueError, match=cure):
        wrong()


def test_the_lists_of_stop_words_are_those_that_indexes_were_built_with():
    assert digest(["en"]) == DIGESTS["en"], "another list is another scheme"
    assert {language: digest([language]) for language in LANGUAGES} == DIGESTS
    assert tuple(lists()) == LANGUAGES
    for language in LANGUAGES:
        words = stop_words([language])
        assert 100 < len(words) < 300
        for word in words:
            assert re.fullmatch(r"\w+", word), word
            assert unicodedata.normalize("NFKC", word.lower()) == word
    assert not {"buy", "best", "save", "new", "home"} & set(stop_words(["en"]))


DIGESTS = {
    "da": "a780f0b1ebe5f00d",
    "de": "f0345b246ba403dc",
    "en": "bbda34080813e379",
    "es": "9ffa42b1aff774bf",
    "fr": "3e74e91412d8c798",
    "it": "42f9b38752762df1",
    "nl": "977261b6901356c1",
    "no": "a39b59339f89a2f2",
    "pt": "cec2d5218db9cf6f",
    "ru": "f132700281ebde54",
    "sv": "3b1989ef5c449f42",
    "tr": "a98f603136f5d92e",
}
