"""Records of people: the shipped configuration against labels, and each kind by its table."""

import hashlib
import json
import sys
from pathlib import Path

import pytest

from streamfilter.assembly import policy_for, sketcher_for
from streamfilter.cli import main
from streamfilter.config.loading import load_config
from streamfilter.entities import lists
from streamfilter.entities.joined import join_fields
from streamfilter.entities.kinds import FIELD_KINDS, KINDS, keys_of
from streamfilter.entities.scoring import points_of, score
from streamfilter.similarity.scheme import Scheme
from tests.entities.figures import CONFIG, figures
from tests.entities.people import AMERICAN, EUROPEAN, register
from tests.support.cases import cases

FIELDS = ("name", "birth_date", "address", "phone", "email")


@pytest.mark.slow
@pytest.mark.parametrize(("habit", "seed"), [(AMERICAN, 2026), (EUROPEAN, 2027)])
def test_the_shipped_configuration_finds_people_who_come_again_and_no_others(habit, seed):
    recall, precision, wrong = figures(register(seed, 2_000, habit))
    print(f"seed {seed}: recall {recall:.3f}, precision {precision:.3f}, wrong {wrong[:5]}")
    assert recall >= 0.91
    assert precision >= 0.93


@pytest.fixture(scope="module")
def similarity():
    """Return the shipped configuration's score of two records."""
    config = load_config([Path(CONFIG)])
    rules = policy_for(config).field_rules
    kinds = [KINDS[kind] for kind in rules.kinds]
    pointers = [pointer[1:] for pointer in config.input.fields]

    def compared(one, other):
        ours, theirs = (
            [kind.normalise(each.get(name, "")) for kind, name in zip(kinds, pointers, strict=True)]
            for each in (one, other)
        )
        return score(rules, ours, theirs)

    return compared


BOB = {"name": "Robert Lee", "birth_date": "1984-01-31", "address": "12 Main Street, Salem 10137",
       "phone": "+1 555 123 4567", "email": "robert.lee@example.org"}  # fmt: skip


@cases(
    ("other", "same"),
    [
        ({"name": "Lee, Bob", "birth_date": "01/31/1984", "phone": "(555) 123-4567"}, True),
        ({**BOB, "name": "Robrt Lee", "address": "9 Oak Ave, Dover 20411", "phone": ""}, True),
        ({"name": "Robert Lee", "birth_date": "31.1.84"}, True),
        ({**BOB, "email": "rlee@mail.example.com", "birth_date": "1984-01-13"}, True),
        # a household: one address, one phone, one family's name
        ({**BOB, "name": "Ann Lee", "birth_date": "1986-05-02", "email": "ann@x.org"}, False),
        ({"name": "Ann Lee", "address": BOB["address"], "phone": BOB["phone"]}, False),
        # one name, another birth: a namesake elsewhere, or a father at the same address
        ({"name": "Robert Lee", "birth_date": "1951-07-02", "phone": "+1 555 987 6543"}, False),
        ({**BOB, "birth_date": "1951-07-02", "email": "r.lee@y.org"}, False),
        # too little to know
        ({"name": "Robert Lee"}, False),
        ({"phone": BOB["phone"]}, False),
        ({"name": "Robert Lee", "address": "9 Oak Ave, Dover 20411"}, False),
        ({}, False),
    ],
)
def test_who_is_the_same_person(similarity, other, same):
    assert (similarity(BOB, other) >= 0.75) is same, similarity(BOB, other)
    assert similarity(BOB, other) == similarity(other, BOB)


