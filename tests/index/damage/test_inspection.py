"""A copy of an index in use is one moment of it; verify tells whole from damaged."""

import random
import shutil
from pathlib import Path

import numpy as np
import pytest

from streamfilter.index.bands.buckets import encoded_integers
from streamfilter.index.bands.sorted_run import SortedRun, packed, unpacked
from streamfilter.index.directory.identity import Identity
from streamfilter.index.directory.inspection import Inspection, inspect
from streamfilter.index.directory.lock_and_marker import DATABASE_NAME
from streamfilter.index.directory.opening import open_index, wipe_index
from streamfilter.index.directory.read_only_view import viewed
from streamfilter.index.errors import IndexDamaged, IndexFault
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
    with viewed(state) as view:  # the newest row: no other has its keys
        key, value = list(view.entries(NAMES.bands))[-1]
    run = unpacked([value])
    entries = run.entries.copy()
    entries[np.argmin(entries)] = 1 << 40 | 1 << 30  # lists one document, 2 ** 30
    (value,) = packed(SortedRun.of(run.keys, entries, run.pool))
    problems = broken(state, NAMES.bands, key, value)
    assert any(f"lists document {1 << 30}, which is not there" in each for each in problems)


def test_a_broken_batch_mark_is_reported(state: Path) -> None:
    problems = broken(state, NAMES.batches, (3).to_bytes(8, "big"), b"garbage")
    assert any("batches: a batch's mark cannot be read" in each for each in problems)
