"""No room left for the answer or the files: reported with what stays and what to do."""

import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from streamfilter import Deduplicator
from streamfilter.bench.result import Options
from streamfilter.commands.bench import _save as save
from streamfilter.stops import NoRoom
from tests.filter.stories import lines_of, stories, write
from tests.support.machine.disk import fill, small_file_system
from tests.support.session.forge import Forge

pytestmark = pytest.mark.slow  # each test starts the program, most of them more than once

STREAMFILTER = (sys.executable, "-m", "streamfilter")
FULL = Path("/dev/full")
DOCUMENTS = 400
KEPT = 100
TEXT = "the old mill by the river was sold to a young family from the city on monday"
TEMPORARY = 75
SCARCE = 1 << 14
"""Bytes: enough that Python takes the directory for a temporary one, too few for an index."""

needs_full_device = pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")


@dataclass(frozen=True, slots=True)
class Done:
    """How a process ended, and what it said."""

    returncode: int
    stderr: str


class Room:
    """Files to work on, a disk that can be filled, and the program."""

    def __init__(self, path: Path, disk: Path, forge: Forge) -> None:
        self.path, self.disk, self.forge = path, disk, forge
        self.runs = 0
        self.input = write(path / "input.jsonl", lines_of(stories(DOCUMENTS)))
        self.seed = path / "seed"
        self.seed.write_bytes(b"a seed that tests share")

    def filter(
        self, place: Path, *more: str | Path, unique: str | Path | None = None
    ) -> list[str | Path]:
        """Return the command that filters into *place*."""
        command = ["filter", self.input, "--set", f"index.seed_file={self.seed}"]
        outputs = ["--unique", unique or place / "unique", "--duplicates", place / "duplicates"]
        return [*command, *outputs, *more]

    def index(self) -> Path:
        """Return the directory of a whole index with `KEPT` documents."""
        path = self.path / "index"
        if not path.exists():
            with Deduplicator(path) as known:
                known.add_many((f"d{n}", f"{TEXT} {n}") for n in range(KEPT))
        return path

    def run(
        self, *command: str | Path, output: Path = Path(os.devnull), **environment: str
    ) -> Done:
        """Run `streamfilter` with *command*."""
        self.runs += 1
        log = self.path / f"{self.runs}.log"
        arguments = [*STREAMFILTER, *map(str, command)]
        given = {"log": log, "output": output, "environment": {**os.environ, **environment}}
        code = self.forge.launch(arguments, **given).wait(120)
        return Done(code, log.read_text())

    def backup(self) -> Path:
        target = self.path / "backup"
        self.run("backup", "--state", self.index(), "--to", target)
        return target

    def of(self, verb: str) -> list[str | Path]:
        """Return a command with *verb* that has an answer."""
        state = ["--state", self.index()] if verb in NEED_INDEX else []
        return {
            "check": ["check", "--config", "config/streamfilter.yaml"],
            "plan": ["plan"],
            "two texts": ["explain", TEXT, f"{TEXT} again"],
            "evaluate": ["evaluate", self.input, "--sample", "50"],
            "pairs": ["pairs", self.input],
            "filter": self.filter(self.path, "-o", "json"),
            "query": ["query", *state, TEXT],
            "explain": ["explain", *state, TEXT],
            "check --index": ["check", "--index", *state],
            "backup": ["backup", *state, "--to", self.path / "backup"],
            "restore": ["restore", "--state", self.path / "again", "--from", self.path / "backup"],
        }[verb]


NEED_INDEX = ("query", "explain", "check --index", "backup")
ANSWERING = ("check", "plan", "two texts", "evaluate", "pairs", "filter", "query", "explain",
             "check --index", "backup", "restore")  # fmt: skip


def is_told(done: Done, *words: str) -> None:
    """Fail unless *done* ended as temporary, without a traceback, and said *words*."""
    assert done.returncode == TEMPORARY, done.stderr
    assert "bug" not in done.stderr
    assert "Traceback" not in done.stderr
    assert "by itself" not in done.stderr
    for each in ("No space left on device", "cure: ", *words):
        assert each in done.stderr, done.stderr


@pytest.fixture
def room(tmp_path: Path, forge: Forge) -> Room:
    return Room(tmp_path, tmp_path / "disk", forge)


@pytest.fixture
def full(room: Room) -> Iterator[Path]:
    """A file system of eight megabytes with no room at all."""
    with small_file_system(room.disk, mib=8) as path:
        fill(path / "ballast")
        yield path


