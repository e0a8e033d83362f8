import errno
import json
import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from streamfilter import Deduplicator
from streamfilter.index.directory import opening
from streamfilter.index.directory.lock_and_marker import (
    DATABASE_NAME,
    MARKER_NAME,
    Lock,
    Marker,
    check_ours,
    write_marker,
)
from streamfilter.index.directory.opening import open_index, read_identity, wipe_index
from streamfilter.index.directory.read_only_view import viewed
from streamfilter.index.errors import (
    DiskFull,
    IndexDamaged,
    IndexFault,
    IndexLocked,
    IndexMismatch,
    IndexRefused,
    IndexRemoved,
    IndexUnavailable,
    file_errors,
    rocks_errors,
)
from streamfilter.index.format import names_of
from streamfilter.index.progress import Progress
from tests.index.conftest import SMALL
from tests.index.samples import SCHEME, add, buckets_of, documents, identity, keys_of
from tests.support.machine.disk import small_file_system

ROOT = Path(__file__).parents[2]
HOLD = """
import sys
from pathlib import Path
from streamfilter.index.directory.opening import open_index
from tests.index.conftest import SMALL
from tests.index.samples import identity
index = open_index(Path(sys.argv[1]), identity(), memory=SMALL)
print("open", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A directory with an index of one document, closed."""
    path = tmp_path / "state"
    index = open_index(path, identity(), memory=SMALL)
    add(index, [0], keys_of([[1, 2, 3, 4]]))
    index.close()
    return path


def test_a_missing_directory_becomes_a_new_index_of_ours_alone(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "state"
    assert read_identity(path) is None
    with_nothing = open_index(path, identity(), memory=SMALL)
    assert with_nothing.progress == Progress()
    assert path.stat().st_mode & 0o777 == 0o700
    assert (path / MARKER_NAME).stat().st_mode & 0o777 == 0o600
    with_nothing.close()
    assert read_identity(path) == identity()


def test_an_index_is_what_it_was_when_opened_again(state: Path) -> None:
    index = open_index(state, identity(), memory=SMALL)
    assert len(index) == 1
    assert index.progress.next_ordinal == 1
    assert buckets_of(index, [4]) == [[0]]
    index.close()
    index.close()


def test_an_emptied_directory_is_a_new_index(state: Path) -> None:
    subprocess.run(["find", str(state), "-mindepth", "1", "-delete"], check=True)
    assert read_identity(state) is None
    index = open_index(state, identity(), memory=SMALL)
    assert index.progress == Progress()
    index.close()


def test_a_directory_with_wide_permissions_is_narrowed(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir(mode=0o755)
    open_index(tmp_path / "state", identity(), memory=SMALL).close()
    assert (tmp_path / "state").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"scheme": SCHEME.replace("16", "32")}, "scheme.slots: it has 16, wanted is 32"),
        ({"index_id": "ee" * 16}, "index_id: it has 0f0f"),
        ({"seed": b"another of 16 by"}, "seed: they differ"),
    ],
)
def test_an_index_of_another_kind_is_refused_with_the_ways_out(state, changed, named):
    with pytest.raises(IndexMismatch) as refused:
        open_index(state, identity(**changed), memory=SMALL)
    message = str(refused.value)
    assert named in message
    for word in (str(state), "rebuild", "new generation", "reset"):
        assert word in message
    assert refused.value.differences == (named.split(":")[0],)
    open_index(state, identity(), memory=SMALL).close()


def test_another_bucket_cap_is_refused_because_it_shaped_the_buckets(state: Path) -> None:
    with pytest.raises(IndexMismatch, match=r"index\.bucket_cap: it has 8, wanted is 4"):
        open_index(state, identity(), bucket_cap=4, memory=SMALL)
    with pytest.raises(ValueError, match="1 to 255"):
        open_index(state, identity(), bucket_cap=256, memory=SMALL)


def test_an_index_without_ids_is_refused_where_they_are_wanted(state: Path, tmp_path: Path) -> None:
    with pytest.raises(IndexMismatch) as refused:
        open_index(state, identity(), memory=SMALL, ids=True)
    assert refused.value.differences == ("ids",)
    for word in (str(state), "input.tombstones: forget", "rebuild", "new generation", "reset"):
        assert word in str(refused.value)
    with_ids = open_index(tmp_path / "other", identity(), memory=SMALL, ids=True)
    add(with_ids, [0], keys_of([[1, 2, 3, 4]]))
    with_ids.close()
    again = open_index(tmp_path / "other", identity(), memory=SMALL)  # it keeps what it has
    add(again, [1], keys_of([[1, 2, 3, 4]]))
    assert [
        each.tolist() for each in again.named([each for (each,) in names_of(documents([0, 1]))], 9)
    ] == [[0], [1]]
    again.close()


