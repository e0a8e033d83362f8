import json
import os
import subprocess
import sys
import threading

import pytest

from streamfilter.cli import main
from tests.documents.test_envelope import SCHEMA
from tests.filter.conftest import Desk
from tests.filter.stories import lines_of, stories, write

BROKEN = [b"{", b'{"id":"x"}', b'{"text":"\xff","id":"y"}']


def test_every_line_is_in_exactly_one_place_byte_for_byte(desk: Desk) -> None:
    lines = lines_of(stories(400))
    lines[10] = lines[10].replace(b": ", b" :\t") + b" \r"
    lines[20:20] = [
        *BROKEN,
        b'{"text":" ","id":"empty"}',
        b'{"text":"\\u00e9t\\u00e9 court","id":1}',
    ]
    assert desk.run(write(desk.path / "in", lines)) == 0
    unique = desk.unique.read_bytes().split(b"\n")[:-1]
    withheld = [record["payload"].encode() for record in desk.records(desk.duplicates)]
    dead = [record["payload"] for record in desk.records(desk.dead)]
    assert len(dead) == len(BROKEN)
    assert sorted(unique + withheld) == sorted(line for line in lines if line not in BROKEN)
    assert unique == [line for line in lines if line in set(unique)], "their order is kept"
    assert withheld, "the stories must have duplicates"


def test_a_text_in_two_fields_is_judged_as_the_one_that_they_make(desk: Desk) -> None:
    told = stories(300)
    assert desk.run(write(desk.path / "in", lines_of(told))) == 0
    whole = [_without_payload(record) for record in desk.records(desk.duplicates)]
    desk.clear()
    parts = []
    for story in told:
        title, _, body = story["text"].partition(" ")
        parts.append({"title": title, "id": story["id"], "body": body})
    arguments = desk.arguments(write(desk.path / "in", lines_of(parts)))
    assert main([*arguments, "--text", "/title", "--text", "/body"]) == 0
    assert [_without_payload(record) for record in desk.records(desk.duplicates)] == whole
    assert whole


def _without_payload(record: dict[str, object]) -> dict[str, object]:
    return {name: each for name, each in record.items() if name != "payload"}


@pytest.mark.parametrize("place", ["key", "header:ce_id"])
def test_an_id_beside_the_value_is_refused_for_lines(desk, place, capsys):
    assert desk.run(write(desk.path / "in", lines_of(stories(3))), id=place) == 78
    assert f"input.id: got {place}; a line has no key and headers" in capsys.readouterr().err


def test_a_format_without_lines_is_refused_for_files(desk, capsys):
    schema = desk.path / "a.avsc"
    schema.write_text('{"type":"record","name":"A","fields":[]}')
    arguments = desk.arguments(write(desk.path / "in", lines_of(stories(3))))
    settings = ["--set", "input.format=avro", "--set", f"input.schema_file={schema}"]
    assert main([*arguments, *settings]) == 78
    assert "input.format: got avro; it has no lines" in capsys.readouterr().err


def test_in_shadow_mode_every_readable_line_is_forwarded_and_the_verdicts_stay(desk: Desk) -> None:
    lines = [*lines_of(stories(300)), *BROKEN, b'{"text":" ","id":"empty"}']
    path = write(desk.path / "in", lines)
    assert desk.run(path) == 0
    diverted = desk.records(desk.duplicates)
    desk.clear()
    assert desk.run(path, set="output.mode=shadow") == 0
    assert desk.unique.read_bytes().splitlines() == [line for line in lines if line not in BROKEN]
    for record in diverted:
        del record["payload"], record["payload_encoding"]
    assert desk.records(desk.duplicates) == diverted
    assert diverted


def test_a_duplicate_carries_its_evidence(desk: Desk) -> None:
    text = "the quick brown fox jumps over the lazy dog and runs away into the dark green wood"
    path = write(
        desk.path / "in",
        lines_of([{"id": "a", "text": text}, {"id": "b", "text": text.upper()},
                  {"id": "c", "text": text + " again"}, {"id": "d", "text": "nothing like it"}]),
    )  # fmt: skip
    assert desk.run(path) == 0
    exact, near = desk.records(desk.duplicates)
    assert (exact["verdict"], exact["id"], exact["matches"][0]["id"]) == (
        "exact_duplicate",
        "b",
        "a",
    )
    assert (near["verdict"], near["id"], near["canonical_id"]) == ("near_duplicate", "c", "a")
    assert near["similarity"] == round(15 / 16, 6)
    assert near["source"] == {"topic": str(path), "partition": 0, "offset": 3}
    assert near["matches"][0]["offset"] == 1
    assert near["matches"][0]["bands"] > 0
    for record in (exact, near):
        SCHEMA.validate(record)


