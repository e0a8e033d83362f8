"""`index.scope_field`: documents of different scopes never match, and one scope is as it was."""

import json
from typing import Any

import pytest

from streamfilter.cli import main
from tests.filter.conftest import Desk
from tests.filter.formats.tables import FORMATS
from tests.filter.stories import lines_of, stories, write

SCOPED = ("--set", "index.scope_field=/tenant")
TEXT = " ".join(f"w{number}" for number in range(40))
NEAR = TEXT.replace("w39", "w40")


def scopes(desk: Desk, values: list[Any], *more: str, near: str = NEAR) -> list[Any]:
    """Return the ids that come out of near copies with these tenants; ... is no tenant."""
    rows = [{"id": f"d{n}", "text": near if n else TEXT} for n in range(len(values))]
    for row, value in zip(rows, values, strict=True):
        row.update({} if value is ... else {"tenant": value})
    desk.clear()
    path = write(desk.path / "in.jsonl", lines_of(rows))
    assert main([*desk.arguments(path), *SCOPED, *more]) == 0
    assert not desk.dead.read_bytes()
    return [each["id"] for each in desk.records(desk.unique)]


@pytest.mark.parametrize(
    ("values", "unique"),
    [
        (["a", "b", "a", "b"], ["d0", "d1"]),
        ([..., None, " ", ""], ["d0"]),  # without a scope, which is one scope
        ([..., "a", None, "a"], ["d0", "d1"]),
        ([7, 7.0, "7", 7], ["d0", "d2"]),
        ([10**16, 1e16, 10**16 + 1, "bytes 00"], ["d0", "d2", "d3"]),
        ([["a"], ["a"], "a", {"a": 1, "b": 2}, {"b": 2, "a": 1}], ["d0", "d2", "d3"]),
        (["x" * 60_000, "x" * 60_000, "x" * 59_999], ["d0", "d2"]),
        (["a\0", "a", "\ud83d", "\ud83d"], ["d0", "d1", "d2"]),
        ([False, None, 0], ["d0", "d1", "d2"]),
    ],
)
def test_only_documents_of_one_scope_match(desk: Desk, values: list[Any], unique: list[str]):
    assert scopes(desk, values) == unique
    assert scopes(desk, values, "--workers", "2") == unique
    fields = ("--set", "input.format=fields", "--set", "input.fields={/text: words}")
    assert scopes(desk, values, *fields, near=TEXT) == unique


@pytest.mark.parametrize("format", FORMATS, ids=lambda each: each.name)
def test_scopes_are_columns_of_rows_and_a_file_without_the_column_is_refused(desk, format, capsys):
    rows = [{**each, "tenant": f"t{n % 3}"} for n, each in enumerate(stories(200))]
    assert main([*desk.arguments(write(desk.path / "in.jsonl", lines_of(rows))), *SCOPED]) == 0
    wanted = [each["id"] for each in desk.records(desk.duplicates)]
    assert wanted
    desk.clear()
    assert main([*desk.arguments(format.file(desk.path, rows)), *SCOPED]) == 0
    assert [each["id"] for each in desk.records(desk.duplicates)] == wanted
    assert main([*desk.arguments(format.file(desk.path, stories(2), "no")), *SCOPED]) == 65
    assert "no column tenant" in capsys.readouterr().err


