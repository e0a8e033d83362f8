"""Entity resolution: the planted customers are found, whatever runs the pipeline."""

import json
from pathlib import Path

import numpy as np
import pytest

from streamfilter import Deduplicator
from streamfilter.assembly import sketcher_for
from streamfilter.cli import main
from streamfilter.entities.joined import join_fields
from streamfilter.entities.scoring import field_points
from streamfilter.index.format import FormatError, decode_documents, encode_documents
from streamfilter.index.protocol import Documents
from streamfilter.similarity.columns import Widths
from streamfilter.similarity.scheme import Scheme, scheme_of
from tests.entities.customers import BEFORE, customers, write
from tests.support.cases import cases

CONFIG = str(Path(__file__).parents[2] / "config" / "customers.yaml")
FIELDS = {"/name": "words", "/address": "words", "/phone": "digits"}
SEED = bytes(range(16))


def sketch(*records):
    return sketcher_for(Scheme.of_fields(FIELDS), seed=SEED).sketch(
        [join_fields(record, "7.5") for record in records]
    )


def resolved(tmp_path, planted, *options):
    out = [f"--{name}={tmp_path / name}" for name in ("unique", "duplicates", "dead-letter")]
    path = write(tmp_path / "in.jsonl", planted)
    assert main(["filter", path, "-c", BEFORE, *out, *options]) == 0
    return [json.loads(line) for line in (tmp_path / "duplicates").read_text().splitlines()]


def test_the_planted_customers_are_found_and_no_others(tmp_path):
    print("seed 1")
    planted = customers(1, 800, shared_phones=80)
    found = resolved(tmp_path, planted)
    pairs = {frozenset((each["id"], each["matches"][0]["id"])) for each in found}
    assert pairs <= planted.pairs
    assert len(pairs) >= 0.98 * len(planted.pairs)
    near = [each for each in found if each["verdict"] == "near_duplicate"]
    assert all(each["method"] == "fields" and 0.75 <= each["similarity"] < 1 for each in near)
    assert len(found) - len(near) > 40  # those that came again without a slip


def test_a_run_in_pieces_gives_the_same_verdicts_from_what_the_index_kept(tmp_path):
    planted = customers(2, 150)
    whole = resolved(tmp_path, planted)
    state = ["--state", str(tmp_path / "state"), "--set", "batch.documents=20"]
    assert resolved(tmp_path, planted, *state) == whole
    assert resolved(tmp_path, planted, *state) == whole  # read again, as of its own time


def test_records_meet_by_one_equal_field_and_a_missing_one_is_none():
    ann = ("Ann Lee", "1 Oak St", "0123 456")
    keys = sketch(
        ann,
        ("ANN  lee.", "9 Elm Rd", ""),
        ("Bob Ray", "", "(0123) 456"),
        ("", "2 Fir Ln", ""),
        ("1 Oak St", "", ""),
        ("", "", ""),
        ann,
    ).keys
    met = keys[:, None, :] == keys[None, :, :]
    assert met[0, 1].tolist() == [True, False, False, False]
    assert met[0, 2].tolist() == [False, False, True, False]
    assert met[0, 6].all()
    for other in (3, 4, 5):
        assert not met[0, other].any(), "an equal value in another field is nothing"
    assert not met[1, 2].any()
    assert not met[3, 4].any()


@cases(
    ("field", "one", "other", "low", "high"),
    [
        ("words", "ann lee", "ann lee", 100, 100),
        ("words", "ann lee", "lee ann", 99, 99),
        ("words", "anna berger", "anan berger", 85, 95),
        ("words", "anna berger", "otto keller", 0, 0),
        ("digits", "49301234567", "49899234567", 0, 85),
        ("digits", "301234567", "991234567", 80, 80),
        ("digits", "301234567", "301234568", 85, 95),
        ("digits", "301234567", "998765432", 0, 0),
        ("exact", "x1", "x2", 0, 0),
        ("exact", "x1", "x1", 100, 100),
    ],
)
def test_a_field_gives_100_points_and_less_for_small_differences(field, one, other, low, high):
    payloads = [join_fields([value]).encode() for value in (one, other)]
    (points,) = field_points(payloads[:1], payloads[1:], [field])[0]
    assert low <= points <= high


