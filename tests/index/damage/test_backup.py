"""A copy of an index in use is one moment of it; verify tells whole from damaged."""

import json
import random
import shutil
import threading
from pathlib import Path

import numpy as np
import pytest

from streamfilter.cli import main
from streamfilter.index.bands.buckets import encoded_integers
from streamfilter.index.directory.backup import back_up, restore
from streamfilter.index.directory.backup_manifest import CONTENTS_NAME
from streamfilter.index.directory.identity import Identity
from streamfilter.index.directory.inspection import Inspection, inspect
from streamfilter.index.directory.lock_and_marker import DATABASE_NAME, check_ours
from streamfilter.index.directory.opening import open_index, wipe_index
from streamfilter.index.directory.read_only_view import viewed
from streamfilter.index.errors import DiskFull, IndexDamaged, IndexFault, IndexRefused
from streamfilter.index.format import FORMAT, Entries
from streamfilter.index.progress import Progress
from streamfilter.index.protocol import Additions, Changes, Documents
from streamfilter.index.rocks.column_families import Families
from streamfilter.index.rocks.database import Database
from streamfilter.index.rocks.options import MIB, Memory
from streamfilter.index.rocks.rocks_index import RocksIndex
from streamfilter.model import BatchMark, Span
from streamfilter.similarity.scheme import Scheme
from streamfilter.similarity.sketch import Sketcher
from streamfilter.similarity.text.normalisation import UNICODE_VERSION
from tests.index.samples import settle

SCHEME, SECRET = Scheme(bands=16, rows=6), bytes(range(16))
SKETCHER = Sketcher(SCHEME, seed=SECRET)
IDENTITY = Identity(
    "0a" * 16, FORMAT, SCHEME.fingerprint, SCHEME.as_json(), SECRET, 0, UNICODE_VERSION
)
SMALL = Memory(cache_bytes=4 * MIB, memtable_bytes=4 * MIB, front_bytes=0)
SIZE, BATCHES_OF_ALL = 50, 40
NAMES = Families.of(0)


def changes(number: int) -> Changes:
    """Return batch *number*: some documents again and again the same, for fuller buckets."""
    rng, first = random.Random(number), number * SIZE
    words = [f"w{n}" for n in range(400)]
    texts = [" ".join(rng.choices(words, k=40)) for _ in range(SIZE - 10)]
    texts += ["the very same text in every batch"] * 10
    drawn = SKETCHER.sketch(texts)
    documents = Documents(
        ordinals=np.arange(first, first + SIZE, dtype=np.int64),
        ids=[f"d{first + n}" for n in range(SIZE)],
        batches=np.full(SIZE, number, np.int64),
        partitions=np.zeros(SIZE, np.int64),
        offsets=np.arange(first, first + SIZE, dtype=np.int64),
        timestamps=np.zeros(SIZE, np.int64),
        contents=drawn.contents,
    )
    end = first + SIZE
    progress = Progress(number * 60, b"h" * 16, {0: end}, number + 1, end, 5)
    mark = BatchMark(number, first, end, (Span(0, first, end),))
    return Changes(progress, Additions(documents, drawn.keys), (mark,))


