"""What a match must agree in: numbers, addresses, values; and what is said of pairs that differ."""

from __future__ import annotations

import random

import numpy as np
import pytest

from streamfilter.config.loading import load_config
from streamfilter.index.memory import MemoryIndex
from streamfilter.matching.explanation import beside, explain
from streamfilter.matching.pipeline import MatchPolicy
from streamfilter.matching.verdict.decision import Fate
from streamfilter.similarity.digests import numbers_in, urls_in
from streamfilter.similarity.scheme import Normalisation, Scheme, scheme_of
from streamfilter.similarity.sketch import Sketcher, Sketches
from streamfilter.stops import ConfigError
from tests.pipeline.test_sequential_model import run_in_batches, story
from tests.support.cases import cases

SEED = bytes(range(16))
NUMBERS = Scheme(16, 6, digests=("agree numbers",))


@cases(
    ("text", "numbers"),
    [
        ("1'000 1,000 1.000 1\u00a0000 1\u202f000 1\u2019000", ["1000"] * 6),
        ("2,5 2.5 1,234.50 1.234,50", ["2.5", "2.5", "1234.50", "1234.50"]),
        ("1 000", ["1", "000"]),
        ("on 12.10.2021, at 9:05.", ["12.10.2021", "9", "05"]),
        ("٣٤ ３４ ३४", ["34"] * 3),
        ("٣٫٥ ١٬٠٠٠", ["3.5", "1000"]),
        ("4¼ % ½ ⅐ V x² ①", ["4", "¼", "½", "⅐"]),
        ("-5 % a4 b²", ["5", "4"]),
        ("no number", []),
        (".,5,.", ["5"]),
    ],
)
def test_a_number_is_written_in_one_way(text, numbers):
    assert numbers_in(text) == numbers


def test_an_address_ends_before_its_punctuation():
    text = "see (https://a.x/b?c=1), www.d.x. and HTTP://e.x!"
    assert urls_in(text) == ["https://a.x/b?c=1", "www.d.x", "HTTP://e.x"]


@pytest.mark.parametrize("text", ["1" * 200_000, "1," * 100_000, "http://" * 50_000])
def test_a_hostile_text_takes_linear_time_and_is_read(text):
    assert isinstance(numbers_in(text) + urls_in(text), list)


def agree(one: tuple, other: tuple, **scheme) -> bool:
    sketcher = Sketcher(Scheme(16, 6, **scheme), seed=SEED)
    texts, values = zip(one, other, strict=True)
    first, second = sketcher.sketch(texts, values).contents.agreement.tolist()
    return first == second


@cases(
    ("digests", "one", "other", "equal"),
    [
        (("agree numbers",), ("from 3 to 5", ()), ("a 3 b 5", ()), True),
        (("agree numbers",), ("from 3 to 5", ()), ("from 5 to 3", ()), False),
        (("agree numbers",), ("3", ()), ("3 3", ()), False),
        (("agree numbers",), ("none", ()), ("one", ()), True),
        (("agree numbers",), ("none", ()), ("0", ()), False),
        (("agree numbers",), ("1\u200b2\u00ad3", ()), ("123", ()), True),
        (("agree urls",), ("http://a.x/\u2060b", ()), ("http://a.x/b", ()), True),
        (("agree /v",), ("a", ("x",)), ("a", ("x",)), True),
        (("agree /v",), ("a", (None,)), ("a", ()), True),
        (("agree /v",), ("a", (None,)), ("a", ("x",)), False),
        (("agree /v", "agree /w"), ("a", ("x", "y")), ("a", ("y", "x")), False),
        (("agree /v", "agree /w"), ("a", ("x", "x")), ("a", ("y", "y")), False),
    ],
)
def test_order_and_absence_count(digests, one, other, equal):
    assert agree(one, other, digests=digests) is equal


def test_numbers_are_taken_before_masks_and_after_tags():
    normal = Normalisation(html=True, mask=("number",))
    one, other = ("<p id=7>born 1980", ()), ("<p id=8>born 1980", ())
    assert agree(one, other, digests=NUMBERS.digests, normalisation=normal)
    assert not agree(one, ("<p id=7>born 1981", ()), digests=NUMBERS.digests, normalisation=normal)


