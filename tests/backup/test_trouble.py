"""Kills, zombies, a slow, full or forbidding store: a broken backup is never chosen."""

import json
import os
import re
import shutil
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from streamfilter.backup import upload as uploading
from streamfilter.backup.download import candidates, fetch, restorable, restore
from streamfilter.backup.index_target import IndexTarget
from streamfilter.backup.manifest import FILES, Copied
from streamfilter.backup.stores import (
    DirectoryStore,
    Store,
    StoreFull,
    StoreRefused,
    StoreUnreachable,
)
from streamfilter.backup.targets import store_at
from streamfilter.backup.upload import Stopped, Throttle, Uploaded
from streamfilter.cli import main
from streamfilter.index.directory.opening import read_identity
from streamfilter.index.errors import DiskFull, IndexFault
from streamfilter.index.rocks.rocks_index import RocksIndex
from streamfilter.killpoints import KILL_POINTS, VARIABLE
from tests.backup.servers import Handler, serving
from tests.index.damage.test_inspection import IDENTITY, changes, dump, inspected, opened
from tests.support.s3 import SECRET
from tests.support.session.forge import Forge

INDEX_ID = IDENTITY.index_id
STEPS = [each for each in KILL_POINTS if each.startswith("backup.")]
UPLOADING = STEPS[:5]
RESTORING = STEPS[5:]


@pytest.fixture
def index(tmp_path: Path) -> Iterator[RocksIndex]:
    index = opened(tmp_path / "state")
    for number in range(4):
        index.apply(changes(number))
    yield index
    index.close()


def target(tmp_path: Path, where: str, *, keep: int = 2) -> IndexTarget:
    return IndexTarget(where, tmp_path / "state", "index", False, 1.0, keep, 1 << 40)


def taken(tmp_path: Path, where: str, index: RocksIndex, **given: int) -> Uploaded:
    return target(tmp_path, where, **given).take(index, lambda: False)()


def advance(index: RocksIndex, batches: int = 1) -> None:
    for _ in range(batches):
        index.apply(changes(index.progress.next_batch))


def whole(store: Store) -> list[Copied]:
    return candidates(store, INDEX_ID).whole


