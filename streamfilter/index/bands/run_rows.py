"""The rows of sorted runs in a window's band family: their keys, and the list of the runs.

    8 bytes                                  a bucket under its own key: an index of format 2
    8 x ff, 0                                the list of the runs
    8 x ff, 1, number of a write             the buckets that the write changed, packed
    8 x ff, 2, run, page                     the run's buckets of a range of keys, packed
    8 x ff, 2, run, 0x80000000 + number      a part of the run's Bloom filter

A page has the keys with the same upper bits. Runs are stored by descending numbers. So a table file
of new rows covers no old run, and RocksDB's compactions leave those alone.
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from msgspec import Struct

from streamfilter.index.errors import FormatError
from streamfilter.similarity.columns import I64

PAGE_KEYS = 64  # of a page in the mean: the smallest pages that are cheap to write (`tests/bench`)
FILTER_WORDS = 4_096  # of a row of a filter
NUMBER_MAX = 0xFFFF_FFFF

_PREFIX = b"\xff" * 8
DIRECTORY = _PREFIX + b"\0"
RECENT = _PREFIX + b"\1"
_RUN = _PREFIX + b"\2"
BEGIN = b"\0\0"  # of all rows of buckets: only the stamp comes before
BUCKET_BYTES = 8  # of the key of a row that is a single bucket

_FILTER = 0x8000_0000
_NAME = np.dtype([("kind", f"V{len(_RUN)}"), ("number", ">u4"), ("page", ">u4")])
_HEAD = struct.Struct("<B?H")
_ENTRY = struct.Struct("<IBBQQ")
_MERGE = struct.Struct("<IBB?IQQH")
_VERSION, _WITH_MERGES = 1, 2

Range = tuple[bytes, bytes]


class RunInfo(NamedTuple):
    """One run in pages."""

    number: int
    level: int  # how often its buckets were merged
    bits: int  # upper bits of a key that name its page
    keys: int
    words: int  # of its filter; 0: it has none


class MergeInfo(NamedTuple):
    """A merge of runs in pages, as far as it is in the database: the next process goes on."""

    number: int
    level: int
    bits: int
    bottom: bool  # whether there is no older run
    page: int  # the first that is not written
    keys: int  # that are written
    words: int
    sources: tuple[int, ...]  # the numbers of its runs, the oldest first; none: rows of format 2


class Directory(Struct, frozen=True):
    """The runs of a window, the newest first."""

    runs: tuple[RunInfo, ...] = ()
    rows: bool = False  # whether buckets under their own keys are the oldest layer
    merges: tuple[MergeInfo, ...] = ()

    @property
    def numbered(self) -> tuple[RunInfo | MergeInfo, ...]:
        """Return all that has rows under a number: what is no more is deleted."""
        return (*self.runs, *self.merges)


def encode_directory(directory: Directory) -> bytes:
    version = _WITH_MERGES if directory.merges else _VERSION
    runs = [_ENTRY.pack(*run) for run in directory.runs]
    merges = [_encoded(merge) for merge in directory.merges]
    return b"".join((_HEAD.pack(version, directory.rows, len(runs)), *runs, *merges))


def _encoded(merge: MergeInfo) -> bytes:
    *fields, sources = merge
    return _MERGE.pack(*fields, len(sources)) + struct.pack(f"<{len(sources)}I", *sources)


def decode_directory(data: bytes) -> Directory:
    """Return what `encode_directory` wrote, or raise `FormatError`."""
    try:
        version, rows, count = _HEAD.unpack_from(data)
        end = _HEAD.size + count * _ENTRY.size
        runs = tuple(RunInfo(*fields) for fields in _ENTRY.iter_unpack(data[_HEAD.size : end]))
        merges = tuple(_merges(data[end:]))
    except struct.error as error:
        raise FormatError(f"the list of runs cannot be read: {error}") from error
    if version != (_WITH_MERGES if merges else _VERSION) or len(runs) != count:
        raise FormatError("the list of runs is of another version, or not whole")
    directory = Directory(runs, rows, merges)
    if not _consistent(directory):
        raise FormatError("the list of runs contradicts itself")
    return directory


def _merges(data: bytes) -> Iterator[MergeInfo]:
    at = 0
    while at < len(data):
        *fields, count = _MERGE.unpack_from(data, at)
        at += _MERGE.size
        fields.append(struct.unpack_from(f"<{count}I", data, at))
        yield MergeInfo(*fields)
        at += 4 * count


def _consistent(directory: Directory) -> bool:
    """Return whether each number is there once, and each run is a source of one merge at most."""
    merges, numbers = directory.merges, [each.number for each in directory.numbered]
    sources = [number for merge in merges for number in merge.sources]
    of_rows = sum(not merge.sources for merge in merges)
    return (
        all(0 < each.bits < 32 for each in directory.numbered)
        and all(merge.page <= 1 << merge.bits for merge in merges)
        and len(set(numbers)) == len(numbers)
        and len(set(sources)) == len(sources)
        and {run.number for run in directory.runs}.issuperset(sources)
        and of_rows <= directory.rows
    )


def bits_for(keys: int) -> int:
    """Return how many upper bits name the page of a key, in a run of *keys*."""
    return max(1, (keys // PAGE_KEYS).bit_length())


def recent_key(stamp: int) -> bytes:
    """Return the key of the row of write number *stamp*."""
    return RECENT + stamp.to_bytes(8, "big")


def page_names(number: int | I64, pages: I64) -> list[bytes]:
    """Return the keys of the rows of *pages*. Their run's *number* is one, or one for each."""
    names = np.empty(len(pages), _NAME)
    names["kind"], names["number"], names["page"] = np.void(_RUN), NUMBER_MAX - number, pages
    listed: list[bytes] = names.view(f"V{_NAME.itemsize}").tolist()
    return listed


def filter_names(number: int, words: int) -> list[bytes]:
    """Return the keys of the rows of a run's filter of so many *words*."""
    return page_names(number, np.arange(-(-words // FILTER_WORDS)) + _FILTER)


def run_range(first: int, last: int) -> Range:
    """Return the range of all rows of the runs numbered *first* to *last*."""
    return _prefix(last), _prefix(first - 1)


def _prefix(number: int) -> bytes:
    return _RUN + (NUMBER_MAX - number).to_bytes(4, "big")
