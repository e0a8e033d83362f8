"""Broken files under the index: it is refused, or an older prefix is reported by its progress.

Never may a read return something else than what was written.
"""

import random
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from streamfilter.index.directory.opening import open_index, wipe_index
from streamfilter.index.errors import DiskFull, IndexDamaged, IndexFault
from streamfilter.index.protocol import Index
from streamfilter.similarity.columns import Widths
from tests.index.conftest import SMALL
from tests.index.damage.test_crash import CAP, batch, opened
from tests.index.plain_index import PlainIndex
from tests.index.samples import SLOTS, as_a_kill_leaves_it, identity, settle
from tests.support.machine.disk import fill, small_file_system
from tests.support.values import replace

BATCHES = 120


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A settled index with several table files. All rows are needed: nothing was merged."""
    path, memory = tmp_path_factory.mktemp("original") / "state", replace(SMALL, run_keys=1 << 20)
    settle(open_index(path, identity(), bucket_cap=CAP, memory=memory), batch, BATCHES)
    return path


def read_everything(path: Path) -> int:
    """Read all there is and compare it with the model; return the batches reached."""
    index = opened(path)
    try:
        entries = list(index.dump())
        reached = index.progress.next_batch
    finally:
        index.close()
    model = PlainIndex(Widths(SLOTS), bucket_cap=CAP)
    for number in range(reached):
        model.apply(batch(number))
    assert entries == list(model.dump()), "something was read that was never written"
    return reached


def test_the_undamaged_copy_is_whole(state: Path) -> None:
    assert len(list((state / "rocksdb").glob("*.sst"))) > 3
    assert read_everything(state) == BATCHES


@pytest.mark.parametrize("seed", range(8))
def test_a_flipped_byte_in_a_table_is_noticed_or_changes_nothing(state: Path, seed: int) -> None:
    rng = random.Random(seed)
    tables = sorted((state / "rocksdb").glob("*.sst"))
    table = max(tables, key=lambda file: file.stat().st_size) if seed < 4 else rng.choice(tables)
    data = bytearray(table.read_bytes())
    place = rng.randrange(len(data))
    data[place] ^= 1 << rng.randrange(8)
    table.write_bytes(data)
    try:
        noticed = read_everything(state) != BATCHES
    except IndexDamaged:
        noticed = True
    # Only what stands behind the data (statistics, padding) may be changed without a word.
    assert noticed or place > len(data) * 0.9 or seed >= 4


@pytest.mark.parametrize("pattern", ["*.sst", "MANIFEST-*", "CURRENT"])
def test_a_lost_file_is_damage_and_a_wipe_is_the_way_out(state: Path, pattern: str) -> None:
    min((state / "rocksdb").glob(pattern)).unlink()
    with pytest.raises(IndexDamaged, match=str(state)):
        read_everything(state)
    wipe_index(state)
    assert read_everything(state) == 0


@pytest.mark.parametrize("pattern", ["*.sst", "MANIFEST-*", "CURRENT"])
def test_a_truncated_file_is_damage(state: Path, pattern: str) -> None:
    file = min((state / "rocksdb").glob(pattern))
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    with pytest.raises(IndexDamaged, match=str(state)):
        read_everything(state)


def copy_with_log(path: Path, tmp_path: Path) -> Path:
    """Return a copy of an index whose last batches are only in the log, as a kill leaves it."""
    index = opened(path)
    for number in range(BATCHES, BATCHES + 9):
        index.apply(batch(number))
    copy = as_a_kill_leaves_it(path, tmp_path / "killed")
    index.close()
    assert max((copy / "rocksdb").glob("*.log")).stat().st_size > 10_000
    return copy


@pytest.mark.slow
def test_a_copy_of_a_running_index_is_a_prefix(state: Path, tmp_path: Path) -> None:
    assert read_everything(copy_with_log(state, tmp_path)) == BATCHES + 9


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    with small_file_system(tmp_path / "disk", mib=24) as path:
        yield path


@pytest.mark.slow
def test_a_full_disk_stops_reads_until_the_very_batch_is_applied(small_disk: Path) -> None:
    index = opened(small_disk / "state")
    index.apply(batch(0))
    ballast = small_disk / "ballast"
    fill(ballast)
    number = first_refused(index)
    assert index.progress == batch(number - 1).progress
    with pytest.raises(DiskFull, match="last write failed"):
        index.probe(batch(0).additions.keys)  # type: ignore[union-attr]
    with pytest.raises(DiskFull, match="last write failed"):
        index.apply(batch(number + 1))
    index.drop_owed()  # as who reads the changelog again
    index.probe(batch(0).additions.keys)  # type: ignore[union-attr]
    ballast.unlink()
    apply_until_it_works(index, number)
    index.close()
    assert read_everything(small_disk / "state") == number + 1


def first_refused(index: Index) -> int:
    """Apply batches until the disk is full; return the number of the one that failed."""
    for number in range(1, 99):
        try:
            index.apply(batch(number))
        except DiskFull as full:
            assert "disk is full" in str(full)  # noqa: PT017 (which batch failed matters)
            return number
    pytest.fail("a full disk stopped no write")


def apply_until_it_works(index: Index, number: int) -> None:
    """RocksDB looks for space every 5 seconds."""
    for _ in range(40):
        try:
            index.apply(batch(number))
            return
        except IndexFault:
            time.sleep(0.5)
    pytest.fail("writes did not resume after the space had come back")


@pytest.mark.slow
def test_a_family_that_is_older_than_the_others_is_noticed(state: Path) -> None:
    rocksdb = state / "rocksdb"
    manifest = max(rocksdb.glob("MANIFEST-*"))
    whole, outcomes = manifest.read_bytes(), set()
    for share in range(1, 12):
        manifest.write_bytes(whole[: len(whole) * share // 12])
        try:
            copy = Path(shutil.copytree(state, state.parent / f"copy-{share}"))
            outcomes.add(read_everything(copy))
        except IndexDamaged as damaged:
            outcomes.add(str(damaged).rsplit(": ", 1)[1])
    assert "a part of the database is older than the rest of it" in outcomes


@pytest.mark.slow
def test_who_learns_of_any_damage_can_wipe_and_begin_anew_at_once(original, tmp_path):
    for number, table in enumerate(sorted((original / "rocksdb").glob("*.sst"))):
        copy = Path(shutil.copytree(original, tmp_path / f"copy-{number}"))
        data = bytearray(table.read_bytes())
        for at in range(20, int(len(data) * 0.9), 2_000):
            data[at] ^= 1
        (copy / "rocksdb" / table.name).write_bytes(data)
        try:
            read_everything(copy)
        except IndexDamaged:  # and while the error lives, with all that it holds
            wipe_index(copy)
            opened(copy).close()