@cases(
    ("kind", "values", "normalised"),
    [
        ("name", ["Dr. José  MÜLLER", "josé müller", "Jose\u0301 Mu\u0308ller"], "jose muller"),
        ("name", ["O'Brien", "O’Brien", "obrien"], "obrien"),
        ("name", ["n/a", "Unknown", "\x00", "\ud83d", "…"], ""),
        ("name", ["xy" * 30_000, "xy" * 100], "xy" * 100),
        ("address", ["12 Main Street", "12 MAIN St.", "12, main st"], "12 main st"),
        ("address", ["Hauptstraße 5", "Hauptstr. 5", "HAUPTSTRASSE 5"], "hauptstr 5"),
        ("phone", ["+49 (0)30 9018200", "030/9018200", "0049 30 9018200"], "309018200"),
        ("phone", ["+1 555 123 4567", "(555) 123-4567 ext. 9", "1-555-123-4567"], "5551234567"),
        ("phone", ["0000000000", "call me", "12", "+", ""], ""),
        ("date", ["1984-01-31T08:00Z", "31.1.84", "01/31/1984", "31 January 1984", "19840131",
                  "31/01/1984", "Jan. 31st, 1984", "٣١/٠١/١٩٨٤"], "19840131"),
        ("date", ["31. 1. 1984", "31 / 01 / 1984", "1984. 01. 31.", "1984 01 31", "1984년 1월 31일",
                  "1984年1月31日", "31 de janeiro de 1984", "31 januari 1984", "31 01 84"],
         "19840131"),
        ("date", ["1984-02-30", "yesterday", "1984", "31 january " + "9" * 50, "\U00010a40 may 1"],
         ""),
        ("email", ["Bob.Lee+shop@X.org", "mailto:bob.lee@x.org", "Bob <bob.lee@x.org>"],
         "bob.lee@x.org"),
        ("email", ["b.ob@googlemail.com", "bob@gmail.com"], "bob@gmail.com"),
        ("email", ["bob", "@x.org", "bob@x", "x" * 60_000 + "@x.org"], ""),
        ("number", ["1,200.50", "1.200,50 EUR", "1200.5", "1'200.50", "1.2005e3"], "1200.5"),
        ("number", ["500", "Rs. 500", "Rs.500", "approx. 500 kg", "٥٠٠", "$ 500"], "500"),
        ("number", ["-1.5", "−1.5", "−1½", "-1,5", "-١٫٥", "−1 ½ in", "CHF. -1.5"], "-1.5"),
        ("number", ["1,200", "١٬٢٠٠", "1 200", "1’200 m"], "1200"),
        ("number", ["½", ".5", ",5", "0.5", "$.50", "/.5"], "0.5"),
        ("name", ["Test", "N/A", "test  TEST", "xxx", "not provided"], ""),
        ("address", ["unknown", "X X X", "no address"], ""),
        ("phone", ["1234567890", "123-456-7890", "0123456789", "999-999-9999"], ""),
        ("date", ["1900-01-01", "01/01/1970", "31.12.9999", "0001-01-01"], ""),
        ("email", ["test@test.com", "NoReply@shop.com", "none@x.org", "a@none.com"], ""),
        ("number", ["twelve", "1e999", "-", "NaN", "inf"], ""),
    ],
)  # fmt: skip
def test_a_value_is_normalised_by_its_kind(kind, values, normalised):
    kind = KINDS[FIELD_KINDS[kind]]
    for value in values:
        assert kind.normalise(value) == normalised, value
        assert kind.normalise(normalised) == normalised
        assert len(kind.parts(kind.normalise(value))) == kind.pairs


@cases(
    ("kind", "one", "other", "low", "high"),
    [
        ("name", "bob lee", "lee robert", 95, 99),
        ("name", "jon smith", "john smith", 85, 95),
        ("name", "j smith", "john smith", 85, 95),
        ("name", "john paul smith", "john smith", 90, 96),
        ("name", "smith", "john smith", 70, 70),
        ("name", "ann smith", "otto smith", 0, 0),
        ("name", "robert james lee", "robert john lee", 66, 67),
        ("name", "lee robert james", "robert john lee", 66, 67),
        ("name", "juan garcia lopez", "ana garcia lopez", 0, 0),
        ("name", "juan garcia lopez", "ana maria garcia lopez", 0, 0),
        ("name", "anna maria berger", "anna maria schmidt", 0, 0),
        ("name", "kim min jun", "kim min seo", 0, 0),
        ("name", "maria de la cruz", "maria delacruz", 99, 99),
        ("name", "john smith jr", "john smith sr", 0, 0),
        ("name", "john smith jr", "john smith", 90, 96),
        ("name", "alexander ray", "alexandra ray", 85, 95),
        ("name", "pat lee", "patrick lee", 95, 99),
        ("address", "12 main st", "12 main st salem 10137", 85, 95),
        ("address", "12 main st", "13 main st", 50, 65),
        ("address", "12 main st", "9 oak ave", 0, 0),
        ("phone", "5551234567", "5551234568", 89, 91),
        ("phone", "5551234567", "301234567", 80, 80),
        ("phone", "5551234567", "5559876543", 0, 0),
        ("date", "19840105", "19840501", 90, 90),
        ("date", "19840131", "19840130", 80, 80),
        ("date", "19840131", "19510702", 0, 0),
        ("email", "bob.lee@x.org", "bob.lee@y.com", 80, 90),
        ("email", "bob.lee@x.org", "bob.le@x.org", 90, 90),
        ("email", "ann@x.org", "otto@x.org", 0, 0),
        ("number", "1000", "1010", 90, 91),
        ("number", "0", "5", 0, 0),
    ],
)
def test_small_differences_give_fewer_points(kind, one, other, low, high):
    (points,) = points_of([one], [other], FIELD_KINDS[kind])
    (back,) = points_of([other], [one], FIELD_KINDS[kind])
    assert low <= points <= high
    assert points == back


