import errno
from pathlib import Path

import pytest

from streamfilter import Deduplicator
from streamfilter.cli import main
from streamfilter.files.outputs import OutputFile
from tests.filter.conftest import Desk
from tests.filter.stories import lines_of, stories, write


@pytest.fixture
def source(desk: Desk) -> Path:
    return write(desk.path / "in", lines_of(stories(5)))


def test_an_input_that_is_not_there_is_named(desk, capsys):
    assert desk.run(desk.path / "nowhere") == 64
    assert "cannot read" in capsys.readouterr().err


def test_an_address_and_lines_of_plain_text_have_cures_of_their_own(desk, capsys):
    assert desk.run("https://host/news.jsonl") == 64
    assert "| streamfilter filter -`" in capsys.readouterr().err
    plain = desk.path / "plain.log"
    plain.write_text("2026-11-26 a line of a log\n")
    for dead_letter in (True, False):
        assert desk.run(plain, dead_letter=dead_letter) == 65
        assert "--set input.format=text" in capsys.readouterr().err


def test_an_output_that_cannot_be_written_is_named_before_anything_is_read(desk, source, capsys):
    assert desk.run(source, unique=desk.path / "no" / "such") == 64
    assert "cannot write" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "cure"), [("folder", "name a file in it"), ("", "its name is empty: an unset")]
)
def test_an_output_that_is_a_directory_or_has_no_name_says_what_to_write(
    desk, source, capsys, monkeypatch, name, cure
):
    monkeypatch.chdir(desk.path)
    (desk.path / "folder").mkdir()
    outputs = ["--unique", name, "--duplicates", str(desk.duplicates)]
    assert main(["filter", str(source), *outputs]) == 64
    assert cure in capsys.readouterr().err


def test_an_output_without_a_free_descriptor_is_not_blamed_on_its_directory(
    desk, source, capsys, monkeypatch
):
    def full(output: OutputFile, path: str) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(OutputFile, "_open", full)
    assert desk.run(source) == 64
    assert capsys.readouterr().err.endswith("files; raise the limit of open files (ulimit -n)\n")


@pytest.mark.parametrize("verb", [["filter", "a", "--unique=u", "--duplicates=d"], ["check"]])
def test_a_working_directory_that_was_removed_is_no_bug(tmp_path, capsys, monkeypatch, verb):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert main(verb) == 64
    said = capsys.readouterr().err
    assert "the working directory was removed\n    cure: cd to one that exists" in said


def test_no_path_serves_twice(desk: Desk, source: Path) -> None:
    assert desk.run(source, source) == 64
    assert desk.run(source, unique=source) == 64
    assert desk.run(source, unique=desk.path / "." / "in") == 64
    assert desk.run(source, unique=desk.duplicates) == 64
    assert desk.run("-", "-") == 64
    assert source.read_bytes()


def test_wrong_settings_are_all_named_at_once(desk, source, capsys):
    assert desk.run(source, threshold=9, text="/items/0") == 78
    said = capsys.readouterr().err
    assert "similarity.threshold" in said
    assert "input.text" in said
    assert not desk.unique.exists()


def test_a_misspelt_shingle_is_a_usage_error(desk: Desk, source: Path) -> None:
    assert desk.run(source, shingle="words") == 64


def test_json_and_lines_do_not_share_standard_output(desk: Desk, source: Path) -> None:
    assert desk.run(source, unique="-", output="json") == 64


def test_the_help_shows_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["filter", "--help"]) == 0
    assert "streamfilter filter news.jsonl.gz --unique" in capsys.readouterr().out


def test_a_state_without_a_name_is_refused(desk, source, capsys):
    """``--state "$UNSET"`` made an index of wherever the script ran."""
    assert main([*desk.arguments(source), "--state", ""]) == 64
    assert "is the variable set" in capsys.readouterr().err


def test_the_directory_of_a_deduplicator_is_no_state_and_stays_as_it_was(desk, source, capsys):
    with Deduplicator(desk.path / "memory") as stories:
        stories.add("a", "the old mill by the river was sold to a young family")
    assert desk.run(source, state="memory") == 78
    assert "is the index of a Deduplicator or a service" in capsys.readouterr().err
    with Deduplicator.open(desk.path / "memory") as stories:
        assert list(stories) == ["a"]
