"""Gaps between the write-ahead logs (WAL): RocksDB silently skips a log that is missing.

A database has several logs at a time, because each family is flushed on its own. A log may be
deleted, or emptied by a power cut. RocksDB below version 10, which can look for gaps, then replays
the later logs without an error. The result is the newest progress, with documents or buckets
missing before it. Each of our writes has a number. So the numbers are checked: from the first
write that a family needs to the last one, none may be missing.

A log that is torn *inside* is no gap. RocksDB stops there, and the result is an older index, or
an error that it reports.
"""

from collections.abc import Iterator
from pathlib import Path

from rocksdict import AccessType, Rdict

from streamfilter.index.errors import IndexDamaged, file_errors, rocks_errors
from streamfilter.index.journal import STANDING, StoredProgress, decode_standing
from streamfilter.index.rocks.column_families import META, families_of, keep_ids
from streamfilter.index.rocks.database import STAMP, options_of, stored_families
from streamfilter.index.rocks.options import MIB, Memory, tuned

BLOCK_BYTES = 32_768
FRAGMENT_HEAD = 7  # bytes before each fragment of a record: a sum of 4, a length of 2, a type
FULL, FIRST, LAST = 1, 2, 4
BATCH_HEAD = 12  # bytes before the entries of a write: its sequence number and their count
NEEDED_BYTES = 48  # the first bytes of a record, which contain its first entry, the stamp
_LITTLE = Memory(cache_bytes=MIB, memtable_bytes=MIB, front_bytes=0)


def refuse_gaps(path: Path) -> None:
    """Check that a closed database's logs lack no write; raise `IndexDamaged` if they do."""
    with file_errors(path):
        logs = sorted(path.glob("*.log"), key=lambda log: int(log.stem))
        numbers = list(_replayed(logs))
    if not numbers:
        return
    last = _flushed(path)
    for number, name in numbers:
        if number > last + 1:
            lacks = f"its logs lack writes {last + 1} to {number - 1}, before {name}"
            raise IndexDamaged(f"{path}: the database is damaged: {lacks}")
        last = max(last, number)


def _flushed(path: Path) -> int:
    """Return the last write that all families have in their tables, read without any log.

    Only families of the windows in the tables' own progress count, as far as they exist. A newer
    window may have nothing in its tables yet, and an old window may be dropped already.
    """
    tuning = tuned(_LITTLE, create=False)
    tuning.database.set_wal_dir(str(path.parent))  # there are none in it
    options = {name: options_of(name, tuning) for name in stored_families(path)}
    with rocks_errors(path):
        tables = Rdict(str(path), tuning.database, options, AccessType.read_only())
        try:
            stored = tables.get_column_family(META).get(STANDING)
            known = decode_standing(stored) if stored else StoredProgress()
            numbers = [window.number for window in known.windows]
            alive = families_of(numbers, ids=keep_ids(options))
            names = [name for name in alive if name in options]
            stamps = [tables.get_column_family(name).get(STAMP) for name in names]
        finally:
            tables.close()
    return min(int.from_bytes(stamp or b"", "big") for stamp in stamps)


def _replayed(logs: list[Path]) -> Iterator[tuple[int, str]]:
    """Yield each write's number and the name of its log, up to where RocksDB stops."""
    for log in logs:
        for number in written(log.read_bytes()):
            if number is None:
                return
            yield number, log.name


def written(data: bytes) -> Iterator[int | None]:
    """Yield the number of each write in a log; where the log is torn, yield None and end."""
    record: bytes | None = None
    for kind, piece in _fragments(data):
        if kind is None or (kind in (FULL, FIRST)) != (record is None):
            yield None
            return
        record = ((record or b"") + piece)[:NEEDED_BYTES]
        if kind in (FULL, LAST):
            number, record = _number(record), None
            if number is not None:
                yield number
    if record is not None:
        yield None


def _fragments(data: bytes) -> Iterator[tuple[int | None, bytes]]:
    """Yield (type, first bytes) of each fragment; at a broken one, yield type None and end."""
    at = 0
    while at + FRAGMENT_HEAD <= len(data):
        left = BLOCK_BYTES - at % BLOCK_BYTES
        if left < FRAGMENT_HEAD:
            at += left  # padding at the end of a block
            continue
        length, kind = int.from_bytes(data[at + 4 : at + 6], "little"), data[at + 6]
        if kind == length == 0:
            return  # preallocated space, or data that never reached the disk
        begin, end = at + FRAGMENT_HEAD, at + FRAGMENT_HEAD + length
        if not FULL <= kind <= LAST or end > len(data) or end - at > left:
            yield None, b""
            return
        yield kind, data[begin : min(end, begin + NEEDED_BYTES)]
        at = end


def _number(record: bytes) -> int | None:
    """Return the number of a write; None for the empty writes that RocksDB makes itself."""
    entry = bytes([len(STAMP)]) + STAMP + b"\x08"
    at = record.find(entry, BATCH_HEAD)
    begin = at + len(entry)
    return None if at < 0 else int.from_bytes(record[begin : begin + 8], "big")