def test_dead_letters_name_their_code_and_line_and_keep_the_bytes(desk: Desk) -> None:
    assert desk.run(write(desk.path / "in", [*BROKEN, b"", b'{"text":7,"id":1}'])) == 65  # no other
    records = desk.records(desk.dead)
    codes = [record["error"]["code"] for record in records]
    assert codes == ["invalid_json", "missing_text", "bad_utf8", "wrong_type"]
    assert [record["source"]["offset"] for record in records] == [1, 2, 3, 5]
    assert records[2]["payload_encoding"] == "base64"
    for record in records:
        SCHEMA.validate(record)


def test_without_a_dead_letter_the_first_broken_line_stops_it(desk, capsys):
    desk.unique.write_bytes(b"what was here before\n")
    lines = lines_of(stories(30))
    lines[12] = b'{"text": secret'
    path = write(desk.path / "in", lines)
    assert desk.run(path, dead_letter=False) == 65
    said = capsys.readouterr().err
    assert f"{path}, line 13: invalid_json" in said
    assert "secret" not in said
    assert desk.unique.read_bytes() == b"what was here before\n"
    assert {each.name for each in desk.path.iterdir()} == {"in", "seed", "unique"}


def test_a_mended_line_is_read_again_from_where_it_stopped(desk: Desk) -> None:
    good = lines_of(stories(60))
    broken = [*good[:45], b"{", *good[45:]]
    mended = [*good[:45], b'{"id":"m","text":"a mended line of its own"}', *good[45:]]
    path = write(desk.path / "in", broken)
    assert desk.run(path, state="s", dead_letter=False, set="batch.documents=20") == 65
    write(path, mended)
    assert desk.run(path, state="s", dead_letter=False, set="batch.documents=20") == 0
    resumed = desk.unique.read_bytes(), desk.duplicates.read_bytes()
    assert desk.run(path, dead_letter=False) == 0
    assert (desk.unique.read_bytes(), desk.duplicates.read_bytes()) == resumed