@pytest.fixture
def no_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Delete files that no manifest names at once."""
    monkeypatch.setattr(uploading, "GRACE_SECONDS", -1.0)


@pytest.mark.parametrize("kind", ["file", pytest.param("s3", marks=pytest.mark.slow)])
def test_a_backup_sends_what_is_new_and_the_kept_ones_stay_whole(
    kind, index, tmp_path, request, no_grace
):
    where = f"file://{tmp_path}/backups"
    if kind == "s3":
        where = request.getfixturevalue("new_bucket")()
    first = taken(tmp_path, where, index)
    assert first.sent >= first.copied.bytes
    advance(index)
    second = taken(tmp_path, where, index)
    assert second.sent < second.copied.bytes
    store = store_at(where)
    assert [each.place for each in whole(store)] == [second.copied.place, first.copied.place]
    for _ in range(4):
        advance(index, 3)
        newest = taken(tmp_path, where, index).copied
        found = whole(store)
        assert len(found) == 2
        named = {total for each in found for _, total in each.sums.values()}
        assert set(store.listing(f"{INDEX_ID}/{FILES}")) == named
    restore(store, restorable(store), tmp_path / "again")
    assert newest.progress.next_batch == index.progress.next_batch
    found = list(index.dump())
    assert dump(tmp_path / "again") == found
    assert not (tmp_path / "state" / "rocksdb" / "checkpoint").exists()


@pytest.fixture(scope="module")
def ours() -> Iterator[Forge]:
    """Give what has imported this file, and runs code that uses it."""
    with Forge(__name__) as forge:
        yield forge


def killed(ours: Forge, at: Path, point: str, *code: str) -> int:
    """Run *code* in a process that kills itself at *point*; return its exit code."""
    body = "\n".join(["from tests.backup.test_trouble import *", f"at = Path({str(at)!r})", *code])
    environment = {**os.environ, VARIABLE: point}
    return ours.run(body, log=at / "killed.log", environment=environment).wait(120)


@pytest.mark.slow(20)
@pytest.mark.parametrize("point", UPLOADING)
def test_a_kill_at_any_step_leaves_whole_backups_only(ours, point, index, tmp_path, no_grace):
    where = f"file://{tmp_path}/backups"
    before = taken(tmp_path, where, index, keep=1).copied
    advance(index, 3)
    index.close()
    code = killed(
        ours,
        tmp_path,
        point,
        "uploading.GRACE_SECONDS = -1.0",
        "index = opened(at / 'state')",
        f"taken(at, {where!r}, index, keep=1)",
    )
    assert code == -9
    store = store_at(where)
    published = UPLOADING.index(point) >= UPLOADING.index("backup.published")
    found = whole(store)
    assert (found[0].place == before.place) is not published
    restore(store, restorable(store), tmp_path / "again")
    assert inspected(tmp_path / "again").problems == []
    # The next one goes on with what was uploaded, and clears what was left.
    again = opened(tmp_path / "state")
    uploaded = taken(tmp_path, where, again, keep=1)
    again.close()
    assert [each.place for each in whole(store)] == [uploaded.copied.place]
    named = {total for _, total in uploaded.copied.sums.values()}
    assert set(store.listing(f"{INDEX_ID}/{FILES}")) == named


@pytest.mark.slow(20)
@pytest.mark.parametrize("point", RESTORING)
def test_a_kill_at_any_step_of_a_restore_leaves_no_half_of_an_index(ours, point, index, tmp_path):
    where = f"file://{tmp_path}/backups"
    taken(tmp_path, where, index)
    wanted = list(index.dump())
    store = f"store = store_at({where!r})"
    code = killed(ours, tmp_path, point, store, "fetch(store, whole(store)[0], at / 'again')")
    assert code == -9
    assert read_identity(tmp_path / "again") is None
    store = store_at(where)
    fetch(store, whole(store)[0], tmp_path / "again")
    assert dump(tmp_path / "again") == wanted


def test_a_file_that_another_process_prunes_before_the_manifest_is_out_is_sent_again(
    index, tmp_path, monkeypatch
):
    """A zombie that wakes up in the middle of its pruning deletes what no manifest named then."""
    where = f"file://{tmp_path}/backups"
    store, deleted = store_at(where), list[str]()
    put = DirectoryStore.put

    def pruned_first(self: DirectoryStore, name: str, blocks: Iterable[bytes]) -> None:
        if name.endswith(".json"):
            deleted[:] = list(self.listing(f"{INDEX_ID}/{FILES}"))[:3]
            for each in deleted:
                self.delete(f"{INDEX_ID}/{FILES}/{each}")
        put(self, name, blocks)

    monkeypatch.setattr(DirectoryStore, "put", pruned_first)
    copied = taken(tmp_path, where, index).copied
    assert len(deleted) == 3
    assert [each.place for each in whole(store)] == [copied.place]


@pytest.mark.slow
def test_two_owners_leave_whole_backups_and_the_later_one_is_taken(index, tmp_path, no_grace):
    where, stop = f"file://{tmp_path}/backups", threading.Event()
    taken(tmp_path, where, index)
    index.close()
    shutil.copytree(tmp_path / "state", tmp_path / "zombie" / "state")
    errors = list[BaseException]()

    def zombie() -> None:
        held = opened(tmp_path / "zombie" / "state")
        try:
            while not stop.is_set():
                taken(tmp_path / "zombie", where, held)
        except BaseException as error:
            errors.append(error)
        finally:
            held.close()

    beside = threading.Thread(target=zombie)
    beside.start()
    owner = opened(tmp_path / "state")
    try:
        for _ in range(6):
            advance(owner)
            with_trouble(lambda: taken(tmp_path, where, owner))
            for each in whole(store_at(where))[:1]:
                assert each.progress.next_batch >= 4
    finally:
        stop.set()
        beside.join()
        owner.close()
    assert all(isinstance(each, IndexFault) for each in errors)
    owner = opened(tmp_path / "state")
    last = taken(tmp_path, where, owner).copied
    owner.close()
    store = store_at(where)
    assert whole(store)[0].place == last.place
    restore(store, restorable(store), tmp_path / "again")
    assert inspected(tmp_path / "again").problems == []


def with_trouble(call: Callable[[], object]) -> None:
    """Without a grace, two owners may delete each other's files: a failure, never a half."""
    with suppress(IndexFault):
        call()


def test_a_newer_versions_manifest_keeps_all_files(index, tmp_path, no_grace):
    where = f"file://{tmp_path}/backups"
    first = taken(tmp_path, where, index, keep=1).copied
    place = tmp_path / "backups" / first.place
    newer = json.loads(place.read_text()) | {"version": 3}
    place.write_text(json.dumps(newer))
    advance(index, 3)
    uploaded = taken(tmp_path, where, index, keep=1)
    assert "has version 3, which this version cannot read" in uploaded.notes[0]
    there = store_at(where).listing(f"{INDEX_ID}/{FILES}")
    assert {total for _, total in first.sums.values()} <= set(there)


