"""What a manifest may name: a restore writes nothing that a backup does not hold."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from streamfilter import Deduplicator
from streamfilter.backup.download import candidates, restorable, restore
from streamfilter.backup.index_target import back_up
from streamfilter.backup.manifest import NAMES_MAX
from streamfilter.backup.targets import store_at
from streamfilter.cli import main
from streamfilter.index.errors import IndexFault

HOSTILE_FILES = ["../../.profile", "..", ".", ".profile", "/etc/cron.d/x", "a/b", "a\\b", "",
                 "x\n", "\x1b[2J", "a" * 300, "CON:", "a\0b"]  # fmt: skip
HOSTILE_INDEXES = ["..", ".", "", ".hidden", "/tmp/x", "a/b", "elsewhere", "partition-x",
                   "index\n", 7, None]  # fmt: skip


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Return an index and its backup in one directory, and the name of the only manifest."""
    directory = tmp_path_factory.mktemp("made")
    with Deduplicator(directory / "state") as stories:
        stories.add("a", "the old mill by the river was sold to a young family on monday")
    (copied,) = back_up(directory / "state", store_at(directory / "deep" / "target"))
    return directory, copied.place


@pytest.fixture
def manifest(made: tuple[Path, str], tmp_path: Path) -> Path:
    """Return the one manifest of a target, a copy."""
    directory, place = made
    shutil.copytree(directory, tmp_path, dirs_exist_ok=True)
    return tmp_path / "deep" / "target" / place