def filtered(folder, records, *options):
    (folder / "in.jsonl").write_text("".join(json.dumps(each) + "\n" for each in records))
    out = [f"--{name}={folder / name}" for name in ("unique", "duplicates", "dead-letter")]
    assert main(["filter", str(folder / "in.jsonl"), "-c", CONFIG, *out, *options]) == 0
    return {name: [json.loads(each) for each in (folder / name).open()]
            for name in ("unique", "duplicates", "dead-letter")}  # fmt: skip


def test_check_finds_that_the_library_for_records_is_missing(no_settings, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "rapidfuzz", None)
    given = ("--set", "input.format=fields", "--set", "input.fields={/name: words}")
    assert main(["check", *given]) == 78
    assert "pip install 'streamfilter[records]'" in capsys.readouterr().out


@pytest.mark.slow
def test_a_value_that_thousands_share_hides_no_one(tmp_path):
    """One city and one switchboard for all: the true match shares only beginnings beside them."""
    fields = "input.fields={/name: name, /city: exact, /phone: phone}"
    crowd = [
        {"id": f"c{i}", "name": f"{chr(97 + i % 26)}{i * 7919 % 10_007} Walker{i % 40}",
         "city": "Salem", "phone": "555 100 2000"}
        for i in range(4_000)
    ]  # fmt: skip
    again = {"id": "again", "name": "Ruppert Zappendorf", "city": "Salem", "phone": "5551002000"}
    known = {**again, "id": "known", "name": "Rupert Zapendorf"}
    middle = len(crowd) // 2
    records = [*crowd[:middle], known, *crowd[middle:], again]
    found = filtered(tmp_path, records, "--set", fields)["duplicates"]
    assert ("again", "known") in {(each["id"], each["matches"][0]["id"]) for each in found}


def test_values_of_another_kind_are_absent_and_objects_are_dead_letters(tmp_path):
    born = {"birth_date": "never", "phone": "call me", "email": "none"}
    records = [
        {"id": "plain", **BOB},
        {"id": "list", **BOB, "phone": ["1", "2"]},
        {"id": "object", **BOB, "address": {"city": "Salem"}},
        {"id": "number", **BOB, "phone": 15551234567, "name": "Bob Lee"},
        {"id": "none", "name": "Robert Lee", "address": None, **born},
        {"id": "long", **BOB, "name": "Robert Lee " + "y" * 60_000, "email": "\x00\x1f" * 100},
        {"id": "absent"},
        {"id": "others", "name": " ", **born},
    ]
    found = filtered(tmp_path, records, "--set", "limits.dead_letter_share=1")
    assert [each["source"]["offset"] for each in found["dead-letter"]] == [2, 3]
    assert {each["error"]["code"] for each in found["dead-letter"]} == {"wrong_type"}
    assert [each["id"] for each in found["duplicates"]] == ["number", "long"]
    assert [each["id"] for each in found["unique"]] == ["plain", "none", "absent", "others"]


def test_a_record_with_fewer_fields_than_the_minimum_is_no_duplicate(tmp_path, capsys):
    """Two strangers of one name are equal records where the rest is placeholders."""
    few = {"name": "Ann Lee", "birth_date": "1900-01-01", "phone": "1234567890"}
    records = [{"id": "a", **few}, {"id": "b", **few, "email": "test@test.com"}]
    found = filtered(tmp_path, records)
    assert [each["id"] for each in found["unique"]] == ["a", "b"]
    equal = filtered(tmp_path, records, "--set", "input.short_text=exact_only")
    assert [each["id"] for each in equal["duplicates"]] == ["b"]
    capsys.readouterr()
    assert main(["pairs", str(tmp_path / "in.jsonl"), "-c", CONFIG]) == 0
    assert capsys.readouterr().out == ""
    assert main(["explain", *map(json.dumps, records), "-c", CONFIG]) == 0
    assert "fewer fields than verify.minimum_fields (2)" in capsys.readouterr().out


