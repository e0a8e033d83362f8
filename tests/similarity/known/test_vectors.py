"""Bytes that must never change: an index built yesterday holds them."""

import json

import pytest

from tests.similarity.known.vectors import FILE, SCHEMES, TEXTS, normalised, sketched
from tests.support.cases import cases, over

pytestmark = pytest.mark.usefixtures("signer")

FROZEN = json.loads(FILE.read_text(encoding="ascii"))


@over(zip(TEXTS, FROZEN["normalised"], strict=True))
def test_normalisation_gives_the_frozen_text(case):
    text, frozen = case
    assert normalised(text) == frozen


@cases("name", SCHEMES)
def test_a_scheme_keeps_its_fingerprint_its_tokens_and_its_keys(name):
    assert SCHEMES[name].fingerprint == FROZEN["fingerprints"][name]
    frozen = FROZEN["sketches"][name]
    for text, row, want in zip(TEXTS, sketched(SCHEMES[name]), frozen, strict=True):
        assert list(row) == want, text


def test_the_default_scheme_is_what_it_was():
    assert SCHEMES["default"].as_json() == (
        '{"algorithm":3,"bands":16,"normalisation":{"casefold":true,"digits":false,'
        '"invisible":true,"unicode":"NFKC","whitespace":true},"rows":6,'
        '"shingling":{"kind":"word","size":3},"slots":128}'
    )
    assert SCHEMES["default"].fingerprint == "b7b60127"
