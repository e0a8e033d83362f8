"""Without a state the same file gives the same verdicts; and broken lines alone are no success."""

import json
from pathlib import Path

import pytest

from streamfilter.cli import main
from tests.filter.conftest import Desk
from tests.filter.stories import lines_of, stories, write

LOOSE = ["similarity.threshold=0.5", "similarity.bands=8", "similarity.rows=6"]
"""Which pairs meet is a matter of the hashes."""


def filtered(desk: Desk, source: Path, *more: str) -> tuple[bytes, bytes]:
    arguments = ["filter", str(source), "--unique", str(desk.unique)]
    arguments += ["--duplicates", str(desk.duplicates), "--set", "similarity.recall=0.1"]
    arguments += [word for each in LOOSE for word in ("--set", each)]
    assert main([*arguments, *more]) == 0
    return desk.unique.read_bytes(), desk.duplicates.read_bytes()


@pytest.mark.slow
def test_the_same_file_gives_the_same_outputs_and_another_seed_others(desk: Desk) -> None:
    source = write(desk.path / "in", lines_of(stories(600)))
    always = filtered(desk, source)
    assert filtered(desk, source) == always == filtered(desk, source, "--seed", "0")
    assert filtered(desk, source, "--seed", "1") != always
    by_file = ("--set", f"index.seed_file={desk.seed}")
    assert filtered(desk, source, *by_file) == filtered(desk, source, *by_file) != always


def test_a_state_keeps_its_own_seed(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    source = write(desk.path / "in", lines_of(stories(3)))
    assert desk.run(source, state="s", seed=1) == 64
    assert "--state keeps the seed" in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["filter", "filter -o json", "pairs", "evaluate"])
def test_a_file_of_broken_lines_only_is_no_success(desk, verb, capsys):
    """A wrong --text made each record a dead letter, and the exit code said that all was well."""
    source = write(desk.path / "in", lines_of(stories(5)))
    command = [*verb.split(), str(source), "--text", "/body"]
    if "filter" in verb:
        command += ["--unique", str(desk.unique), "--duplicates", str(desk.duplicates)]
    if verb != "evaluate":
        command += ["--dead-letter", str(desk.dead)]
    assert main(command) == 65
    captured = capsys.readouterr()
    assert "all 5 records are broken" in captured.err
    assert "--text /body --id none" in captured.err
    if verb != "evaluate":
        assert len(desk.records(desk.dead)) == 5
    if "json" in verb:
        assert json.loads(captured.out)["places"]["dead_letter"] == 5


def test_a_file_without_records_is_none_of_broken_ones(desk: Desk) -> None:
    assert desk.run(write(desk.path / "in", [])) == 0
