"""The data that is kept of each text, as columns: row i of each column belongs to text i.

A sketcher makes these columns, an index stores them, and documents are compared only by them. To
select rows or to join parts, use the methods here: they treat all columns alike.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace
from numpy.typing import NDArray

U8 = NDArray[np.uint8]
U32 = NDArray[np.uint32]
U64 = NDArray[np.uint64]
I64 = NDArray[np.int64]
F64 = NDArray[np.float64]
Flags = NDArray[np.bool_]
Rows = NDArray[np.intp] | I64
Number = TypeVar("Number", bound=np.integer[Any])


def slices(starts: I64, counts: I64) -> I64:
    """Return the indices start, start + 1, ... of each slice, one slice after the other."""
    before = np.cumsum(counts) - counts
    return np.repeat(starts - before, counts) + np.arange(counts.sum())


_DENSE = 4
"""A table of all integers from the least to the highest is used if it has at most so many entries
for each requested value. An entry costs 2 ns, a sort or a search 30 to 60 ns a value."""


def distinct(values: NDArray[Number]) -> NDArray[Number]:
    """Return the distinct *values*, ascending.

    This is 3 to 10 times as fast as `numpy.unique`, which hashes the values before it sorts them.
    The first call of `numpy.unique` also imports `numpy.ma`, which takes 15 ms at every start.
    """
    if values.size and values.dtype == np.int64:
        least = values.min()
        if (span := int(values.max()) - int(least) + 1) <= _DENSE * values.size:
            there = np.zeros(span, np.bool_)
            there[values - least] = True
            near: NDArray[Number] = np.flatnonzero(there) + least
            return near
    ordered = np.sort(values, axis=None)
    first = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return ordered[first]


def places_of(values: I64, rising: I64) -> I64:
    """Return for each of *values* how many of the distinct, ascending *rising* are below it.

    Example: values 5, 2, 9 and rising 3, 5 give 1, 0, 2.
    """
    if not len(rising) or (span := int(rising[-1]) - int(rising[0]) + 1) > _DENSE * len(values):
        return np.searchsorted(rising, values).astype(np.int64)
    below = np.zeros(span + 1, np.int32)
    below[rising - rising[0] + 1] = 1
    np.cumsum(below, out=below)
    places: I64 = below[np.clip(values - rising[0], 0, span)].astype(np.int64)
    return places


class Samples(Struct, frozen=True):
    """The token samples of n texts: the smallest distinct 32-bit tokens of each."""

    tokens: U32  # all samples, one after the other
    starts: I64  # (n + 1,) sample i is tokens[starts[i]:starts[i + 1]], strictly rising
    set_sizes: I64  # (n,) distinct tokens of the whole text; 0: it is shorter than a shingle

    @property
    def sizes(self) -> I64:
        """Return (n,) how many tokens each sample has."""
        return np.diff(self.starts)

    def at(self, rows: Rows) -> Samples:
        begins, ends = self.starts[rows], self.starts[rows + 1]
        if len(rows) and (np.diff(rows) == 1).all():
            flat = self.tokens[begins[0] : ends[-1]].copy()  # a view would keep the whole batch
        elif 2 * len(rows) > len(self.set_sizes) and (np.diff(rows) > 0).all():
            chosen = np.zeros(len(self.set_sizes), np.bool_)
            chosen[rows] = True
            flat = self.tokens[np.repeat(chosen, self.sizes)]  # a third of the time
        else:
            places = zip(begins.tolist(), ends.tolist(), strict=True)
            tokens = [self.tokens[begin:end] for begin, end in places]  # a fifth of `slices`
            flat = np.concatenate(tokens) if tokens else self.tokens[:0]
        return Samples(flat, starts_of(ends - begins), self.set_sizes[rows])

    @classmethod
    def joined(cls, parts: Sequence[Samples]) -> Samples:
        """Return the samples of all *parts*, at least one, one after the other."""
        tokens = np.concatenate([part.tokens for part in parts])
        sizes = np.concatenate([part.sizes for part in parts])
        return cls(tokens, starts_of(sizes), np.concatenate([part.set_sizes for part in parts]))


def ranks(rows: I64) -> I64:
    """Return for each element of the ascending *rows* its place among the equal ones, from 0.

    Example: rows 3, 3, 7, 7, 7 give 0, 1, 0, 1, 2.
    """
    if not len(rows):
        return rows
    first = np.flatnonzero(np.concatenate(([True], rows[1:] != rows[:-1])))
    return np.arange(len(rows)) - np.repeat(first, np.diff(np.append(first, len(rows))))


def starts_of(sizes: I64) -> I64:
    """Return where each of the parts of these *sizes* begins, and where the last one ends.

    Example: sizes 2, 0, 3 give 0, 2, 2, 5.
    """
    return np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)


class Widths(Struct, frozen=True):
    """How much a scheme stores of each document, as far as it differs between schemes."""

    slots: int  # bytes of a signature
    digests: int = 0  # digests of 8 bytes
    agreeing: int = 0  # the first so many of them must be equal in a match
    scoped: bool = False  # whether the first of them is the document's scope
    also: int = 0  # the last so many make a duplicate, each alone: documents are found by them


_FACTOR = 0x9E3779B97F4A7C15
NO_DIGESTS: U64 = np.zeros((0, 0), np.uint64)


class Contents(Struct, frozen=True):
    """The data by which n documents are compared."""

    fingerprints: U8  # (n, 16) keyed BLAKE2b-128 of the normalised text
    signatures: U8  # (n, k) low 8 bits of each slot; zero where the set is empty
    samples: Samples
    payloads: Sequence[bytes] = ()  # of records, to compare their fields
    digests: U64 = field(default_factory=lambda: NO_DIGESTS)
    """(n, d) keyed digests of what a scheme compares beside the text (`Scheme.digests`), 0 for what
    is absent. Without columns, if it compares nothing else: it may then have 0 rows."""
    agreeing: int = 0  # the first so many digests must be equal in a match
    scoped: bool = False  # whether the first digest is the scope
    also: int = 0  # the last so many digests make a duplicate, each alone

    def __len__(self) -> int:
        return len(self.fingerprints)

    @property
    def set_sizes(self) -> I64:
        """Return (n,) the number of distinct tokens; 0: only an equal text is its duplicate."""
        return self.samples.set_sizes

    @property
    def slots(self) -> int:
        """Return how many slots a signature has."""
        return int(self.signatures.shape[1])

    @property
    def widths(self) -> Widths:
        """Return how wide these columns are."""
        return Widths(self.slots, int(self.digests.shape[1]), self.agreeing, self.scoped, self.also)

    @property
    def scopes(self) -> list[bytes]:
        """Return (n,) the scope of each document in 8 bytes; all empty if there are no scopes."""
        if not self.scoped:
            return [b""] * len(self)
        return [each.to_bytes(8, "big") for each in self.digests[:, 0].tolist()]

    @property
    def naming(self) -> U64:
        """Return (n, a) the digests that make a duplicate, each alone; 0 for an absent value."""
        return self.digests[:, self.digests.shape[1] - self.also :]

    @property
    def agreement(self) -> U64:
        """Return (n,) one number for the digests that must be equal in a match."""
        odd = [pow(_FACTOR, place, 1 << 64) for place in range(1, 1 + self.agreeing)]
        # Each place has a factor of its own: two equal digests in two places do not cancel out.
        weighed = self.digests[:, : self.agreeing] * np.array(odd, np.uint64)
        return np.asarray(weighed.sum(axis=1, dtype=np.uint64), np.uint64)

    @property
    def splitters(self) -> U8:
        """Return (n, k) the signatures as they make keys longer: they hold the agreement, too.

        So documents that cannot match for it do not fill the same buckets for long.
        """
        if not self.agreeing:
            return self.signatures
        width = -(-self.slots // 8)
        bytes_ = np.repeat(self.agreement.astype("<u8")[:, None], width, axis=1).view(np.uint8)
        return self.signatures ^ bytes_[:, : self.slots]

    def unsigned(self, rows: Flags) -> Contents:
        """Return the same with the sets of *rows* (n,) empty: such a document has no bands."""
        tokens, sizes = self.samples.tokens, self.samples.sizes
        samples = Samples(
            tokens[np.repeat(~rows, sizes)],
            starts_of(np.where(rows, 0, sizes)),
            np.where(rows, 0, self.set_sizes),
        )
        signatures = np.where(rows[:, None], np.uint8(0), self.signatures)
        return replace(self, signatures=signatures, samples=samples)

    def at(self, rows: Rows) -> Contents:
        """Return the documents in *rows*, in the order given."""
        return Contents(
            self.fingerprints[rows],
            self.signatures[rows],
            self.samples.at(rows),
            [self.payloads[row] for row in rows.tolist()] if self.payloads else (),
            self.digests[rows] if self.digests.shape[1] else NO_DIGESTS,
            self.agreeing,
            self.scoped,
            self.also,
        )

    @classmethod
    def joined(cls, parts: Sequence[Contents]) -> Contents:
        """Return the documents of all *parts*, at least one, one after the other."""
        filled = [part for part in parts if len(part)] or parts[:1]
        if len(filled) == 1:
            return filled[0]
        return cls(
            np.concatenate([part.fingerprints for part in filled]),
            np.concatenate([part.signatures for part in filled]),
            Samples.joined([part.samples for part in filled]),
            [payload for part in filled for payload in part.payloads],
            np.concatenate([part.digests for part in filled])
            if filled[0].digests.shape[1]
            else NO_DIGESTS,
            filled[0].agreeing,
            filled[0].scoped,
            filled[0].also,
        )


KeysOf = Callable[[Contents], U64]
"""Keys (n, c) under which documents are found, the folded fingerprint last: `Sketcher.keys_of`."""