def edited(manifest: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    fields = json.loads(manifest.read_text())
    change(fields["indexes"][0])
    manifest.write_text(json.dumps(fields))


def refused(manifest: Path, tmp_path: Path) -> str:
    """Return why a backup is not taken; nothing may be left outside of an empty directory."""
    before = sorted(tmp_path.rglob("*"))
    store = store_at(manifest.parents[1])
    with pytest.raises(IndexFault) as error:
        restore(store, restorable(store), tmp_path / "again" / "state")
    new = {each for each in tmp_path.rglob("*") if each not in before}
    assert new <= {tmp_path / "again", tmp_path / "again/state", tmp_path / "again/state/lock"}
    assert str(error.value).replace("\n", "").isprintable()
    return str(error.value)


@pytest.mark.parametrize("name", HOSTILE_FILES)
def test_a_file_name_that_no_backup_has_is_refused(manifest, tmp_path, name):
    """The name's sum is that of a file in the target: only its name is wrong."""
    (tmp_path / "deep" / ".profile").write_text("export PATH=/evil")
    edited(manifest, lambda index: index["files"].update({name: index["files"]["CURRENT"]}))
    assert "is no file of a backup" in refused(manifest, tmp_path)


@pytest.mark.parametrize("name", HOSTILE_INDEXES)
def test_an_index_name_that_no_backup_has_is_refused(manifest, tmp_path, name):
    edited(manifest, lambda index: index.update(name=name))
    assert "is no index of a backup" in refused(manifest, tmp_path)


@pytest.mark.slow
def test_more_files_than_any_index_has_and_impossible_sizes_are_refused(manifest, tmp_path):
    entry = [1, "0" * 128]
    many = {f"{n}.sst": entry for n in range(NAMES_MAX + 1)}
    edited(manifest, lambda index: index.update(files=many))
    assert "more than 200,000" in refused(manifest, tmp_path)
    for size in (-1, 1 << 60, True, 1.5, "7"):
        edited(
            manifest, lambda index, size=size: index.update(files={"CURRENT": [size, "0" * 128]})
        )
        assert "is no count" in refused(manifest, tmp_path)


def test_a_size_that_no_disk_has_is_refused_before_anything_is_fetched(manifest, tmp_path):
    sums = json.loads(manifest.read_text())["indexes"][0]["files"]
    largest = max(sums, key=lambda name: sums[name][0])
    file = manifest.parent / "files" / sums[largest][1]
    with file.open("r+b") as sparse:
        sparse.truncate(1 << 40)
    edited(manifest, lambda index: index["files"].update({largest: [1 << 40, sums[largest][1]]}))
    assert "and the disk has" in refused(manifest, tmp_path)


def test_a_manifest_of_another_index_is_refused(manifest, tmp_path):
    edited(manifest, lambda index: index.update(index_id="ab" * 16))
    assert "and is another's" in refused(manifest, tmp_path)
    other = manifest.parents[1] / ("ab" * 16)
    manifest.parent.rename(other)
    assert "and is another's" in refused(other / manifest.name, tmp_path)


def test_a_file_or_an_index_that_stands_there_twice_is_refused(manifest, tmp_path):
    whole = manifest.read_text()
    manifest.write_text(whole.replace('"CURRENT":', '"CURRENT": [0, ""], "CURRENT":'))
    assert "twice" in refused(manifest, tmp_path)
    fields = json.loads(whole)
    for more in ("index", "partition-0"):
        fields["indexes"] = [fields["indexes"][0], {**fields["indexes"][0], "name": more}]
        manifest.write_text(json.dumps(fields))
        refused(manifest, tmp_path)


@pytest.mark.parametrize("place", ["a file", "files", "the index"])
def test_a_link_in_a_target_is_not_followed(manifest, tmp_path, place):
    files = manifest.parent / "files"
    path = {"files": files, "the index": manifest.parent}.get(place, next(iter(files.iterdir())))
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    refused(manifest, tmp_path)


def test_a_pipe_in_a_target_is_refused_and_not_waited_for(manifest, tmp_path):
    manifest.unlink()
    os.mkfifo(manifest)
    refused(manifest, tmp_path)


@pytest.mark.parametrize("broken", ["", "\0", '{"version": 2}', "[]",
                                    '{"version": 2, "indexes": 5}',
                                    '{"version": 2, "indexes": []}', "[" * 100_000,
                                    '{"version": 2, "indexes": [{}]}',
                                    '{"version": "\\u001b[2J", "indexes": []}',
                                    '{"version": 3, "indexes": []}'])  # fmt: skip
def test_half_a_manifest_or_one_of_another_shape_is_no_backup_and_no_bug(
    manifest: Path, tmp_path: Path, broken: str
) -> None:
    manifest.write_text(broken)
    assert "holds no finished backup" in refused(manifest, tmp_path)
    found = candidates(store_at(manifest.parents[1]), manifest.parent.name)
    assert (found.whole, len(found.notes)) == ([], 1)


@pytest.mark.parametrize("value", ["1e999", "NaN", "[]", '"x"', "null", "-7"])
@pytest.mark.parametrize("name", ["documents", "next_ordinal", "marker", "files", "record_hash"])
def test_a_field_of_another_type_is_a_fault_and_no_bug(manifest, tmp_path, name, value):
    edited(manifest, lambda index: index.update({name: "HERE"}))
    manifest.write_text(manifest.read_text().replace('"HERE"', value))
    refused(manifest, tmp_path)


@pytest.mark.parametrize("shape", ['"rows": "x"', '"shingling": []', '"bands": null',
                                   '"normalisation": {"whitespace": {}}'])  # fmt: skip
def test_a_scheme_of_another_shape_is_refused_when_it_is_opened(manifest, tmp_path, shape):
    scheme = json.loads(f"{{{shape}}}")
    edited(manifest, lambda index: index["marker"]["identity"]["scheme"].update(scheme))
    store = store_at(manifest.parents[1])
    restore(store, restorable(store), tmp_path / "again")
    with pytest.raises((ValueError, IndexFault)):
        Deduplicator.open(tmp_path / "again")


def test_the_verb_ends_with_78_and_names_the_file(manifest, tmp_path, capsys):
    edited(manifest, lambda index: index["files"].update({"../../.profile": [0, "0" * 128]}))
    target, state = str(manifest.parents[1]), str(tmp_path / "again")
    assert main(["restore", "--from", target, "--state", state]) == 78
    assert "../../.profile" in capsys.readouterr().err


def test_the_verb_asks_which_of_two_indexes(manifest, tmp_path, capsys):
    with Deduplicator(tmp_path / "second") as stories:
        stories.add("b", "another story of another index, which shares the target")
    target = str(manifest.parents[1])
    assert main(["backup", "--state", str(tmp_path / "second"), "--to", target]) == 0
    restoring = ["restore", "--from", target, "--state", str(tmp_path / "again")]
    assert main(restoring) == 78
    assert "name one with --index-id" in capsys.readouterr().err
    assert main([*restoring, "--index-id", manifest.parent.name]) == 0
    with Deduplicator.open(tmp_path / "again") as stories:
        assert list(stories) == ["a"]