def opened(path: Path) -> RocksIndex:
    return open_index(path, IDENTITY, memory=SMALL)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index of some table files, closed."""
    path = tmp_path_factory.mktemp("original") / "state"
    settle(opened(path), changes, BATCHES_OF_ALL)
    return path


def inspected(path: Path) -> Inspection:
    with viewed(path) as view:
        return inspect(view, SKETCHER.keys_of)


def dump(path: Path) -> list[tuple[str, bytes, bytes]]:
    index = opened(path)
    try:
        return list(index.dump())
    finally:
        index.close()


def as_of(batches: int, path: Path) -> list[tuple[str, bytes, bytes]]:
    """Return what an index holds that never saw more than *batches*."""
    index = opened(path)
    try:
        for number in range(batches):
            index.apply(changes(number))
        return list(index.dump())
    finally:
        index.close()


def test_a_whole_index_is_found_whole_and_counted(state: Path) -> None:
    found = inspected(state)
    assert found.problems == []
    assert found.documents == SIZE * BATCHES_OF_ALL
    assert found.batches == BATCHES_OF_ALL
    assert found.buckets > found.documents


def test_a_copy_of_an_index_that_is_written_meanwhile_is_one_moment_of_it(tmp_path: Path) -> None:
    index, stop = opened(tmp_path / "state"), threading.Event()
    for number in range(5):
        index.apply(changes(number))

    def write() -> None:
        for number in range(5, 1_000):
            if stop.is_set():
                return
            index.apply(changes(number))

    writer = threading.Thread(target=write)
    writer.start()
    try:
        (copied,) = back_up(tmp_path / "state", tmp_path / "backup")
    finally:
        stop.set()
        writer.join()
    assert index.progress.next_batch > copied.progress.next_batch >= 5
    index.close()
    restore(tmp_path / "backup", tmp_path / "again")
    assert inspected(tmp_path / "again").problems == []
    assert dump(tmp_path / "again") == as_of(copied.progress.next_batch, tmp_path / "model")


def test_a_restored_index_goes_on_where_the_copy_was_made(state: Path, tmp_path: Path) -> None:
    back_up(state, tmp_path / "backup")
    restore(tmp_path / "backup", tmp_path / "again")
    assert dump(tmp_path / "again") == dump(state)
    index = opened(tmp_path / "again")
    index.apply(changes(BATCHES_OF_ALL))
    index.close()
    assert inspected(tmp_path / "again").documents == SIZE * (BATCHES_OF_ALL + 1)


def test_indexes_by_partition_keep_their_places(state: Path, tmp_path: Path) -> None:
    for number in (0, 3):
        shutil.copytree(state, tmp_path / "all" / f"partition-{number}")
    names = [copied.name for copied in back_up(tmp_path / "all", tmp_path / "backup")]
    assert names == ["partition-0", "partition-3"]
    restore(tmp_path / "backup", tmp_path / "again")
    assert dump(tmp_path / "again" / "partition-3") == dump(state)


@pytest.mark.parametrize("seed", range(6))
def test_a_backup_that_was_damaged_is_refused_and_leaves_no_index(state, tmp_path, seed):
    rng = random.Random(seed)
    back_up(state, tmp_path / "backup")
    table = rng.choice(sorted((tmp_path / "backup" / "index" / DATABASE_NAME).glob("*.sst")))
    data = bytearray(table.read_bytes())
    if seed % 3 == 0:
        table.unlink()
    elif seed % 3 == 1:
        table.write_bytes(data[: rng.randrange(len(data))])
    else:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        table.write_bytes(data)
    with pytest.raises(IndexDamaged):
        restore(tmp_path / "backup", tmp_path / "again")
    with pytest.raises(IndexRefused, match="there is no index"):
        inspected(tmp_path / "again")


def test_a_backup_that_was_not_finished_is_none(state: Path, tmp_path: Path) -> None:
    back_up(state, tmp_path / "backup")
    (tmp_path / "backup" / CONTENTS_NAME).unlink()
    with pytest.raises(IndexRefused, match="no finished backup"):
        restore(tmp_path / "backup", tmp_path / "again")


def test_nothing_is_written_over(state: Path, tmp_path: Path) -> None:
    back_up(state, tmp_path / "backup")
    for call in (lambda: back_up(state, tmp_path / "backup"),
                 lambda: restore(tmp_path / "backup", state)):  # fmt: skip
        with pytest.raises(IndexRefused, match="not empty"):
            call()


def test_a_copy_inside_of_the_index_or_the_other_way_round_is_refused(state, tmp_path):
    with pytest.raises(IndexRefused, match="which may hold nothing else"):
        back_up(state, state / "backups" / "today")
    check_ours(state)  # it holds nothing of another, for which the service would refuse it
    back_up(state, tmp_path / "copy")
    with pytest.raises(IndexRefused, match="the backup, which may hold nothing else"):
        restore(tmp_path / "copy", tmp_path / "copy" / "state")


def test_a_copy_of_a_damaged_index_is_refused(state: Path, tmp_path: Path) -> None:
    table = max((state / DATABASE_NAME).glob("*.sst"), key=lambda each: each.stat().st_size)
    table.write_bytes(table.read_bytes()[:-1_000])
    with pytest.raises(IndexFault):
        back_up(state, tmp_path / "backup")
    with pytest.raises(IndexRefused, match="no finished backup"):
        restore(tmp_path / "backup", tmp_path / "again")


@pytest.mark.parametrize("seed", range(12))
def test_a_flipped_byte_is_reported_or_changes_nothing(state, original, tmp_path, seed):
    rng = random.Random(seed)
    table = rng.choice(sorted((state / DATABASE_NAME).glob("*.sst")))
    data = bytearray(table.read_bytes())
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    table.write_bytes(data)
    try:
        problems = inspected(state).problems
    except IndexFault:
        return
    if not problems:
        assert dump(state) == dump(Path(shutil.copytree(original, tmp_path / "other")))


def test_a_broken_fact_is_reported_and_a_wipe_is_free_to_follow(state: Path) -> None:
    """The smallest tables hold the facts: no document or bucket is in them."""
    for table in sorted((state / DATABASE_NAME).glob("*.sst"), key=lambda t: t.stat().st_size)[:2]:
        data = bytearray(table.read_bytes())
        data[10] ^= 1
        table.write_bytes(data)
    with pytest.raises(IndexDamaged):
        opened(state)
    wipe_index(state)
    opened(state).close()


def broken(state: Path, family: str, key: bytes, value: bytes | None) -> list[str]:
    """Put (or delete) one entry behind the index's back; return what is reported."""
    store = Database(state / DATABASE_NAME, memory=SMALL, create=False)
    entries = Entries()
    if value is None:
        entries.delete(family, [key])
    else:
        entries.put(family, [key], [value])
    store.write(entries)
    store.close()
    return inspected(state).problems