def test_what_is_stored_of_a_record_brings_back_its_keys_and_fields():
    sketches = sketch(("Ann Lee", "1 Oak St", "0123"), ("Bö", "", "7"))
    number = np.arange(2)
    documents = Documents(number, ["a", "b"], number, number, number, number, sketches.contents)
    values = encode_documents(documents)
    restored = decode_documents(number, values, Widths(24))
    first, second = (payload.decode() for payload in restored.contents.payloads)
    assert (first, second) == ("ann lee\x1f1 oak st\x1f0123\x1f7.5", "bö\x1f\x1f7\x1f7.5")
    again = sketcher_for(scheme_of(Scheme.of_fields(FIELDS).as_json()), seed=SEED)
    assert (again.keys_of(restored.contents) == sketches.keys).all()
    for broken in (values[0][:-1], values[0] + b"x"):
        with pytest.raises(FormatError):
            decode_documents(number[:1], [broken], Widths(24))


def test_mistakes_are_said_with_the_cure(tmp_path, capsys):
    path = tmp_path / "in.jsonl"
    path.write_text('{"id": "a", "name": {"first": "Ann"}}\n')
    common = ["filter", str(path), "--unique", "/dev/null", "--duplicates", "/dev/null"]
    for options, code, words in [
        (["-c", CONFIG], 65, "wrong_type: /name is an object"),
        (["--set", "input.format=fields"], 78, "name at least one, such as /name: words"),
        (["-c", CONFIG, "--set", "input.format=json"], 78, "does not apply to input.format json"),
        (["-c", CONFIG, "--set", "input.held_out=/name"], 78, "is also one of input.fields"),
        (["-c", CONFIG, "--set", "verify.containment=0.9"], 78, "field by field"),
    ]:
        assert main([*common, *options]) == code
        assert words in capsys.readouterr().err


def test_records_without_any_field_are_passed_on_unjudged(tmp_path):
    path = tmp_path / "in.jsonl"
    path.write_text('{"id": "a"}\n{"id": "b", "name": null, "phone": " "}\n')
    out = [f"--{name}={tmp_path / name}" for name in ("unique", "duplicates")]
    assert main(["filter", str(path), "-c", CONFIG, *out]) == 0
    assert (tmp_path / "unique").read_text() == path.read_text()


def test_query_and_explain_take_a_record_as_json(tmp_path, capsys):
    planted = customers(3, 40)
    resolved(tmp_path, planted, "--state", str(tmp_path / "state"))
    record = {**planted.records[7], "phone": "none"}
    capsys.readouterr()
    asked = ["--state", str(tmp_path / "state"), json.dumps(record), "-o", "json"]
    assert main(["query", *asked, "--threshold", "0.6"]) == 0
    (match,) = json.loads(capsys.readouterr().out)["matches"]
    assert (match["id"], match["similarity"]) == ("a7", pytest.approx(2 / 3))
    assert main(["explain", *asked]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["verdict"] == "unique"
    (candidate,) = told["candidates"]
    assert "misses the threshold 0.75" in candidate["why"]
    assert candidate["fields"]["/address"] == {"points": 100.0, "weight": 1.0}
    assert candidate["fields"]["/phone"] == {"points": None, "weight": 1.0}
    assert main(["query", "--state", str(tmp_path / "state"), "Ann Lee"]) == 64
    assert "give one as JSON, such as" in capsys.readouterr().err
    assert main(["query", "--state", str(tmp_path / "state"), "--id", "a7", "-o", "json"]) == 0
    assert main(["explain", *asked[:3], "--against", "a9"]) == 0
    said = capsys.readouterr().out
    assert "never compared" in said
    assert "/phone absent" in said
    assert main(["explain", "a", "b", "-c", CONFIG]) == 64
    with pytest.raises(ValueError, match="go through filter or run"):
        Deduplicator(scheme=Scheme.of_fields(FIELDS))


def test_discovery_finds_the_planted_pairs_too(tmp_path, capsys):
    planted = customers(5, 200)
    assert main(["pairs", write(tmp_path / "in.jsonl", planted), "-c", BEFORE]) == 0
    lines = capsys.readouterr().out.splitlines()
    found = {frozenset(line.split("\t")[:2]) for line in lines}
    assert found <= planted.pairs
    assert len(found) >= 0.98 * len(planted.pairs)
