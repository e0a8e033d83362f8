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
from dataclasses import astuple, dataclass

import numpy as np

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
_HEAD = struct.Struct("<B?H")
_ENTRY = struct.Struct("<IBBQQ")
_VERSION = 1

Range = tuple[bytes, bytes]


@dataclass(frozen=True, slots=True)
class RunInfo:
    """One run in pages."""

    number: int
    level: int  # how often its buckets were merged
    bits: int  # upper bits of a key that name its page
    keys: int
    words: int  # of its filter; 0: it has none


@dataclass(frozen=True, slots=True)
class Directory:
    """The runs of a window, the newest first."""

    runs: tuple[RunInfo, ...] = ()
    rows: bool = False  # whether buckets under their own keys are the oldest layer


def encode_directory(directory: Directory) -> bytes:
    """Return the row's value."""
    head = _HEAD.pack(_VERSION, directory.rows, len(directory.runs))
    return head + b"".join(_ENTRY.pack(*astuple(run)) for run in directory.runs)


def decode_directory(data: bytes) -> Directory:
    """Return what `encode_directory` wrote, or raise `FormatError`."""
    try:
        version, rows, count = _HEAD.unpack_from(data)
        runs = tuple(RunInfo(*fields) for fields in _ENTRY.iter_unpack(data[_HEAD.size :]))
    except struct.error as error:
        raise FormatError(f"the list of runs cannot be read: {error}") from error
    if version != _VERSION or len(runs) != count:
        raise FormatError("the list of runs is of another version, or not whole")
    if any(not 0 < run.bits < 32 for run in runs) or len({run.number for run in runs}) != count:
        raise FormatError("the list of runs contradicts itself")
    return Directory(runs, rows)


def bits_for(keys: int) -> int:
    """Return how many upper bits name the page of a key, in a run of *keys*."""
    return max(1, (keys // PAGE_KEYS).bit_length())


def recent_key(stamp: int) -> bytes:
    """Return the key of the row of write number *stamp*."""
    return RECENT + stamp.to_bytes(8, "big")


def page_names(number: int, pages: I64) -> list[bytes]:
    """Return the keys of *pages* of a run."""
    prefix = _prefix(number)
    names = np.empty((len(pages), len(prefix) + 4), np.uint8)
    names[:, : len(prefix)] = np.frombuffer(prefix, np.uint8)
    names[:, len(prefix) :] = pages.astype(">u4").view(np.uint8).reshape(-1, 4)
    listed: list[bytes] = names.view(f"V{names.shape[1]}").ravel().tolist()
    return listed


def filter_names(number: int, words: int) -> list[bytes]:
    """Return the keys of the rows of a run's filter of so many *words*."""
    return page_names(number, np.arange(-(-words // FILTER_WORDS)) + _FILTER)


def run_range(first: int, last: int) -> Range:
    """Return the range of all rows of the runs numbered *first* to *last*."""
    return _prefix(last), _prefix(first - 1)


def _prefix(number: int) -> bytes:
    return _RUN + (NUMBER_MAX - number).to_bytes(4, "big")