def first_bucket(state: Path) -> tuple[bytes, bytes]:
    with viewed(state) as view:
        return next(iter(view.entries(NAMES.bands)))


def test_a_lost_document_is_said_by_count_and_by_every_bucket_that_lists_it(
    state: Path,
) -> None:
    problems = broken(state, NAMES.documents, encoded_integers(np.array([7]))[0], None)
    assert any("1,999" in each or "1999 can be read" in each for each in problems)
    assert any("lists document 7, which is not there" in each for each in problems)


def test_a_lost_bucket_is_reported_by_its_document(state: Path) -> None:
    key, _ = first_bucket(state)
    problems = broken(state, NAMES.bands, key, None)
    assert any("is not in the bucket of one of its keys" in each for each in problems)


def test_a_bucket_of_a_document_that_never_was_is_reported(state: Path) -> None:
    key, value = first_bucket(state)
    problems = broken(state, NAMES.bands, key, value[:5] + (1 << 30).to_bytes(5, "little"))
    assert any(f"lists document {1 << 30}, which is not there" in each for each in problems)


def test_a_broken_batch_mark_is_reported(state: Path) -> None:
    problems = broken(state, NAMES.batches, (3).to_bytes(8, "big"), b"garbage")
    assert any("batches: a batch's mark cannot be read" in each for each in problems)


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, object]]:
    code = main([*arguments, "-o", "json"])
    return code, json.loads(capsys.readouterr().out)


def test_the_verbs_copy_bring_back_and_tell_by_their_exit_code(state, tmp_path, capsys):
    backup, again = str(tmp_path / "backup"), str(tmp_path / "again")
    assert told(capsys, "backup", "--state", str(state), backup)[0] == 0
    assert told(capsys, "restore", backup, "--state", again)[0] == 0
    code, answer = told(capsys, "verify", "--state", again)
    documents = answer["indexes"][0]["documents"]
    assert (code, answer["whole"], documents) == (0, True, SIZE * BATCHES_OF_ALL)
    assert told(capsys, "verify", "--state", backup)[0] == 0
    (tmp_path / "again" / DATABASE_NAME / "CURRENT").unlink()
    code, answer = told(capsys, "verify", "--state", again)
    assert (code, answer["whole"]) == (1, False)
    (tmp_path / "again" / "index.json").unlink()
    assert told(capsys, "verify", "--state", again)[0] == 1
    assert main(["verify", "--state", str(tmp_path)]) == 78


def test_a_backup_without_space_says_so_and_is_none(state, tmp_path, monkeypatch):
    def full(self: Database) -> None:
        raise DiskFull("no space left")

    monkeypatch.setattr(Database, "flush", full)
    assert main(["backup", "--state", str(state), str(tmp_path / "backup")]) == 75
    assert not (tmp_path / "backup" / CONTENTS_NAME).exists()