def test_blank_lines_are_no_records(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    lines = lines_of(stories(3, seed=1))
    path = desk.path / "in"
    path.write_bytes(b"\n \r\n" + lines[0] + b"\n\n" + lines[1] + b"\n\t\n" + lines[2])
    assert desk.run(path, output="json") == 0
    summary = json.loads(capsys.readouterr().out)
    assert (summary["records"], summary["blank_lines"]) == (3, 4)


def test_the_summary_adds_up(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [*lines_of(stories(200)), *BROKEN, b'{"text":"","id":1}']
    assert desk.run(write(desk.path / "in", lines), output="json", set="input.empty_text=drop") == 0
    summary = json.loads(capsys.readouterr().out)
    assert sum(summary["places"].values()) == summary["records"] == len(lines)
    assert sum(summary["verdicts"].values()) == len(lines)
    assert summary["places"]["dropped"] == 1
    assert summary["places"]["dead_letter"] == len(BROKEN)
    assert summary["places"]["unique"] == len(desk.unique.read_bytes().splitlines())
    assert summary["reasons"] == {"bad_utf8": 1, "empty": 1, "invalid_json": 1, "missing_text": 1}


def test_a_directory_and_a_pattern_name_their_files_in_order(desk: Desk, capsys) -> None:
    lines = lines_of(stories(100))
    assert desk.run(write(desk.path / "whole", lines)) == 0
    unique = desk.unique.read_bytes()
    (desk.path / "some" / "deep").mkdir(parents=True)
    write(desk.path / "some" / "b.jsonl", lines[40:])
    write(desk.path / "some" / "a[1].jsonl", lines[:30])
    write(desk.path / "some" / "a[2].jsonl", lines[30:40])
    write(desk.path / "some" / ".hidden.jsonl", BROKEN)
    write(desk.path / "some" / "notes.md", BROKEN)
    some = desk.path / "some"
    for given in ([some], [f"{some}/*.jsonl"], [f"{some}/a[[]*.jsonl", some / "b.jsonl"]):
        desk.clear()
        assert desk.run(*given) == 0
        assert desk.unique.read_bytes() == unique
    assert desk.run(some / "a[1].jsonl") == 0, "a file's own name is no pattern"
    for nothing in (some / "deep", f"{some}/*.csv"):
        assert desk.run(nothing) == 64
        assert f"{nothing}: names no file of .jsonl" in capsys.readouterr().err


def test_evidence_is_not_written_under_the_name_of_another_format(desk: Desk, capsys) -> None:
    path = write(desk.path / "in", lines_of(stories(5)))
    named = desk.path / "evidence.parquet"
    for run in (
        lambda: desk.run(path, duplicates=named),
        lambda: desk.run(path, duplicates=named, keep="longest"),
        lambda: main(["pairs", str(path), "--dead-letter", str(named)]),
    ):
        assert run() == 64
        assert "cure: name it evidence.jsonl" in capsys.readouterr().err
        assert not named.exists()


@pytest.mark.slow
@pytest.mark.parametrize("documents", [1, 7, 1_000])
def test_the_size_of_batches_changes_no_output(desk: Desk, documents: int) -> None:
    path = write(desk.path / "in", [*lines_of(stories(150)), *BROKEN])
    assert desk.run(path) == 0
    expected = desk.outputs
    assert desk.run(path, set=f"batch.documents={documents}") == 0
    assert desk.outputs == expected


def test_standard_input_and_output_serve_as_files(desk: Desk) -> None:
    lines = lines_of(stories(40))
    assert desk.run(write(desk.path / "in", lines)) == 0
    done = subprocess.run(
        [sys.executable, "-m", "streamfilter", *desk.arguments("-"), "--unique", "-"],
        input=b"\n".join(lines),
        stdout=subprocess.PIPE,
        timeout=180,
        check=True,
    )
    assert done.stdout == desk.unique.read_bytes()


def test_a_pipe_as_output_is_written_and_not_replaced(desk: Desk) -> None:
    pipe = desk.path / "pipe"
    os.mkfifo(pipe)
    received: list[bytes] = []
    reader = threading.Thread(target=lambda: received.append(pipe.read_bytes()))
    reader.start()
    assert desk.run(write(desk.path / "in", lines_of(stories(20))), unique=pipe) == 0
    reader.join(180)
    assert pipe.is_fifo()
    assert received[0].count(b"\n") > 5


@pytest.mark.parametrize("name", ["/dev/fd/{}", "/proc/self/fd/{}"])
def test_what_a_shell_has_opened_is_written_behind_what_is_there(desk: Desk, name: str) -> None:
    source = write(desk.path / "in", lines_of(stories(5)))
    assert desk.run(source) == 0
    out, found = os.pipe()
    with open(desk.path / "all", "ab") as file:
        file.write(b"before\n")
        file.flush()
        places = [name.format(number) for number in (file.fileno(), found)]
        assert desk.run(source, unique=places[0], duplicates=places[1]) == 0
    os.close(found)
    assert (desk.path / "all").read_bytes() == b"before\n" + desk.unique.read_bytes()
    with open(out, "rb") as received:
        assert received.read() == desk.duplicates.read_bytes()


def test_a_link_to_an_output_stays_a_link(desk: Desk) -> None:
    (desk.path / "elsewhere").mkdir()
    desk.unique.symlink_to(desk.path / "elsewhere" / "real")
    assert desk.run(write(desk.path / "in", lines_of(stories(5)))) == 0
    assert desk.unique.is_symlink()
    assert (desk.path / "elsewhere" / "real").read_bytes()


def test_a_file_name_that_is_no_text_is_written_about_as_text(desk: Desk) -> None:
    name = os.fsencode(desk.path) + b"/in-\xff"
    line = lines_of(stories(1))[0]
    with open(name, "wb") as file:
        file.write(line + b"\n" + line + b"\n")
    assert desk.run(os.fsdecode(name)) == 0
    assert desk.records(desk.duplicates)[0]["source"]["topic"].endswith("/in-\\xff")


def test_the_short_options_are_settings(desk: Desk) -> None:
    documents = [b'{"doc":{"body":"abcdefghij"}}', b'{"doc":{"body":"abcdefghix"}}']
    path = write(desk.path / "in", documents)
    options = {"text": "/doc/body", "id": "none", "threshold": 0.7, "shingle": "char:2"}
    assert desk.run(path, **options) == 0
    record = desk.records(desk.duplicates)[0]
    assert record["id"] == f"{path}-0-2"
    assert record["similarity"] == 0.8
    assert record["threshold"] == 0.7