def test_a_reprint_is_found_among_releases_that_differ_in_numbers_alone():
    rng = random.Random(4)
    words = [word.replace("w", "w-x") for word in story(rng, 120)]
    words = ["".join(chr(97 + int(c)) if c.isdigit() else c for c in word) for word in words]

    def release(number: int) -> list[str]:
        made = list(words)
        made[10] = made[70] = str(number)
        return made

    texts = [" ".join(release(number)) for number in range(600)]
    for number in (0, 5, 300, 599):
        made = release(number)
        made[40] = "reprinted"
        texts.append(" ".join(made))
    sketcher = Sketcher(NUMBERS, seed=SEED)
    policy = MatchPolicy(agree_on=NUMBERS.agree_on)
    index = MemoryIndex(NUMBERS.widths)
    decisions = run_in_batches(texts, iter(lambda: 100, None), index, policy, sketcher)
    assert [str(each.verdict) for each in decisions[:600]] == ["unique"] * 600
    found = [each.match.document_id if each.match else None for each in decisions[600:]]
    assert found == ["d0", "d5", "d300", "d599"]
    other = sketcher.sketch([texts[7].replace(" 7 ", " 7777 ")])
    told = explain(index, other, policy=policy)
    assert str(told.decision.verdict) == "unique"
    assert "differ in what verify.agree_on names" in told.reason
    finding = told.candidates[0].finding
    assert (finding.fate, finding.subject) == (Fate.DIFFERS, "numbers")
    assert finding.why.startswith("the numbers differ (verify.agree_on)")


@pytest.mark.parametrize("text", ["a text of several words that has a band", "short"])
def test_an_equal_text_with_another_value_is_no_duplicate(text):
    scheme = scheme_of(Scheme(16, 6, digests=("agree /date",)).as_json())
    sketcher = Sketcher(scheme, seed=SEED)
    one, other = (sketcher.sketch([text], [[date]]) for date in ("1", "2"))
    assert (one.contents.fingerprints != other.contents.fingerprints).any()
    assert one.keys[0, -1] != other.keys[0, -1]
    again = Sketches.from_bytes(other.to_bytes())
    assert again.contents.agreement == other.contents.agreement != one.contents.agreement
    assert (sketcher.keys_of(again.contents) == other.keys).all()


@cases(
    ("settings", "problem"),
    [
        (("input.format=text", "verify.agree_on=[/date]"), "the whole value is the text"),
        (("verify.agree_on=[x]",), "numbers, urls, or a JSON Pointer"),
        (("verify.agree_on=[/a/*]",), "one field"),
        (("verify.agree_on=[/text/a]",), "/text/a is within /text"),
        (("verify.agree_on=[/a/b]", "index.scope_field=/a"), "/a/b is within /a"),
        (("input.format=fields", "input.fields./a=words", "verify.agree_on=[numbers]"),
         "records are compared field by field"),
    ],
)  # fmt: skip
def test_what_cannot_be_agreed_in_is_refused(settings, problem):
    with pytest.raises(ConfigError, match=problem):
        load_config((), {}, settings)


def test_scope_and_agreement_are_one_scheme_whatever_the_order_of_the_list():
    names = ("verify.agree_on=[urls,/a,numbers,/a]", "index.scope_field=/t")
    scheme = load_config((), {}, names).scheme()
    assert scheme.digests == ("scope /t", "agree /a", "agree numbers", "agree urls")
    assert scheme.agree_on == ("/t", "/a", "numbers", "urls")
    sketcher = Sketcher(scheme_of(scheme.as_json()), seed=SEED)
    sketches = sketcher.sketch(["one 1 text of words"] * 3, [["x", "v"], ["x", "v"], ["y", "v"]])
    first, second, third = sketches.contents.agreement.tolist()
    assert first == second != third


def test_two_documents_that_share_a_band_are_compared_with_the_reason():
    scheme = Scheme(16, 6, digests=("agree numbers", "agree /date"))
    sketcher, policy = Sketcher(scheme, seed=SEED), MatchPolicy(agree_on=scheme.agree_on)
    index, nothing = MemoryIndex(scheme.widths), np.zeros(1, np.int64)
    text = "these words are the same in both of the two documents"
    run_in_batches([text], iter([1]), index, policy, sketcher)
    later = sketcher.sketch([text], [["12"]])
    stored = index.fetch(nothing)
    told = beside(later, stored, sketcher.keys_of(stored.contents), policy=policy)
    assert told.other.finding.subject == "/date"
    assert "the values of /date differ" in told.why