def test_each_tenant_gets_what_it_would_get_alone(desk, capsys):
    rows = [{**each, "tenant": f"t{n % 3}"} for n, each in enumerate(stories(300))]
    path = write(desk.path / "in.jsonl", lines_of(rows))
    assert main([*desk.arguments(path), *SCOPED]) == 0
    mixed = desk.records(desk.unique)
    for tenant in ("t0", "t1", "t2"):
        desk.clear()
        own = [each for each in rows if each["tenant"] == tenant]
        assert main([*desk.arguments(write(desk.path / "own.jsonl", lines_of(own))), *SCOPED]) == 0
        assert desk.records(desk.unique) == [each for each in mixed if each["tenant"] == tenant]
    capsys.readouterr()
    assert main(["evaluate", str(path), "--sample", "300", "-o", "json", *SCOPED]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["recall"]["share"] > 0.98  # a copy in another scope is none to be found
    assert report["precision"]["share"] == 1.0
    assert main(["pairs", str(path), "-o", "json", *SCOPED]) == 0
    pairs = json.loads(capsys.readouterr().out)["pairs"]
    tenants = {each["id"]: each["tenant"] for each in rows}
    assert pairs
    assert all(tenants[each["id"]] == tenants[each["other"]] for each in pairs)


def test_copies_across_scopes_are_wrong_if_withheld_and_expected_of_no_run(desk, capsys):
    rows = [{"id": "a", "text": TEXT, "tenant": "t1"}, {"id": "b", "text": TEXT, "tenant": "t2"}]
    path = write(desk.path / "in.jsonl", lines_of(rows))
    truth = write(desk.path / "truth.tsv", [b"a\tb\t1.0"])

    def evaluated() -> tuple[int, int, int]:
        capsys.readouterr()
        outputs = ("--unique", str(desk.unique), "--duplicates", str(desk.duplicates))
        given = ("--pairs", str(truth), "-o", "json", *SCOPED)
        main(["evaluate", str(path), *outputs, *given])
        found = json.loads(capsys.readouterr().out)
        return found["precision"]["right"], found["precision"]["of"], found["recall"]["of"]

    assert main(desk.arguments(path)) == 0
    assert evaluated() == (0, 1, 0)
    desk.clear()
    assert main([*desk.arguments(path), *SCOPED]) == 0
    assert evaluated() == (0, 0, 0)


def test_pairs_with_other_numbers_are_expected_of_no_run_that_must_agree_in_them(desk, capsys):
    rows = [{"id": each, "text": f"{TEXT} {each}"} for each in "121"]
    rows = [{**row, "id": f"d{place}"} for place, row in enumerate(rows)]
    path = write(desk.path / "in.jsonl", lines_of(rows))
    truth = write(desk.path / "truth.tsv", [b"d0\td1\t.95", b"d0\td2\t1", b"d1\td2\t.95"])

    def evaluated(*given: str) -> tuple[int, int, int]:
        capsys.readouterr()
        main(["evaluate", str(path), "--pairs", str(truth), "-o", "json", *given])
        found = json.loads(capsys.readouterr().out)
        return found["precision"]["right"], found["precision"]["of"], found["recall"]["of"]

    assert evaluated() == (2, 2, 2)
    assert evaluated("--set", "verify.agree_on=[numbers]") == (1, 1, 1)


def test_an_index_answers_for_one_scope_and_is_refused_without_its_field(desk, capsys):
    rows = [{"id": "a", "text": TEXT, "tenant": "t1"}, {"id": "b", "text": NEAR, "tenant": 7}]
    path = write(desk.path / "in.jsonl", lines_of(rows))
    arguments = desk.arguments(path, state="state")
    assert main([*arguments, *SCOPED]) == 0
    state = ("--state", str(desk.path / "state"), "--set", f"index.seed_file={desk.seed}")

    def said(*asked: str) -> str:
        capsys.readouterr()
        main([*asked, *state])
        return "".join(capsys.readouterr())

    for scope, found in (
        ("t1", "a"),
        ("7", "b"),
        ('"7"', None),
        ("null", None),
        ("[" * 9_999, None),
    ):
        matches = json.loads(said("query", NEAR, "--scope", scope, "-o", "json"))["matches"]
        assert [each["id"] for each in matches] == ([found] if found else [])
    why = "they are of different scopes, so they are never compared"
    assert f"against     b: {why}" in said("explain", NEAR, "--scope", "t1", "--against", "b")
    assert f"against     b: {why}" in said("explain", "--id", "a", "--against", "b")
    assert "name the value of /tenant of TEXT by --scope" in said("query", NEAR)
    assert "--scope belongs to a TEXT" in said("query", "--id", "a", "--scope", "t1")
    capsys.readouterr()
    assert main(arguments) == 78
    assert "scope /tenant" in capsys.readouterr().err


@pytest.mark.parametrize("batch", [1, 2, 1_000])
@pytest.mark.parametrize(("known_id", "unique"), [("update", "nnssn-"), ("duplicate", "n-s--n")])
def test_an_id_is_known_within_its_scope(desk: Desk, known_id: str, unique: str, batch: int):
    """Row 7 of the south is another one than row 7 of the north."""
    words = {"n": TEXT, "s": TEXT, "o": TEXT.replace("w", "x")}
    sent = ("7nn", "7nn", "7ss", "7so", "7no", "8no")
    rows = [
        {"id": id_, "tenant": tenant, "text": words[text], "row": row}
        for row, (id_, tenant, text) in enumerate(sent)
    ]
    path = write(desk.path / "in.jsonl", lines_of(rows))
    given = ("--set", f"input.known_id={known_id}", "--set", f"batch.documents={batch}")
    assert main([*desk.arguments(path, state="state"), *SCOPED, *given]) == 0
    out = {each["row"] for each in desk.records(desk.unique)}
    assert "".join(row["tenant"] if n in out else "-" for n, row in enumerate(rows)) == unique


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (["index.scope_field=/text/x", "input.format=text"], "the whole value is the text"),
        (["index.scope_field=/text/x"], "/text/x is within a text or the id, or holds one"),
    ],
)
def test_a_scope_that_cannot_be_is_a_problem_with_a_cure(
    settings: list[str], said: str, no_settings: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", *(part for each in settings for part in ("--set", each))]) == 78
    assert said in "".join(capsys.readouterr())