class Breaking:
    """A store whose uploads fail after some bytes."""

    def __init__(self, inner: Store, fails: Callable[[str], IndexFault]) -> None:
        self.inner, self.fails, self.left = inner, fails, 3
        self.listing, self.get, self.delete = inner.listing, inner.get, inner.delete
        self.where = inner.where

    def put(self, name: str, blocks: Iterable[bytes]) -> None:
        def broken() -> Iterator[bytes]:
            for block in blocks:
                self.left -= 1
                if self.left == 0:
                    raise self.fails(name)
                yield block

        self.inner.put(name, broken())


@pytest.mark.parametrize("kind", ["file", pytest.param("s3", marks=pytest.mark.slow)])
def test_an_upload_that_breaks_off_leaves_no_object(kind, tmp_path, request):
    """Also not when the garbage collector closes what was not finished."""
    where = f"file://{tmp_path}/backups"
    if kind == "s3":
        where = request.getfixturevalue("new_bucket")()
    store = Breaking(store_at(where), StoreUnreachable)
    with pytest.raises(StoreUnreachable):
        store.put("half", [b"a" * (6 << 20)] * 4)
    assert store.listing("") == {}
    store.put("whole", [b"b" * (9 << 20)] * 2)
    assert store.listing("")["whole"].size == 18 << 20
    assert sum(map(len, store.get("whole"))) == 18 << 20


def test_wrong_credentials_a_missing_bucket_and_no_server_are_named_without_secrets(
    new_bucket, monkeypatch, tmp_path
):
    bucket = new_bucket() + "/no-space/full-quota/507"  # words of a name say nothing
    with pytest.raises(StoreRefused, match="create the bucket"):
        store_at("s3://there-is-no-such-bucket").listing("")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{free.getsockname()[1]}")
        with pytest.raises(StoreUnreachable) as error:
            store_at(bucket).listing("")
        with pytest.raises(StoreUnreachable, match=re.escape(f"{bucket}/a:")):
            store_at(bucket).delete("a")
    assert SECRET not in str(error.value)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", os.devnull)
    with pytest.raises(StoreRefused, match="AWS_ACCESS_KEY_ID"):
        store_at(bucket).put("a", [b"a"])


@pytest.mark.parametrize(
    ("code", "status", "fault"),
    [("ExpiredToken", 400, StoreRefused), ("XMinioStorageFull", 500, StoreFull),
     ("Strange", 507, StoreFull), ("Strange", 418, StoreUnreachable)],
)  # fmt: skip
def test_what_a_store_answers_in_the_middle_of_an_upload_is_told_by_its_kind(
    code, status, fault, index, tmp_path, new_bucket, monkeypatch
):
    """The server answers two uploads, then refuses every further one in S3's own words."""
    where, upstream = new_bucket(), os.environ["AWS_ENDPOINT_URL"]
    with serving(refusing(upstream, code, status)) as address:
        monkeypatch.setenv("AWS_ENDPOINT_URL", address)
        with pytest.raises(fault) as error:
            taken(tmp_path, where, index)
    assert SECRET not in str(error.value)
    monkeypatch.setenv("AWS_ENDPOINT_URL", upstream)
    assert whole(store_at(where)) == []
    again = taken(tmp_path, where, index)  # what was uploaded is not uploaded again
    assert again.sent < again.copied.bytes
    assert [each.place for each in whole(store_at(where))] == [again.copied.place]


def refusing(upstream: str, code: str, status: int, *, after: int = 8) -> type[Handler]:
    """Return a proxy before the server that refuses all PUT requests but the first ones."""
    from urllib.error import HTTPError
    from urllib.request import Request, urlopen

    class Proxy(Handler):
        seen = 0

        def answer(self) -> None:
            body = self.body() or None
            if self.command in ("PUT", "POST"):
                Proxy.seen += 1
                if Proxy.seen > after:
                    text = f"<Error><Code>{code}</Code><Message>{code} {SECRET}</Message></Error>"
                    self.reply(status, {"Content-Type": "application/xml"}, text.encode())
                    return
            kept = {k: v for k, v in self.headers.items() if k.lower() not in ("expect",)}
            kept.setdefault("Content-Type", "application/octet-stream")
            asked = Request(upstream + self.path, data=body, method=self.command, headers=kept)
            try:
                with urlopen(asked, timeout=30) as answer:
                    self.reply(answer.status, dict(answer.headers), answer.read())
            except HTTPError as error:
                self.reply(error.code, dict(error.headers), error.read())

    return Proxy


