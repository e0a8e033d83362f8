"""Files of rows are filtered as lines are: the same verdicts, and what comes out is as it came."""

import json
from contextlib import closing
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import pytest

from streamfilter.cli import main
from streamfilter.documents.reader import Reader
from tests.filter.conftest import Desk
from tests.filter.formats.tables import FORMATS, Format
from tests.filter.stories import lines_of, stories, write

formats = pytest.mark.parametrize("format", FORMATS, ids=lambda each: each.name)
VERDICT = ("verdict", "id", "similarity", "method", "canonical_id", "p_false_positive", "scheme")


def verdicts(desk: Desk) -> list[Any]:
    """What was found out, without where: a row has another number than a line."""
    return [
        [*(record[each] for each in VERDICT), [match["id"] for match in record["matches"]]]
        for record in desk.records(desk.duplicates)
    ]


def told(count: int) -> list[dict[str, str]]:
    """Stories with a column that no one reads, and texts that tables find hard."""
    rows = [{**each, "topic": f'a, b; "{n}"'} for n, each in enumerate(stories(count))]
    rows[-1]["text"] += '\nA second line, with a comma, "quotes" and héllo 日本'
    return rows


@formats
def test_rows_get_the_verdicts_of_lines_and_come_out_as_they_came(desk, format):
    rows = told(300)
    assert desk.run(write(desk.path / "in.jsonl", lines_of(rows))) == 0
    wanted = verdicts(desk)
    kept = [json.loads(line) for line in desk.unique.read_bytes().splitlines()]
    desk.clear()
    assert desk.run(format.file(desk.path, rows)) == 0
    assert verdicts(desk) == wanted
    assert wanted
    assert format.read(desk.unique) == kept


@formats
def test_a_memory_is_kept_over_runs_and_knows_rows_by_their_numbers(desk, format):
    rows = told(300)
    path = format.file(desk.path, rows)
    assert desk.run(path) == 0
    whole = desk.outputs
    desk.clear()
    assert desk.run(format.file(desk.path, rows[:200]), state="memory") == 0
    desk.clear()
    format.file(desk.path, rows)
    assert desk.run(path, state="memory") == 0
    assert desk.outputs == whole
    desk.clear()
    assert desk.run(path, state="memory") == 0, "all of it is read again"
    assert desk.outputs == whole


@formats
def test_what_was_read_is_summed_up_for_a_memory_and_for_no_one_else(desk, format):
    path = str(format.file(desk.path, told(60)))
    table = cast(Any, import_module(f"streamfilter.files.formats.{format.name}")).table

    def digest(*, summed: bool) -> str:
        with closing(table(path, Reader(), name=None)) as rows:
            *_, last = rows.stretches(documents=25, size=1 << 20, summed=summed)
            return last.digest

    assert (digest(summed=False), len(digest(summed=True)) >= 32) == ("", True)


@formats
def test_a_file_without_the_column_says_which_it_has(desk, format, capsys):
    rows = [{"key": str(n), "body_text": each["text"]} for n, each in enumerate(stories(3))]
    path = format.file(desk.path, rows)
    assert desk.run(path) == 65
    error = capsys.readouterr().err
    assert "has no column text; it has key, body_text" in error
    assert "cure: name the columns of text and id that it has, such as --text /body_text" in error
    assert desk.run(path, text="/body_text") == 65
    assert "has no column id" in capsys.readouterr().err
    assert desk.run(path, text="/body_text", id="/key") == 0
    assert desk.run(path, text="/body_text", id="none") == 0


@formats
def test_texts_of_two_columns_are_read_in_their_order(desk: Desk, format: Format) -> None:
    lines, rows = [], []
    for each in stories(100):
        title, _, body = each["text"].partition(" ")
        lines.append({"id": each["id"], "text": f"{title}\n{body}"})
        rows.append({"body": body, "id": each["id"], "title": title})
    assert desk.run(write(desk.path / "in.jsonl", lines_of(lines))) == 0
    wanted = verdicts(desk)
    desk.clear()
    arguments = desk.arguments(format.file(desk.path, rows))
    assert main([*arguments, "--text", "/title", "--text", "/body"]) == 0
    assert verdicts(desk) == wanted


@formats
def test_a_pointer_leads_into_json_in_a_string_of_a_row(desk: Desk, format: Format) -> None:
    rows = [{"id": str(at), "after": json.dumps(each)} for at, each in enumerate(stories(9))]
    args = ("--text", "/after#/text", "--id", "/after#/id")
    assert desk.run(write(desk.path / "in.jsonl", lines_of(rows)), *args) == 0
    wanted, kept = verdicts(desk), [*map(json.loads, desk.unique.read_bytes().splitlines())]
    assert wanted
    desk.clear()
    assert desk.run(format.file(desk.path, rows), *args) == 0
    assert (verdicts(desk), format.read(desk.unique)) == (wanted, kept)