@needs_full_device
@pytest.mark.parametrize("verb", ANSWERING)
def test_an_answer_that_finds_no_room_is_reported_as_that(room, verb):
    if verb == "restore":
        room.backup()
    is_told(room.run(*room.of(verb), output=FULL), "standard output", "the work itself is done")


def test_every_verb_answers_by_the_one_function_that_can_tell():
    for file in Path("streamfilter/commands").glob("*.py"):
        said = re.findall(r"click\.echo\(.*?\)$", file.read_text(), re.M)
        assert file.name == "standard.py" or all("err=True" in each for each in said), file


@needs_full_device
@pytest.mark.parametrize("asked", [("--help",), ("--version",), ("filter", "--help")])
def test_help_that_finds_no_room_is_reported_as_that(room, asked):
    is_told(room.run(*asked, output=FULL))


@needs_full_device
def test_filter_into_a_full_standard_output_publishes_nothing(room):
    is_told(room.run(*room.filter(room.path, unique="-"), output=FULL), "standard output")
    assert not (room.path / "duplicates").exists()


def test_filter_onto_a_full_disk_leaves_the_outputs_as_they_were(room, full):
    (full / "ballast").unlink()
    (full / "unique").write_text("before\n")
    fill(full / "ballast")
    done = room.run(*room.filter(full))
    is_told(done, str(full), "the outputs are as they were", "run it again")
    assert (full / "unique").read_text() == "before\n"
    assert not list(full.glob("*.partial"))
    (full / "ballast").unlink()
    assert room.run(*room.filter(full)).returncode == 0


def test_filter_whose_state_is_on_a_full_disk_goes_on_when_it_is_run_again(room, full):
    whole = room.path / "whole"
    whole.mkdir()
    assert room.run(*room.filter(whole)).returncode == 0
    command = room.filter(room.path, "--state", full / "state")
    for left in (0, 1 << 13, 1 << 16, 1 << 17):
        fill(full / "ballast", leave=left)
        done = room.run(*command, "--set", "batch.documents=20")
        is_told(done, str(full / "state"), "the outputs are as they were", "run it again")
        assert not (room.path / "unique").exists()
    (full / "ballast").unlink()
    assert room.run(*command).returncode == 0
    for name in ("unique", "duplicates"):
        assert (room.path / name).read_bytes() == (whole / name).read_bytes()


def test_filter_without_a_state_whose_temporary_disk_is_full_says_which(room, full):
    fill(full / "ballast", leave=SCARCE)
    done = room.run(*room.filter(room.path), TMPDIR=str(full))
    is_told(done, str(full), "TMPDIR")


@pytest.mark.parametrize("verb", ["pairs", "evaluate"])
def test_work_over_files_whose_temporary_disk_is_full_says_which(room, full, verb):
    fill(full / "ballast", leave=SCARCE)
    done = room.run(*room.of(verb), TMPDIR=str(full))
    is_told(done, str(full), "TMPDIR")


@pytest.mark.parametrize("verb", ["plan", "evaluate"])
def test_a_picture_that_finds_no_room_is_reported_and_leaves_no_half(room, full, verb):
    done = room.run(*room.of(verb), "--plot", full / "curve.svg")
    is_told(done, str(full / "curve.svg"))
    assert not (full / "curve.svg").exists()


def test_figures_that_find_no_room_leave_those_that_were_there(full):
    (full / "ballast").unlink()
    (full / "run.json").write_text("before")
    fill(full / "ballast")
    nothing = Options(repeat=1, quick=True)
    with pytest.raises(NoRoom, match=r"run\.json"):
        save(full / "run.json", [], nothing)
    assert (full / "run.json").read_text() == "before"


def test_a_backup_or_a_restore_onto_a_full_disk_is_reported(room, full):
    is_told(room.run("backup", "--state", room.index(), "--to", full / "copy"), str(full / "copy"))
    is_told(
        room.run("restore", "--state", full / "state", "--from", room.backup()), str(full / "state")
    )


@pytest.mark.parametrize("verb", ["query", "explain", "check --index"])
def test_questions_to_an_index_whose_temporary_disk_is_full_are_reported(room, full, verb):
    fill(full / "ballast", leave=SCARCE)
    done = room.run(*room.of(verb), TMPDIR=str(full))
    if done.returncode != 0:  # what needs no room is answered
        is_told(done, str(full))
