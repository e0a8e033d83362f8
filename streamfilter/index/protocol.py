"""What the pipeline asks of an index, whatever keeps it: RocksDB or a plain dictionary.

An index maps a 64-bit key (a band key, or the folded content fingerprint, which behaves as
one more band) to a bucket: the ordinals of the first documents that had it; those that came
later are listed under longer keys (`index.longer`). It maps an ordinal to what is remembered of
that document. Reading changes nothing; `apply` writes one
batch and the log position it came from, atomically.

An index that forgets is cut into windows. Each is an index of its own documents, with buckets
and longer keys that know of no other window's: so a window goes as a whole, and what is left is
to the byte what an index holds that began with the oldest window left.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from streamfilter.index.levels import Level
from streamfilter.model import BatchMark, Positions, Window
from streamfilter.similarity.columns import I64, U8, U64, Contents, Flags, distinct

WINDOWS_MAX = 5
"""Alive at a time: each costs every probe a look."""

FAINT_BELOW = 4
"""Of 16 bands of 6 slots, a copy of similarity .84 meets 3 with probability .73, and 4 with .82."""


@dataclass(frozen=True, slots=True)
class Documents:
    """What the index remembers of n documents, as columns; row i is one document."""

    ordinals: I64
    """(n,) place in the order of judgement."""
    ids: Sequence[str]
    batches: I64
    """(n,) number of the batch that judged it."""
    partitions: I64
    """(n,) input partition (for files: the input's number in the index's source table)."""
    offsets: I64
    """(n,) offset in that partition (for files: line number)."""
    timestamps: I64
    """(n,) milliseconds since the epoch as the record had it (stored with a second's precision)."""
    contents: Contents
    """What they are compared by; an unsigned (too short) document has a set of 0 tokens."""

    def __len__(self) -> int:
        return len(self.ordinals)


@dataclass(frozen=True, slots=True)
class Buckets:
    """What a probe found: for n documents and c key columns, each bucket's ordinals in order."""

    counts: U8
    """(n, c) ordinals in the bucket of document i's key in column j (0: no bucket)."""
    starts: I64
    """(n, c) where they begin in the pool; equal keys share a list."""
    pool: I64
    """The buckets' ordinals, each bucket's oldest first."""
    overflows: I64
    """(n, c) how many documents the bucket has turned away."""
    deeper: tuple[Level, ...] = ()
    """What full buckets turned away, by the length of the key (`index.longer`), if asked for."""
    older: tuple[Buckets, ...] = ()
    """The same of the windows before, the oldest first: the rest is of the newest one alone, in
    whose buckets what is being judged will be listed."""

    @property
    def windows(self) -> tuple[Buckets, ...]:
        """Return what was found in each window, the oldest first."""
        return (*self.older, self)

    def after(self, older: Sequence[Buckets]) -> Buckets:
        """Return the same, with what was found in the windows before beside it."""
        return replace(self, older=tuple(older))

    def aged(self) -> Buckets:
        """Return the same to one that begins a window: in its own there is nothing yet."""
        zeros = np.zeros(self.counts.shape, np.int64)
        nothing = Buckets(np.zeros_like(self.counts), zeros, self.pool[:0], zeros)
        return nothing.after((*self.older, self.after(())))

    @property
    def full(self) -> Flags:
        """Return (n, c): True where the bucket has turned documents away."""
        full: Flags = self.overflows > 0
        return full

    @property
    def shortest(self) -> Level:
        """Return the buckets that list somebody, as those of longer keys are told."""
        cells = np.flatnonzero(self.counts)
        counts, starts, overflows = (
            column.reshape(-1)[cells].astype(np.int64)
            for column in (self.counts, self.starts, self.overflows)
        )
        return Level(0, cells, starts, counts, self.pool, overflows)

    @property
    def levels(self) -> tuple[Level, ...]:
        """Return all that was found in all windows.

        Their lists are not cut to one bucket's cap: an old window's full bucket would hide from
        view what later ones list under the same key, and there they have no longer key to go to.
        """
        return tuple(level for each in self.windows for level in (each.shortest, *each.deeper))

    def levels_beside(self, copies: Copies) -> tuple[Level, ...]:
        """Return all that was found under the keys of bands, and *copies* for the last column."""
        columns = self.counts.shape[1]
        return (*(level.of_bands(columns) for level in self.levels), copies.level(columns))

    @property
    def ordinals(self) -> I64:
        """Return (counts.sum(),): whom the shortest keys list, row by row, column by column."""
        return self.shortest.ordinals


@dataclass(frozen=True, slots=True)
class Copies:
    """Stored documents that have the very text of documents of a batch: one pair in each row."""

    rows: I64
    """(p,) of the batch."""
    ordinals: I64
    """(p,) of the stored ones."""

    @classmethod
    def joined(cls, parts: Sequence[Copies]) -> Copies:
        """Return the pairs of all *parts*, at least one."""
        rows = np.concatenate([part.rows for part in parts])
        return cls(rows, np.concatenate([part.ordinals for part in parts]))

    def level(self, columns: int) -> Level:
        """Return them as the answers to who asked in the last of so many *columns*."""
        order = np.argsort(self.rows, kind="stable")
        rows = distinct(self.rows)
        counts = np.bincount(np.searchsorted(rows, self.rows), minlength=len(rows))
        cells, none = rows * columns + columns - 1, np.zeros(len(rows), np.int64)
        return Level(0, cells, np.cumsum(counts) - counts, counts, self.ordinals[order], none)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far an index has come: stored in the same WriteBatch as the entries it speaks of."""

    changelog_offset: int = -1
    """Offset of the last applied changelog record; -1 before the first (always, for files)."""
    record_hash: bytes = b""
    """BLAKE2b-128 of that changelog record's value."""
    positions: Positions | None = None
    """Next offset to judge per partition; None before anything was judged."""
    next_batch: int = 0
    next_ordinal: int = 0
    highest_timestamp: int = -1
    horizon: int = 0
    """Documents below this ordinal are forgotten, also those that are still stored. Never falls."""


@dataclass(frozen=True, slots=True)
class Additions:
    """New documents for the index."""

    documents: Documents
    keys: U64
    """(n, c) the documents' keys: bands first, folded fingerprint last. An unsigned document's
    band columns are 0 and are not written: the sizes of their sets tell."""
    buckets: Buckets | None = None
    """What a probe of exactly these keys just found in the newest window, so that apply need not
    read again; None means apply reads them itself (restore)."""
    always: int = 1
    """How many of the last key columns every document has; the others, its bands, only a signed
    one has. Only the buckets of bands go on under longer keys."""
    records: Sequence[bytes] | None = None
    """What `format.encode_documents` makes of them, from who has written it elsewhere too; None
    means apply makes it itself."""


@dataclass(frozen=True, slots=True)
class Removals:
    """Documents that the index shall forget."""

    ordinals: I64
    """(n,) distinct; one that is not stored is passed over."""
    keys: U64
    """(n, c) the keys that they were added with; one that was not written is passed over."""
    signatures: U8
    """(n, k) of the documents: their longer keys are made of them."""
    ids: Sequence[str]
    """As they were added."""
    always: int = 1
    """As in `Additions`."""


@dataclass(frozen=True, slots=True)
class Changes:
    """One atomic write: what a batch adds and removes, its mark(s), and the new progress.

    Removals come before additions. A forgotten ordinal is never given to another document. Each
    document and each mark belongs to one window, by its number; what belongs to a window that is
    gone adds nothing. A window is gone once the horizon has reached the first ordinal of the next.
    """

    progress: Progress
    additions: Additions | None = None
    marks: tuple[BatchMark, ...] = ()
    removals: Removals | None = None
    opens: Window | None = None
    """The next window, which begins with this write; one that is known already is passed over. An
    index that holds nothing begins with it, whatever its number."""


@dataclass(frozen=True, slots=True)
class Applied:
    """What a write did, for the metrics: the core itself measures nothing."""

    documents: int = 0
    """Documents added (a known ordinal adds nothing and is not counted)."""
    longer: int = 0
    """Keys of documents that are listed under a longer key, because the bucket was full."""
    overflows: int = 0
    """Keys of documents that are listed nowhere, because the longest key's bucket was full."""
    faint: int = 0
    """Documents listed for fewer than `FAINT_BELOW` of their bands: copies may not meet them."""
    unlisted: int = 0
    """Those of them that are listed for none: no near-duplicate ever meets them."""
    removed: int = 0
    """Documents forgotten by themselves."""
    expired: int = 0
    """Documents that the horizon has passed."""


Meets = Callable[[I64, I64], Flags]
"""Rows of a batch and ordinals, (p,) each → whether the one may meet the other."""


class Readable(Protocol):
    """The reading half of an index."""

    @property
    def bucket_cap(self) -> int:
        """Return how many ordinals a bucket lists before it turns newcomers away."""

    def probe(
        self, keys: U64, present: Flags | None = None, signatures: U8 | None = None
    ) -> Buckets:
        """Return the buckets of *keys*, and with *signatures* what full ones turned away."""

    def fetch(self, ordinals: I64) -> Documents:
        """Return the documents under *ordinals*."""

    @property
    def progress(self) -> Progress:
        """Return how far the index has come, and what it has forgotten."""


class Index(Protocol):
    """The memory of one task. Not safe for use from two threads at once."""

    @property
    def bucket_cap(self) -> int:
        """Return how many ordinals a bucket lists before it turns newcomers away."""

    def probe(
        self, keys: U64, present: Flags | None = None, signatures: U8 | None = None
    ) -> Buckets:
        """Return the buckets of *keys* (n, c); where *present* (n, c) is False, nothing is read.

        With the documents' *signatures* (n, k), all columns but the last are of bands, and what
        their full buckets turned away is told, too.
        """

    def copies(self, keys: U64, asked: Flags, fingerprints: U8, meets: Meets) -> Copies:
        """Return stored documents that have one of n texts, word for word.

        If the text may meet any such document, there is at least one pair. A filter's index never
        holds two that one text may meet: the second was withheld.

        Args:
            keys: (n,) the folded fingerprints, which other texts may share.
            asked: (n,) where it is False, nothing is read.
            fingerprints: (n, 16) all of them, which nobody else has.
            meets: whom each may meet: a stored document may be forgotten.
        """

    def fetch(self, ordinals: I64) -> Documents:
        """Return the documents stored under *ordinals* (distinct, rising); absent ones left out."""

    @property
    def ids(self) -> bool:
        """Return whether documents are found by their ids: decided once, when it is made."""

    def named(self, ids: Sequence[str], most: int) -> list[I64]:
        """Return under which ordinals the *most* oldest documents of each of *ids* are stored.

        They rise. Also those that the horizon has passed, as long as they are stored. Only where
        `ids`.
        """

    def marks_covering(self, partitions: I64, offsets: I64) -> list[BatchMark | None]:
        """Return for each (partition, offset) the mark of the batch that first judged it."""

    def mark(self, number: int) -> BatchMark | None:
        """Return the mark of the batch *number*; None: its window is gone, or it is to come."""

    def apply(self, changes: Changes) -> Applied:
        """Write *changes* atomically. Applying an ordinal that is known adds nothing.

        New ordinals rise from write to write, and a full bucket turns away whoever comes later.
        A bucket that loses a member does not get back those that came when it was full; they
        stay under their longer keys, and the next newcomer takes the place.

        Raises:
            ValueError: the horizon falls, or the window that opens does not follow the newest or is
                one too many. Nothing was written.
        """

    def prepare(self) -> None:
        """Do ahead of the write that opens the next window what takes its time (RocksDB: 70 ms)."""

    @property
    def windows(self) -> tuple[Window, ...]:
        """Return the windows that are alive, the oldest first; at least one."""

    def drop_owed(self) -> None:
        """Owe nothing of a write that failed: who calls reads it again, from `progress` on."""

    @property
    def progress(self) -> Progress:
        """Return how far the index has come, as last written."""

    def __len__(self) -> int:
        """Return the number of documents that are remembered."""

    def close(self) -> None:
        """Release the directory and its lock."""