@formats
def test_rows_are_compared_by_their_fields(desk: Desk, format: Format) -> None:
    people = [{"key": key, "name": name, "phone": phone} for key, name, phone in (
        ("1", "Anna Maria Lee", "030 123 4567"), ("2", "Bob Stone", "040 98 76"),
        ("3", "anna maria LEE", "030-123-4567"),
    )]  # fmt: skip
    fields = json.dumps({"/name": "words", "/phone": "digits"})
    chosen = ["--set", "input.format=fields", "--set", f"input.fields={fields}"]
    assert main([*desk.arguments(format.file(desk.path, people), id="/key"), *chosen]) == 0
    assert format.read(desk.unique) == people[:2]


@formats
def test_a_row_that_is_larger_than_a_document_may_be_is_a_dead_letter(desk, format):
    rows = [{**each, "note": "x" * 3_000 * (n == 2)} for n, each in enumerate(told(5))]
    path = format.file(desk.path, rows)
    assert main([*desk.arguments(path), "--set", "limits.document=3KiB"]) == 0
    (letter,) = desk.records(desk.dead)
    assert letter["error"]["code"] == "too_large"
    assert letter["error"]["message"].startswith("the row has ")
    assert letter["source"]["offset"] == (4 if format.name == "csv" else 3)
    assert [each["id"] for each in format.read(desk.unique)] == [
        each["id"] for n, each in enumerate(rows) if n != 2
    ]


@formats
def test_the_format_is_said_where_the_name_does_not_say_it(desk: Desk, format: Format) -> None:
    rows = told(40)
    path = format.file(desk.path, rows).rename(desk.path / "data")
    assert desk.run(path, format=format.name) == 0
    kept = {row["id"] for row in format.read(desk.unique)}
    withheld = {record["id"] for record in desk.records(desk.duplicates)}
    assert kept | withheld == {row["id"] for row in rows}
    assert withheld


@formats
def test_what_comes_out_may_not_be_named_as_another_format(desk, format, capsys):
    path = format.file(desk.path, told(3))
    unique = str(desk.path / "out.jsonl")
    assert main(["filter", str(path), "--unique", unique, "--duplicates", "d"]) == 64
    error = capsys.readouterr().err
    assert f"what comes out of {path} is {format.name}" in error
    assert "cure: give it a name like the input's" in error
    assert not Path(unique).exists()


@formats
def test_files_of_two_formats_are_not_one_run(desk, format, capsys):
    rows = told(3)
    lines = write(desk.path / "in.jsonl", lines_of(rows))
    assert desk.run(lines, format.file(desk.path, rows)) == 64
    assert "files of one run are of one format" in capsys.readouterr().err


@formats
def test_files_that_one_file_cannot_hold_are_refused_before_anything_is_judged(
    desk: Desk, format: Format, capsys: pytest.CaptureFixture[str]
) -> None:
    one = format.file(desk.path, told(3), "one")
    other = format.file(desk.path, [{**row, "more": "x"} for row in told(3)], "other")
    assert desk.run(one, other) == 64
    error = capsys.readouterr().err
    assert f"{one} and {other} cannot be filtered into one file" in error
    assert "cure: filter them one by one with the same --state" in error
    assert not desk.unique.exists()


@formats
def test_the_longest_of_a_group_comes_out_of_rows(desk: Desk, format: Format) -> None:
    rows = told(200)
    assert desk.run(write(desk.path / "in.jsonl", lines_of(rows)), keep="longest") == 0
    wanted = verdicts(desk)
    kept = [json.loads(line) for line in desk.unique.read_bytes().splitlines()]
    desk.clear()
    assert desk.run(format.file(desk.path, rows), keep="longest") == 0
    assert verdicts(desk) == wanted
    assert format.read(desk.unique) == kept


@formats
def test_a_finished_run_over_rows_is_judged(desk, format, capsys):
    path = format.file(desk.path, told(200))
    assert desk.run(path) == 0
    pairs = desk.path / "pairs.tsv"
    assert main(["pairs", str(path)]) == 0
    found = capsys.readouterr().out
    assert found.count("\n") > 20
    pairs.write_text(found)
    outputs = ["--unique", str(desk.unique), "--duplicates", str(desk.duplicates)]
    judged = ["evaluate", str(path), "--pairs", str(pairs), *outputs, "--format", format.name]
    assert main([*judged, "-o", "json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["records"] == 200
    assert report["sound"]
    assert main(["evaluate", str(path), "--sample", "150", "-o", "json"]) == 0
    sampled = json.loads(capsys.readouterr().out)
    assert sampled["sample"]["documents"] == 150
    assert sampled["sound"]
