"""The kernel's functions over numpy's columns.

Each method has the result of the numpy function that `kernel.c` names at it. It is None if the
kernel refuses the columns: the caller then does the work with numpy. Sizes are checked here, what
columns hold is checked in C. A call releases the interpreter's lock.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamfilter.similarity.columns import I64, U8, U32, U64
from streamfilter.similarity.kernel.library import ARGUMENTS

SPARE_BYTES = 8
"""Spare bytes at the end of a buffer, so that any span can be read eight bytes at a time."""
UNKNOWN_PAGE = -2
UTF8_BYTES_MAX = 4
HASHED_BYTES = 32  # longer spans are hashed by the caller

_KINDS = {"p": ctypes.c_void_p, "i": ctypes.c_int64}
_NO_BYTES = ctypes.c_char * 0


def _at(column: NDArray[Any]) -> int:
    """Return the address of a column, which must be contiguous."""
    if column.flags.writeable:
        buffer: Any = column
        return ctypes.addressof(_NO_BYTES.from_buffer(buffer))  # a tenth of the time
    if not column.flags.c_contiguous:
        raise ValueError("the kernel reads contiguous columns")
    return column.ctypes.data


def _columns(tokens: U64, starts: I64) -> tuple[U64, I64]:
    """Return a caller's columns as C reads them: a slice with steps is copied."""
    return np.ascontiguousarray(tokens, np.uint64), np.ascontiguousarray(starts, np.int64)


Filter = tuple[U64, int, int]
"""A Bloom filter: an array that several may share, its first word there, and its step from word to
word."""

Normalised = tuple[bytes, I64, I64, I64, I64]
"""The buffer, its bounds, and the words: starts, lengths, and where those of each text begin."""


class _Normalised(NamedTuple):
    """The columns that C writes normalised texts into."""

    buffer: U8
    bounds: I64
    starts: I64  # of the words: at most one for two bytes, the separators among them
    sizes: I64
    firsts: I64  # the first word of each text

    @classmethod
    def of(cls, size: int, bounds: int) -> _Normalised:
        words = size // 2 + 2
        return cls(
            np.empty(size + SPARE_BYTES, np.uint8), np.empty(bounds, np.int64),
            np.empty(words, np.int64), np.empty(words, np.int64), np.empty(bounds, np.int64),
        )  # fmt: skip

    @property
    def addresses(self) -> list[int]:
        return [_at(column) for column in self]

    def cut(self, size: int) -> Normalised | None:
        """Return what was written, *size* bytes without the spare ones; None if C refused."""
        if size < 0:
            return None
        words = slice(int(self.firsts[-1]))
        buffer = self.buffer[: size + SPARE_BYTES].tobytes()
        return buffer, self.bounds, self.starts[words], self.sizes[words], self.firsts