def test_a_name_in_two_fields_is_one_field(tmp_path, capsys):
    fields = {"/last + /first": "name", "/born": "date"}
    (tmp_path / "two.yaml").write_text(json.dumps({
        "input": {"format": "fields", "fields": fields}, "verify": {"minimum_fields": 2},
        "similarity": {"threshold": 0.9},
    }))  # fmt: skip
    records = [
        {"id": "a", "first": "Robert", "last": "Lee", "born": "1984-01-31"},
        {"id": "exchanged", "first": "Lee", "last": "Bob", "born": "31.1.1984"},
        {"id": "sister", "first": "Ann", "last": "Lee", "born": "1984-01-31"},
        {"id": "half", "last": "Lee", "born": None},
    ]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(each) + "\n" for each in records))
    out = [f"--{name}={tmp_path / name}" for name in ("unique", "duplicates")]
    config = ["-c", str(tmp_path / "two.yaml")]
    assert main(["filter", str(tmp_path / "in.jsonl"), *config, *out]) == 0
    again = [json.loads(each)["id"] for each in (tmp_path / "duplicates").open()]
    assert again == ["exchanged"]
    assert main(["explain", json.dumps(records[0]), json.dumps(records[2]), *config]) == 0
    assert "/last + /first 0, /born 100" in capsys.readouterr().out
    assert main(["check", *config, "--set", "input.fields={'/a + b': name}"]) == 0
    assert main(["check", *config, "--set", "input.fields={'/a + /0': name}"]) == 78


def test_an_index_of_before_opens_and_a_list_that_changes_is_another_kind():
    """Keys and payloads as commit 614c0a3 made them; the lists as the versions of `KINDS` say."""
    scheme = Scheme.of_fields(
        {"/name": "words", "/address": "words", "/phone": "digits", "/key": "exact"}
    )
    assert scheme.fingerprint == "dbb2c9f9"
    assert keys_of(scheme.field_kinds) == scheme.bands == 4
    one = join_fields(["Ann  LEE", "1 Öak St.", "(030) 12", "K"], "7.5")
    sketches = sketcher_for(scheme, seed=bytes(16)).sketch([one, join_fields(["", "x", "", ""])])
    contents, keys = sketches.contents, sketches.keys.astype("<u8").tobytes()
    columns = keys + contents.fingerprints.tobytes() + b"".join(contents.payloads)
    assert hashlib.blake2b(columns, digest_size=8).hexdigest() == "7d13de10d295e3fa"
    named = (lists.NICKNAMES, lists.ADDRESS_WORDS, lists.TITLES, lists.PLACEHOLDERS, lists.MONTHS,
             lists.COUNTRY_CODES, lists.PLACEHOLDER_DATES, lists.PLACEHOLDER_PHONES,
             lists.PLACEHOLDER_MAILBOXES, lists.PLACEHOLDER_DOMAINS)  # fmt: skip
    written = json.dumps([sorted(map(str, _plain(each))) for each in named])
    digest = hashlib.blake2b(written.encode(), digest_size=8).hexdigest()
    assert digest == "1652802ff1a4e1b0", "raise the version of the kinds that use the list"


def _plain(values):
    if isinstance(values, dict):
        return [(key, sorted(each) if isinstance(each, frozenset) else each)
                for key, each in values.items()]  # fmt: skip
    return values


def test_compare_shows_the_points_of_each_field(tmp_path, capsys):
    other = {**BOB, "name": "Bob Lee", "address": "9 Oak Ave, Dover 20411", "phone": ""}
    assert main(["explain", json.dumps(BOB), json.dumps(other), "-c", CONFIG]) == 0
    said = capsys.readouterr().out
    assert "of the fields that both have" in said
    for words in ("/name 98 x 2", "/birth_date 100 x 2", "/address 0", "/phone absent"):
        assert words in said


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("input.fields={/name: nme}", "expected words, digits, exact, name"),
        ("input.fields={/name: {kind: [name]}}", "{kind: name, weight: 2}"),
        ("input.fields={/name: {kind: name, weight: 0}}", "weights: 0.1 to 10"),
        ("input.fields={/name: {kind: name, wieght: 2}}", "{kind: name, weight: 2}"),
        ("verify.minimum_fields=6", "use at most the number of input.fields"),
    ],
)
def test_a_mistake_in_the_fields_is_said_before_anything_starts(capsys, setting, words):
    assert main(["check", "-c", CONFIG, "--set", setting, "--set", "input.held_out=null"]) == 78
    assert words in capsys.readouterr().out