def test_a_full_disk_while_restoring_leaves_nothing_and_names_the_cure(index, tmp_path, capsys):
    where = f"file://{tmp_path}/backups"
    copied = taken(tmp_path, where, index).copied
    store = store_at(where)

    def full(name: str) -> IndexFault:
        return DiskFull("no space left on device")

    class Full(DirectoryStore):
        def get(self, name: str) -> Iterator[bytes]:
            if name.endswith(".json"):
                yield from store.get(name)
                return
            raise OSError(28, "No space left on device")

    with pytest.raises(DiskFull, match="free some space"):
        fetch(Full(tmp_path / "backups"), copied, tmp_path / "again")
    assert [each.name for each in (tmp_path / "again").iterdir()] == ["lock"]
    restore(store, restorable(store), tmp_path / "again")
    assert inspected(tmp_path / "again").problems == []


def test_a_stopped_process_leaves_no_backup_and_the_next_open_removes_its_checkpoint(
    index, tmp_path
):
    where = f"file://{tmp_path}/backups"
    call = target(tmp_path, where).take(index, lambda: True)
    assert (tmp_path / "state" / "rocksdb" / "checkpoint").is_dir()
    with pytest.raises(Stopped):
        call()
    assert restorable_or_none(store_at(where)) == []
    target(tmp_path, where).take(index, lambda: True)
    index.close()  # as a stop and a kill leave it
    again = opened(tmp_path / "state")
    assert not (tmp_path / "state" / "rocksdb" / "checkpoint").exists()
    again.close()


def restorable_or_none(store: Store) -> list[Copied]:
    try:
        return restorable(store)
    except IndexFault:
        return []


def test_an_upload_keeps_to_its_rate(monkeypatch):
    """By a clock of its own: ten blocks of a megabyte at two a second take at least four."""
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(time, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))
    blocks = list(Throttle(rate=2 << 20).paced([bytes(1 << 20)] * 10))
    assert len(blocks) == 10
    assert 4.0 <= now[0] <= 5.5


def test_a_restore_waits_for_no_rate_of_uploads(index, tmp_path, monkeypatch):
    where = f"file://{tmp_path}/backups"
    taken(tmp_path, where, index)
    target = IndexTarget(where, tmp_path / "again", "index", True, 3600.0, 3, rate=1 << 16)
    monkeypatch.setattr(time, "sleep", lambda seconds: pytest.fail(f"{seconds} s"))
    target.fetch(whole(store_at(where))[0], lambda _: None, lambda: False)
    assert dump(tmp_path / "again") == list(index.dump())


def test_s3_without_its_extra_says_what_to_install(monkeypatch, tmp_path, capsys):
    monkeypatch.setitem(sys.modules, "s3fs", None)
    assert main(["backup", "--state", str(tmp_path), "--to", "s3://bucket/x"]) == 64
    assert "pip install 'streamfilter[s3]'" in capsys.readouterr().err


def test_check_names_a_target_that_cannot_be_used_and_leaves_nothing_in_one_that_can(
    tmp_path, new_bucket, capsys, monkeypatch, no_settings
):
    def checked(target: str) -> tuple[int, str]:
        code = main(["check", "--set", f"index.backup.target={target}", "--set",
                     "kafka.start_timeout=100ms", "--connect"])  # fmt: skip
        return code, capsys.readouterr().out

    good, bucket = f"file://{tmp_path}/good", f"{new_bucket()}/prefix"
    for target in (good, bucket):
        _, said = checked(target)
        assert "index.backup" not in said
        assert store_at(target).listing("") == {}
    (tmp_path / "file").touch()
    for target, why in (
        (f"file://{tmp_path}/file", "make it a directory"),
        ("s3://there-is-no-such-bucket", "create the bucket"),
        ("s3://KEY:SECRET/of@bucket/x", "expected no credentials in it"),
        ("ftp://host/x", "expected s3://BUCKET/PREFIX or file:///DIRECTORY"),
        ("s3://bucket/../other", "expected s3://BUCKET/PREFIX or file:///DIRECTORY"),
    ):
        code, said = checked(target)
        assert code == 78
        assert why in said
        assert "SECRET" not in said
    assert main(["backup", "--state", str(tmp_path), "--to", "s3://KEY:SECRET/of@bucket"]) == 78
    assert "SECRET" not in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "s3fs", None)
    assert "pip install 'streamfilter[s3]'" in checked(bucket)[1]
