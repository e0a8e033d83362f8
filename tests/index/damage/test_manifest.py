"""What a backup's contents may name: a restore writes nothing that a backup does not hold."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from streamfilter import Deduplicator
from streamfilter.cli import main
from streamfilter.index.directory.backup import back_up, restore, size_of
from streamfilter.index.directory.backup_manifest import CONTENTS_NAME
from streamfilter.index.directory.lock_and_marker import DATABASE_NAME
from streamfilter.index.errors import IndexFault, IndexRefused

HOSTILE_FILES = ["../../.profile", "..", ".", ".profile", "/etc/cron.d/x", "a/b", "a\\b", "",
                 "x\n", "\x1b[2J", "a" * 300, "CON:", "a\0b"]  # fmt: skip
HOSTILE_INDEXES = ["..", ".", "", ".hidden", "/tmp/x", "a/b", "elsewhere", "partition-x",
                   "index\n", 7, None]  # fmt: skip


@pytest.fixture
def backup(tmp_path: Path) -> Path:
    with Deduplicator(tmp_path / "state") as stories:
        stories.add("a", "the old mill by the river was sold to a young family on monday")
    back_up(tmp_path / "state", tmp_path / "deep" / "backup")
    return tmp_path / "deep" / "backup"


def edited(backup: Path, change: Any) -> None:
    path = backup / CONTENTS_NAME
    fields = json.loads(path.read_text())
    change(fields["indexes"])
    path.write_text(json.dumps(fields))


def refused(backup: Path, tmp_path: Path) -> IndexFault:
    """Return the refusal of a restore that leaves nothing outside of an empty directory."""
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(IndexFault) as error:
        restore(backup, tmp_path / "again" / "state")
    after = sorted(tmp_path.rglob("*"))
    assert [each for each in after if each not in before] == []
    return error.value


def planted(backup: Path, name: str) -> None:
    """Let the contents name a file that is there, with its right sum."""

    def change(indexes: list[dict[str, Any]]) -> None:
        files = indexes[0]["files"]
        files[name] = files.pop(next(iter(files)))

    edited(backup, change)


@pytest.mark.parametrize("name", HOSTILE_FILES)
def test_a_file_name_that_no_backup_has_is_refused_before_anything_is_written(
    backup: Path, tmp_path: Path, name: str
) -> None:
    (tmp_path / "deep" / ".profile").write_text("export PATH=/evil")
    planted(backup, name)
    error = refused(backup, tmp_path)
    assert "is no file of a backup" in str(error)
    assert str(error).isprintable()


@pytest.mark.parametrize("name", HOSTILE_INDEXES)
def test_an_index_name_that_no_backup_has_is_refused(backup, tmp_path, name):
    edited(backup, lambda indexes: indexes[0].update(name=name))
    assert "is no index of a backup" in str(refused(backup, tmp_path))


@pytest.mark.parametrize("second", ["index", "partition-0"])
def test_the_same_place_twice_is_refused(backup: Path, tmp_path: Path, second: str) -> None:
    edited(backup, lambda indexes: indexes.append({**indexes[0], "name": second}))
    refused(backup, tmp_path)


def test_a_file_that_is_named_twice_is_refused(backup: Path, tmp_path: Path) -> None:
    path = backup / CONTENTS_NAME
    path.write_text(path.read_text().replace('"CURRENT":', '"CURRENT": [0, ""], "CURRENT":'))
    assert "twice" in str(refused(backup, tmp_path))


@pytest.mark.parametrize("place", ["CURRENT", ".", ".."])
def test_a_link_in_a_backup_is_not_followed(backup: Path, tmp_path: Path, place: str) -> None:
    path = Path(os.path.normpath(backup / "index" / DATABASE_NAME / place))
    path.rename(tmp_path / "secret")
    path.symlink_to(tmp_path / "secret")
    assert isinstance(refused(backup, tmp_path), IndexRefused)


def test_a_pipe_in_a_backup_is_refused_and_not_waited_for(backup: Path, tmp_path: Path) -> None:
    path = backup / "index" / DATABASE_NAME / "CURRENT"
    path.unlink()
    os.mkfifo(path)
    refused(backup, tmp_path)


@pytest.mark.parametrize("broken", ['{"version": 1}', "[]", '{"version": 1, "indexes": [{}]}',
                                    '{"version": "\\u001b[2J", "indexes": []}',
                                    '{"version": 1, "indexes": 5}', "[" * 100_000])  # fmt: skip
def test_contents_of_another_shape_are_a_fault_and_no_bug(backup: Path, broken: str) -> None:
    (backup / CONTENTS_NAME).write_text(broken)
    with pytest.raises(IndexFault) as error:
        size_of(backup)
    assert str(error.value).isprintable()


@pytest.mark.parametrize("value", ["1e999", "NaN", "[]", '"x"', "null"])
@pytest.mark.parametrize("name", ["documents", "next_ordinal", "marker", "files"])
def test_a_field_of_another_type_is_a_fault_and_no_bug(backup, tmp_path, name, value):
    edited(backup, lambda indexes: indexes[0].update({name: "HERE"}))
    path = backup / CONTENTS_NAME
    path.write_text(path.read_text().replace('"HERE"', value))
    refused(backup, tmp_path)


@pytest.mark.parametrize("shape", ['"rows": "x"', '"shingling": []', '"bands": null',
                                   '"normalisation": {"whitespace": {}}'])  # fmt: skip
def test_a_scheme_of_another_shape_is_refused_when_it_is_opened(backup, tmp_path, shape):
    def change(indexes: list[dict[str, Any]]) -> None:
        indexes[0]["marker"]["identity"]["scheme"].update(json.loads(f"{{{shape}}}"))

    edited(backup, change)
    restore(backup, tmp_path / "again")
    with pytest.raises((ValueError, IndexFault)):
        Deduplicator.open(tmp_path / "again")


def test_the_verb_ends_with_78_and_names_the_file(backup, tmp_path, capsys):
    planted(backup, "../../.profile")
    assert main(["restore", str(backup), "--state", str(tmp_path / "again")]) == 78
    assert "../../.profile" in capsys.readouterr().err
