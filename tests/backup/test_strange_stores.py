"""Answers that no store should give, owners that delete, clocks that go back: never a crash."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest

from streamfilter.backup.download import candidates
from streamfilter.backup.manifest import newest_first
from streamfilter.backup.stores import DirectoryStore, Stored, StoreUnreachable
from streamfilter.backup.targets import store_at
from streamfilter.backup.upload import Stopped, Throttle
from streamfilter.cli import main
from streamfilter.index.errors import IndexFault, IndexRefused
from streamfilter.index.rocks.rocks_index import RocksIndex
from tests.backup.servers import Handler, serving
from tests.backup.test_trouble import INDEX_ID, advance, index, no_grace, taken, target, whole

__all__ = ["index", "no_grace"]


def alike(status: int, body: bytes) -> type[Handler]:
    """Return what answers every request alike."""

    class Alike(Handler):
        def answer(self) -> None:
            self.body()
            self.reply(status, {"Content-Type": "text/html"}, body)

    return Alike


@pytest.mark.parametrize(
    ("status", "body"),
    [(302, b""), (200, b"<html>log in"), (200, b"<?xml version='1.0'?><a/>"),
     (200, b"<ListBucketResult><Contents><Key>a</Key></Contents></ListBucketResult>")],
)  # fmt: skip
def test_what_speaks_no_s3_is_a_fault_and_no_bug(status, body, new_bucket, monkeypatch):
    """A portal or a proxy: the libraries raise KeyError, RecursionError and more."""
    store = store_at(new_bucket())
    with serving(alike(status, body)) as address:
        monkeypatch.setenv("AWS_ENDPOINT_URL", address)
        with pytest.raises(StoreUnreachable, match="cannot be used now"):
            store.put("a", [bytes(9 << 20)] * 2)


@pytest.mark.parametrize(
    "address", ["nonsense", "http://user:PASSWORD@[::1", "http://a:PASSWORD@b"]
)
def test_a_wrong_endpoint_is_a_fault_that_shows_no_password(address, new_bucket, monkeypatch):
    bucket = new_bucket()
    monkeypatch.setenv("AWS_ENDPOINT_URL", address)
    with pytest.raises(StoreUnreachable) as error:
        store_at(bucket).listing("x")
    assert "PASSWORD" not in str(error.value)


def test_the_api_is_read_once_for_all_clients(new_bucket, monkeypatch):
    """Each backup has its own, and the records wait while .2 s of the interpreter go there."""
    bucket = new_bucket()
    store_at(bucket).listing("")
    read = Mock(side_effect=AssertionError)
    monkeypatch.setattr("botocore.loaders.JSONFileLoader.load_file", read)
    store_at(bucket).listing("")


def test_a_backup_that_another_owner_deletes_at_once_is_no_crash(
    index: RocksIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listing = DirectoryStore.listing

    def deleted(self: DirectoryStore, folder: str) -> dict[str, Stored]:
        for manifest in (tmp_path / "backups" / INDEX_ID).glob("*.json"):
            manifest.unlink()
        return listing(self, folder)

    monkeypatch.setattr(DirectoryStore, "listing", deleted)
    (note,) = taken(tmp_path, f"file://{tmp_path}/backups", index, keep=1).notes
    assert "was deleted by another process" in note


def test_a_late_owner_and_a_wrong_clock_do_not_displace_what_is_further(
    index: RocksIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_grace: None
) -> None:
    where = f"file://{tmp_path}/backups"

    assert newest_first(["1" * 13 + "-000000000009-00000000.json",
                         "2" * 13 + "-000000000008-00000000.json"])[0].startswith("1")  # fmt: skip
    first = taken(tmp_path, where, index, keep=1).copied
    advance(index, 2)
    monkeypatch.setattr(time, "time_ns", lambda: 10**18)  # twenty years ago
    ahead = taken(tmp_path, where, index, keep=1).copied
    assert [each.place for each in whole(store_at(where))] == [ahead.place]
    assert ahead.made < first.made


def test_a_manifest_without_a_database_is_none(index: RocksIndex, tmp_path: Path) -> None:
    where = f"file://{tmp_path}/backups"
    copied = taken(tmp_path, where, index).copied
    place = tmp_path / "backups" / copied.place
    fields = json.loads(place.read_text())
    fields["indexes"][0]["files"] = {}
    place.write_text(json.dumps(fields))
    found = candidates(store_at(where), INDEX_ID)
    assert found.whole == []
    assert "it names no file CURRENT" in found.notes[0]


def test_an_upload_that_is_stopped_after_its_last_file_publishes_nothing(
    index: RocksIndex, tmp_path: Path
) -> None:
    """The next one to open the index removes the files meanwhile: the list may be cut."""
    where, stopped = f"file://{tmp_path}/backups", [False]
    call = target(tmp_path, where).take(index, lambda: stopped[0])
    (tmp_path / "backups" / INDEX_ID).mkdir(parents=True)
    listing = DirectoryStore.listing

    def stopping(self: DirectoryStore, folder: str) -> dict[str, Stored]:
        stopped[0] = True
        for file in (tmp_path / "state" / "rocksdb" / "checkpoint").iterdir():
            file.unlink()
        return listing(self, folder)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DirectoryStore, "listing", stopping)
        with pytest.raises(IndexFault):
            call()
    assert whole(store_at(where)) == []


def test_a_rate_below_a_block_is_kept_and_can_be_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(time, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))
    list(Throttle(rate=1 << 16).paced([bytes(1 << 20)] * 2))
    assert now[0] >= 32
    slow = Throttle(rate=1 << 16, stopping=lambda: now[0] > 40)
    with pytest.raises(Stopped):
        list(slow.paced([bytes(1 << 20)] * 2))
    assert now[0] <= 42


def test_no_temporary_directory_and_a_target_without_a_place_are_named(
    index: RocksIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str], new_bucket: Callable[[], str],
) -> None:  # fmt: skip
    for wrong in ("file://relative/to", "file://host/dir"):
        with pytest.raises(IndexRefused, match="no target of backups"):
            store_at(wrong)
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setattr("tempfile._candidate_tempdir_list", lambda: [f"{tmp_path}/none"])
    index.close()
    assert main(["backup", "--state", f"{tmp_path}/state", "--to", new_bucket()]) == 78
    assert "No usable temporary directory" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("target", "why"),
    [("file:///data/index/backups", "lies in index.path"), ("file:///data/index", "lies in"),
     ("file:///data/%2e%2e/x", "expected s3://"), ("file:///%00", "expected s3://")],
)  # fmt: skip
def test_a_directory_that_cannot_hold_backups_is_refused(
    target: str, why: str, capsys: pytest.CaptureFixture[str], no_settings: None
) -> None:
    given = ["--set", "index.path=/data/index", "--set", f"index.backup.target={target}"]
    assert main(["check", *given]) == 78
    assert why in capsys.readouterr().out