class Kernel:
    """The functions of a loaded library."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._call: dict[str, Any] = {}
        for name, arguments in ARGUMENTS.items():
            function = getattr(library, f"sf_{name}")
            function.argtypes = [_KINDS[each] for each in arguments]
            function.restype = ctypes.c_int64
            self._call[name] = function

    def ascii(
        self, data: bytes, bounds: I64, mapping: bytes, classes: U8, *, collapse: bool
    ) -> Normalised | None:
        """Return ASCII texts, each byte mapped by the 256 of *mapping*."""
        made = _Normalised.of(len(data), len(bounds))
        size = self._call["ascii"](
            data, len(data), _at(bounds), len(bounds) - 1, mapping, _at(classes), collapse,
            *made.addresses,
        )  # fmt: skip
        return made.cut(size)

    def fold(self, points: U32, bounds: I64, table: U32) -> tuple[U32, U32, I64, I64] | int:
        """Return values, points, bounds, and the places that need their neighbours.

        `UNKNOWN_PAGE`: a page of the *table* is not filled yet; -1: the columns are refused.
        """
        values, kept = np.empty_like(points), np.empty_like(points)
        new_bounds, places = np.empty_like(bounds), np.empty(len(points), np.int64)
        count: int = self._call["fold"](
            _at(points), len(points), _at(bounds), len(bounds) - 1, _at(table), _at(values),
            _at(kept), _at(new_bounds), _at(places),
        )  # fmt: skip
        if count < 0:
            return count
        left = slice(int(new_bounds[-1]))
        return values[left], kept[left], new_bounds, places[:count]

    def encode(
        self, values: U32, bounds: I64, several: U32, lengths: I64, classes: U8, *, collapse: bool
    ) -> Normalised | None:
        """Return the texts whose code points *values* stand for."""
        rows = (_at(several), _at(lengths), min(len(several), len(lengths)), several.shape[1])
        longer = several.shape[1] * int(np.count_nonzero(values > sys.maxunicode))
        made = _Normalised.of(UTF8_BYTES_MAX * (len(values) + longer), len(bounds))
        size = self._call["encode"](
            _at(values), len(values), _at(bounds), len(bounds) - 1, *rows, _at(classes), collapse,
            *made.addresses,
        )  # fmt: skip
        return made.cut(size)

    def characters(self, buffer: bytes, bounds: I64, size: int) -> tuple[I64, I64, I64] | None:
        """Return starts and lengths of all runs of *size* characters, and each text's first."""
        most = len(buffer)
        starts, sizes = np.empty(most, np.int64), np.empty(most, np.int64)
        firsts = np.empty_like(bounds)
        count = self._call["characters"](
            buffer, len(buffer) - SPARE_BYTES, _at(bounds), len(bounds) - 1, size, _at(starts),
            _at(sizes), most, _at(firsts),
        )  # fmt: skip
        return None if count < 0 else (starts[:count], sizes[:count], firsts)

    def hash(
        self, buffer: bytes, starts: I64, sizes: I64, masks: U64, factors: U64, constants: U64
    ) -> tuple[U64, I64] | None:
        """Return the hashes of spans, and the places of those above `HASHED_BYTES`."""
        starts, sizes = np.ascontiguousarray(starts), np.ascontiguousarray(sizes)
        hashes, longs = np.empty(len(starts), np.uint64), np.empty(len(starts), np.int64)
        count = self._call["hash"](
            buffer, len(buffer), _at(starts), _at(sizes), min(len(starts), len(sizes)), _at(masks),
            _at(factors), _at(constants), _at(hashes), _at(longs),
        )  # fmt: skip
        return None if count < 0 else (hashes, longs[:count])

    def runs(
        self, hashes: U64, firsts: I64, size: int, factors: U64, constants: U64
    ) -> tuple[U64, I64] | None:
        """Return the tokens of all runs of *size* units, and where those of each text begin."""
        if size > len(factors):
            return None
        tokens, starts = np.empty(len(hashes), np.uint64), np.empty_like(firsts)
        count = self._call["runs"](
            _at(hashes), len(hashes), _at(firsts), len(firsts) - 1, size, _at(factors),
            _at(constants), _at(tokens), _at(starts),
        )  # fmt: skip
        return None if count < 0 else (tokens[:count], starts)

    def sign(self, tokens: U64, starts: I64, rounds: U32, factors: U64, offsets: U64) -> U32 | None:
        """Return the signatures; slots of large sets that only the fallback fills are open."""
        tokens, starts = _columns(tokens, starts)
        signatures = np.empty((len(starts) - 1, len(factors)), np.uint32)
        done = self._call["sign"](
            _at(tokens), len(tokens), _at(starts), len(starts) - 1, len(factors), _at(rounds),
            _at(factors), _at(offsets), _at(signatures),
        )  # fmt: skip
        return None if done < 0 else signatures

    def samples(self, tokens: U64, starts: I64, most: int) -> tuple[U32, I64, I64] | None:
        """Return all samples, and the sizes of the samples and of the sets."""
        tokens, starts = _columns(tokens, starts)
        sizes, set_sizes = np.empty(len(starts) - 1, np.int64), np.empty(len(starts) - 1, np.int64)
        samples = np.empty(len(tokens), np.uint32)
        work = np.empty(2 * int(np.diff(starts).max(initial=0)), np.uint32)
        count = self._call["samples"](
            _at(tokens), len(tokens), _at(starts), len(starts) - 1, most, _at(work), len(work),
            _at(samples), _at(sizes), _at(set_sizes),
        )  # fmt: skip
        return None if count < 0 else (samples[:count].copy(), sizes, set_sizes)

    def passed(self, filters: Sequence[Filter], keys: U64) -> U64 | None:
        """Return for each of *keys* which of the Bloom *filters*, 64 at most, perhaps have it."""
        keys, flags = np.ascontiguousarray(keys), np.empty(len(keys), np.uint64)
        rows = np.array([_row(each) for each in filters], np.int64)
        count = self._call["passed"](_at(rows), len(filters), _at(keys), len(keys), _at(flags))
        return None if count < 0 else flags

    def add(self, filter_: Filter, keys: U64) -> bool:
        """Add *keys* to a Bloom filter; False: it is refused."""
        keys, row = np.ascontiguousarray(keys), np.array(_row(filter_), np.int64)
        return bool(self._call["add"](_at(row), _at(keys), len(keys)) >= 0)


def _row(filter_: Filter) -> tuple[int, int, int]:
    """Return a filter as C reads it: its address, its words, and its step."""
    words, slot, step = filter_
    return _at(words) + words.itemsize * slot, len(words) // step, step