def test_ids_that_an_older_version_knew_in_all_scopes_are_refused(tmp_path: Path) -> None:
    scheme = json.dumps({**json.loads(SCHEME), "digests": ["scope /tenant"]})
    scoped, state = identity(scheme=scheme), tmp_path / "state"
    open_index(state, scoped, memory=SMALL, ids=True).close()
    open_index(state, scoped, memory=SMALL, ids=True).close()
    with viewed(state) as view:
        assert view.ids
    marker = state / MARKER_NAME
    marker.write_text(marker.read_text().replace('"in scopes"', "true"))
    with pytest.raises(IndexMismatch, match="not in their scopes"):
        open_index(state, scoped, memory=SMALL, ids=True)
    with (
        pytest.raises(IndexMismatch, match="finds documents by id without their scopes"),
        viewed(state),
    ):
        pass
    with pytest.raises(IndexDamaged, match="finds documents by id without their scopes"):
        open_index(state, scoped, memory=SMALL)


def test_ids_that_another_version_dropped_are_missed_loudly(tmp_path: Path) -> None:
    """One from before ids drops what belongs to no family that it knows."""
    state = tmp_path / "state"
    index = open_index(state, identity(), memory=SMALL, ids=True)
    index._store._drop("ids-0")
    index.close()
    with pytest.raises(IndexDamaged, match="what finds documents by their ids is missing"):
        open_index(state, identity(), memory=SMALL, ids=True)


def test_a_view_of_a_database_whose_files_are_all_cut_is_refused(tmp_path: Path) -> None:
    """To RocksDB's secondary, that is an empty database."""
    state = tmp_path / "state"
    open_index(state, identity(), memory=SMALL).close()
    with viewed(state) as view:
        assert not len(view)
    for file in (state / DATABASE_NAME).iterdir():
        if file.suffix in (".sst", ".log"):
            file.write_bytes(file.read_bytes()[:50])
    with pytest.raises(IndexDamaged, match="damaged"), viewed(state):
        pass


def test_a_seed_from_a_file_is_nowhere_in_the_directory(tmp_path: Path) -> None:
    secret, path = identity(external_seed=True), tmp_path / "state"
    index = open_index(path, secret, memory=SMALL)
    add(index, [0], keys_of([[1, 2, 3, 4]]))
    index.close()
    held = b"".join(file.read_bytes() for file in path.rglob("*") if file.is_file())
    assert secret.index_id.encode() in held
    assert secret.seed not in held
    assert secret.seed.hex().encode() not in held
    assert read_identity(path, seed=secret.seed) == secret
    with pytest.raises(IndexMismatch, match="seed_file"):
        read_identity(path)
    open_index(path, secret, memory=SMALL).close()


def test_a_second_process_learns_who_has_the_index(state: Path) -> None:
    code = [sys.executable, "-c", HOLD, str(state)]
    with subprocess.Popen(code, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"open\n"
        for attempt in (
            lambda: open_index(state, identity(), memory=SMALL),
            lambda: wipe_index(state),
        ):
            with pytest.raises(IndexLocked, match=rf"process {holder.pid} has this index open"):
                attempt()
        holder.kill()
    index = open_index(state, identity(), memory=SMALL)
    assert len(index) == 1
    open_files = len(os.listdir("/dev/fd"))
    with pytest.raises(IndexLocked, match=str(state)):
        open_index(state, identity(), memory=SMALL)
    assert len(os.listdir("/dev/fd")) == open_files
    index.close()


def test_a_lock_is_given_back_although_a_forked_child_has_the_file_open(tmp_path: Path) -> None:
    lock = Lock(tmp_path)
    ours, childs = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(childs)
            os.read(ours, 1)  # until the parent closes its end
        finally:
            os._exit(0)
    try:
        lock.release()
        Lock(tmp_path).release()
    finally:
        os.close(childs)
        os.waitpid(child, 0)
        os.close(ours)


def test_a_forked_child_that_releases_the_lock_does_not_take_it_from_its_parent(tmp_path):
    lock = Lock(tmp_path)
    child = os.fork()
    if child == 0:
        try:
            lock.release()
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    with pytest.raises(IndexLocked):
        Lock(tmp_path)
    lock.release()
    Lock(tmp_path).release()


def test_a_symbolic_link_is_refused_and_what_it_leads_to_untouched(state, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(state)
    for attempt in (lambda: open_index(link, identity()), lambda: wipe_index(link)):
        with pytest.raises(IndexRefused, match="symbolic link"):
            attempt()
    assert read_identity(state) == identity()


def test_a_link_inside_the_directory_is_refused(state: Path, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    (state / "rocksdb").rename(precious)
    (state / "rocksdb").symlink_to(precious)
    for attempt in (lambda: open_index(state, identity()), lambda: wipe_index(state)):
        with pytest.raises(IndexRefused, match="rocksdb"):
            attempt()
    assert (precious / "CURRENT").exists()


def test_a_directory_with_other_files_is_refused_and_never_wiped(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    for attempt in (
        lambda: open_index(tmp_path, identity()),
        lambda: wipe_index(tmp_path),
        lambda: read_identity(tmp_path),
    ):
        with pytest.raises(IndexRefused, match=r"thesis\.txt"):
            attempt()
    assert [entry.name for entry in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_path_that_is_a_file_or_cannot_be_made_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(IndexRefused, match="no directory"):
        open_index(file, identity())
    with pytest.raises(IndexRefused, match=r"cannot be used: .*Not a directory"):
        open_index(file / "below", identity())


def test_another_users_directory_is_refused(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a directory away")
    (tmp_path / "theirs").mkdir()
    os.chown(tmp_path / "theirs", 12_345, -1)
    with pytest.raises(IndexRefused, match="belongs to user 12345"):
        open_index(tmp_path / "theirs", identity())


def test_an_index_that_was_being_made_at_a_crash_is_made_again(tmp_path: Path) -> None:
    path = tmp_path / "state"
    path.mkdir()
    write_marker(path, Marker(identity().encode(), 8, complete=False))
    (path / "rocksdb").mkdir()
    (path / "rocksdb" / "CURRENT").write_text("half of a da")
    assert read_identity(path) is None
    index = open_index(path, identity(), memory=SMALL)
    assert len(index) == 0
    index.close()


def test_a_wiped_index_is_gone_and_can_be_made_again(state: Path) -> None:
    wipe_index(state)
    assert sorted(entry.name for entry in state.iterdir()) == ["lock"]
    assert read_identity(state) is None
    index = open_index(state, identity(), memory=SMALL)
    assert len(index) == 0
    index.close()
    wipe_index(state / "never was")


@pytest.mark.parametrize("lost", [MARKER_NAME, "rocksdb"])
def test_half_an_index_is_damaged_not_new(state: Path, lost: str) -> None:
    (state / lost).rename(state.parent / "lost")
    with pytest.raises(IndexDamaged):
        open_index(state, identity(), memory=SMALL)
    wipe_index(state)
    open_index(state, identity(), memory=SMALL).close()


@pytest.mark.parametrize(
    "content", ["", "{", '{"identity": 3}', '{"identity": 3, "bucket_cap": 8}']
)
def test_a_broken_marker_is_damage(state: Path, content: str) -> None:
    (state / MARKER_NAME).write_text(content)
    with pytest.raises(IndexDamaged, match="marker"):
        open_index(state, identity(), memory=SMALL)


def test_a_database_of_another_index_under_our_marker_is_damage(state: Path) -> None:
    other = state.parent / "other"
    open_index(other, identity(index_id="ee" * 16), memory=SMALL).close()
    (state / "rocksdb").rename(state.parent / "aside")
    (other / "rocksdb").rename(state / "rocksdb")
    with pytest.raises(IndexDamaged, match="another index"):
        open_index(state, identity(), memory=SMALL)
    wipe_index(state)


def test_a_want_of_file_descriptors_is_no_damage(state: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    refusals = []
    highest = max(map(int, os.listdir("/proc/self/fd")))  # other tests' clients are open still
    for limit in range(3, highest + 40):
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, before[1]))
        try:
            open_index(state, identity(), memory=SMALL).close()
            break
        except IndexUnavailable as refused:
            refusals.append(str(refused))
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert any("rocksdb: Too many open files" in text for text in refusals)
    assert all("Too many open files" in text for text in refusals)
    index = open_index(state, identity(), memory=SMALL)
    assert len(index) == 1
    index.close()


@pytest.mark.parametrize(
    ("text", "fault"),
    [("Too many open files (os error 24)", IndexUnavailable),
     ("No space left on device (os error 28)", DiskFull)],
)  # fmt: skip
def test_an_error_of_rocksdicts_own_file_has_its_number_in_its_text_alone(
    text: str, fault: type[IndexFault], tmp_path: Path
) -> None:
    """It was a refusal, which ends a process for good."""
    with pytest.raises(fault), file_errors(tmp_path), rocks_errors(tmp_path):
        raise OSError(text)
    with pytest.raises(PermissionError), rocks_errors(tmp_path):
        raise PermissionError(errno.EACCES, "ours")


def test_an_open_index_tells_its_size_and_rocksdbs_own_figures(state: Path) -> None:
    index = open_index(state, identity(), memory=SMALL)
    usage = index.usage()
    assert usage.properties["estimate_num_keys"] >= 5
    assert usage.properties["background_errors"] == usage.properties["is_write_stopped"] == 0
    assert 1_000 < usage.index < 1_000_000
    assert usage.free > 0
    index.close()


def test_a_write_into_a_directory_that_is_gone_says_so_before_anybody_looks(state: Path) -> None:
    """It was damage, and the second one in a process's life ended it with 78."""
    index = open_index(state, identity(), memory=SMALL)
    while state.exists():
        shutil.rmtree(state, ignore_errors=True)  # RocksDB removes a log of before by itself

    def write_on() -> None:
        for number in range(1, 1_000):
            ordinals = range(number * 1_000, number * 1_000 + 1_000)
            rows = [[n * 4 + column for column in range(4)] for n in ordinals]
            add(index, ordinals, keys_of(rows), next_batch=number + 1)

    with pytest.raises(IndexRemoved, match="was removed while it was open"):
        write_on()
    index.close()
    wipe_index(state)
    open_index(state, identity(), memory=SMALL).close()


@pytest.mark.parametrize("name", ["claim", "write_marker", "read_marker"])
def test_a_directory_that_is_removed_while_it_is_opened_is_no_refusal(tmp_path, monkeypatch, name):
    path = tmp_path / "state"
    real = getattr(opening, name)

    def then_removed(where: Path, *rest: object) -> object:
        if name == "write_marker":
            shutil.rmtree(path)
        answer = real(where, *rest)
        if name == "claim":
            shutil.rmtree(path)
        elif name == "read_marker":
            raise FileNotFoundError(2, "No such file or directory", str(path))
        return answer

    monkeypatch.setattr(opening, name, then_removed)
    with pytest.raises(IndexRemoved):
        open_index(path, identity(), memory=SMALL)
    monkeypatch.undo()
    wipe_index(path)
    open_index(path, identity(), memory=SMALL).close()


@pytest.mark.parametrize("temporary", [True, False])
def test_only_an_index_that_is_opened_again_has_a_log(tmp_path: Path, temporary: bool) -> None:
    path = tmp_path / "state"
    index = open_index(path, identity(), memory=SMALL, temporary=temporary)
    add(index, [0], keys_of([[1, 2, 3, 4]]))
    logged = sum(each.stat().st_size for each in (path / DATABASE_NAME).glob("*.log"))
    assert (logged == 0) is temporary
    assert buckets_of(index, [1, 2, 3, 4]) == [[0]] * 4
    index.close()


def test_an_index_on_a_read_only_file_system_is_looked_into_and_nothing_there_is_written(tmp_path):
    with small_file_system(tmp_path / "snapshot", mib=16) as disk:
        with Deduplicator(disk / "state") as stories:
            stories.add("a", "the old mill by the river was sold to a young family on monday")
        before = {each: each.stat().st_mtime_ns for each in disk.rglob("*")}
        remount = ["mount", "-o", "remount,ro", str(disk)]
        subprocess.run(remount, check=True)
        with viewed(disk / "state") as view:
            assert [name for found in view.scan() for name in found.ids] == ["a"]
            assert len(view) == 1
        assert {each: each.stat().st_mtime_ns for each in disk.rglob("*")} == before
        with pytest.raises(IndexRefused, match="Read-only file system"):
            Deduplicator.open(disk / "state")


def test_a_directory_of_indexes_for_each_partition_is_named_as_that(tmp_path: Path) -> None:
    """After a change of index.scope and back, it said that no index of ours had written it."""
    (tmp_path / "partition-0").mkdir()
    with pytest.raises(IndexRefused, match=r"partition-0', an index of index\.scope: partition"):
        check_ours(tmp_path)
