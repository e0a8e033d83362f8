"""The interface of an index. RocksDB and a plain dictionary implement it.

An index has two maps. The first maps a 64-bit key to a bucket: the ordinals of the oldest
documents with that key. A key is a band key, or the folded content fingerprint, which is treated
as one more band. When a bucket is full, later documents are listed under longer keys
(`bands/bucket_overflow.py`). The second map leads from an ordinal to the stored document. Reading
changes nothing. `apply` atomically writes one batch and the changelog position it came from.

An index that forgets is divided into windows. Each window indexes only its own documents: no
bucket or longer key is shared between windows. So a window is dropped as a whole. The rest is
byte for byte the index that one would have built by starting with the oldest window left.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace
from numpy.typing import NDArray

from streamfilter.index.bucket_levels import Level
from streamfilter.index.progress import Progress
from streamfilter.model import BatchMark, Window
from streamfilter.similarity.columns import I64, U8, U64, Contents, Flags, distinct

Rows = NDArray[np.intp]  # rows of columns, each with everything that belongs to it

WINDOWS_MAX = 5  # windows that may be alive at a time. Every probe reads each of them

FAINT_BELOW = 4
"""A document in fewer bands counts as faint. A copy of similarity .84 shares one of 3 bands (6
slots each) with probability .73, and one of 4 bands with .82."""


class Documents(Struct, frozen=True):
    """The stored data of n documents, as columns; row i is one document."""

    ordinals: I64  # (n,) place in the order of judgement
    ids: Sequence[str]
    batches: I64  # (n,) number of the batch that judged it
    partitions: I64  # (n,) input partition (for files: the input's number in the source table)
    offsets: I64  # (n,) offset in that partition (for files: line number)
    timestamps: I64  # (n,) of the record, milliseconds since the epoch (stored in seconds)
    contents: Contents  # what is compared; an unsigned (too short) document has a set of 0

    def __len__(self) -> int:
        return len(self.ordinals)

    def at(self, rows: Rows) -> Documents:
        """Return the documents in *rows*, in the order given."""
        ids = [self.ids[i] for i in rows.tolist()]
        record = (self.batches[rows], self.partitions[rows], self.offsets[rows])
        times, contents = self.timestamps[rows], self.contents.at(rows)
        return Documents(self.ordinals[rows], ids, *record, times, contents)


class Buckets(Struct, frozen=True):
    """The answer of a probe: for n documents and c key columns, each bucket's ordinals in order.

    Two documents, two columns. Document 0 has the keys A and B, document 1 has the keys A and C.
    Bucket A lists the ordinals 3 and 7, bucket B lists 5, and bucket C does not exist:

        pool 3 7 5 | counts (2 1), (2 0) | starts (0 2), (0 0)
    """

    counts: U8  # (n, c) ordinals in the bucket of document i's key in column j (0: no bucket)
    starts: I64  # (n, c) where the ordinals begin in the pool; equal keys share a list
    pool: I64  # the buckets' ordinals, each bucket's oldest first
    overflows: I64  # (n, c) how many documents did not fit into the bucket
    deeper: tuple[Level, ...] = ()  # of longer keys, by their length; only with signatures
    older: tuple[Buckets, ...] = ()
    """The answers of the older windows, the oldest first. All other fields are of the newest
    window, whose buckets will list the judged documents."""

    @property
    def windows(self) -> tuple[Buckets, ...]:
        """Return the answer of each window, the oldest first."""
        return (*self.older, self)

    def after(self, older: Sequence[Buckets]) -> Buckets:
        """Return this answer with the answers of the *older* windows added."""
        return replace(self, older=tuple(older))

    def aged(self) -> Buckets:
        """Return this answer as an older window's, behind the empty answer of a new window."""
        zeros = np.zeros(self.counts.shape, np.int64)
        nothing = Buckets(np.zeros_like(self.counts), zeros, self.pool[:0], zeros)
        return nothing.after((*self.older, self.after(())))

    @property
    def full(self) -> Flags:
        """Return (n, c): True where documents did not fit into the bucket."""
        full: Flags = self.overflows > 0
        return full

    @property
    def shortest(self) -> Level:
        """Return the non-empty buckets of the shortest keys, as a `Level` of depth 0."""
        cells = np.flatnonzero(self.counts)
        counts, starts, overflows = (
            column.reshape(-1)[cells].astype(np.int64)
            for column in (self.counts, self.starts, self.overflows)
        )
        return Level(0, cells, starts, counts, self.pool, overflows)

    @property
    def levels(self) -> tuple[Level, ...]:
        """Return the levels of all windows.

        Together their lists may exceed one bucket's cap. They are not cut: documents of a later
        window under the same key have no longer key there.
        """
        return tuple(level for each in self.windows for level in (each.shortest, *each.deeper))

    def levels_beside(self, copies: Copies) -> tuple[Level, ...]:
        """Return the levels of all band keys, and *copies* as the level of the last column."""
        columns = self.counts.shape[1]
        return (*(level.of_bands(columns) for level in self.levels), copies.level(columns))

    @property
    def ordinals(self) -> I64:
        """Return (counts.sum(),): the ordinals under the shortest keys, by row, then column."""
        return self.shortest.ordinals

    def at(self, rows: Rows) -> Buckets:
        """Return the buckets of *rows*, in the order given; not what full ones turned away."""
        return Buckets(self.counts[rows], self.starts[rows], self.pool, self.overflows[rows])


class Copies(Struct, frozen=True):
    """Pairs of a document of a batch and a stored document with exactly the same text."""

    rows: I64  # (p,) rows of the batch
    ordinals: I64  # (p,) ordinals of the stored documents

    def level(self, columns: int) -> Level:
        """Return the pairs as the level of the last of *columns* columns."""
        order = np.argsort(self.rows, kind="stable")
        rows = distinct(self.rows)
        counts = np.bincount(np.searchsorted(rows, self.rows), minlength=len(rows))
        cells, none = rows * columns + columns - 1, np.zeros(len(rows), np.int64)
        return Level(0, cells, np.cumsum(counts) - counts, counts, self.ordinals[order], none)


class Additions(Struct, frozen=True):
    """New documents for the index."""

    documents: Documents
    keys: U64
    """(n, c) the documents' keys: bands first, folded fingerprint last. In an unsigned document
    (set size 0) the band columns are 0 and are not written."""
    buckets: Buckets | None = None
    """The answer of a probe of exactly these keys, read just before from the newest window. With
    None, `apply` reads the buckets itself (restore)."""
    always: int = 1
    """How many of the last key columns every document has. The others are bands: only signed
    documents have them, and only their buckets continue under longer keys."""
    records: Sequence[bytes] | None = None  # by `format.encode_documents`; None: not encoded yet

    def at(self, rows: Rows) -> Additions:
        return replace(
            self,
            documents=self.documents.at(rows),
            keys=self.keys[rows],
            buckets=self.buckets and self.buckets.at(rows),
            records=self.records and [self.records[i] for i in rows.tolist()],
        )


class Removals(Struct, frozen=True):
    """Documents to remove from the index."""

    ordinals: I64  # (n,) distinct; an ordinal that is not stored is ignored
    keys: U64
    """(n, c) the keys that the documents were added with; a key that was not written is ignored."""
    signatures: U8  # (n, k) from which their longer keys are computed (`Contents.splitters`)
    names: Sequence[Sequence[bytes]]  # by which each document is found (`format.names_of`)
    always: int = 1  # as in `Additions`

    def at(self, rows: Rows) -> Removals:
        names = [self.names[i] for i in rows.tolist()]
        columns = (self.ordinals[rows], self.keys[rows], self.signatures[rows])
        return Removals(*columns, names, self.always)


class Changes(Struct, frozen=True):
    """One atomic write: what a batch adds and removes, its mark(s), and the new progress.

    Removals are applied before additions. A forgotten ordinal is never reused. The number of a
    document or a mark decides which window it belongs to. A document or mark of a dropped window
    is not added. A window is dropped when the horizon reaches the first ordinal of the next one.
    """

    progress: Progress
    additions: Additions | None = None
    marks: tuple[BatchMark, ...] = ()
    removals: Removals | None = None
    opens: Window | None = None
    """The window that begins with this write; one that exists is ignored. An empty index begins
    with it, whatever its number."""


class Applied(Struct, frozen=True):
    """Counts of one write, for the metrics: the core itself measures nothing."""

    documents: int = 0  # documents added (a known ordinal adds nothing and is not counted)
    longer: int = 0  # keys under which a document is listed only in longer form
    overflows: int = 0  # keys under which a document is not listed, at any length
    faint: int = 0  # documents listed for fewer than `FAINT_BELOW` of their bands
    unlisted: int = 0  # documents listed for none of their bands: not found. Part of `faint`
    removed: int = 0  # documents forgotten one by one (`Removals`)
    expired: int = 0  # documents that the horizon has passed


class Usage(Struct, frozen=True):
    """The disk usage of an index, and its own figures."""

    index: int
    free: int  # free bytes on its file system
    oldest: int = -1  # timestamp of the first remembered document, in milliseconds; -1: unknown
    properties: Mapping[str, float] = field(default_factory=dict)
    """RocksDB's own figures, by the names of `catalogue.ROCKSDB`."""


Meets = Callable[[I64, I64], Flags]  # rows and ordinals, (p,) each → which may be compared


class Readable(Protocol):
    """All that can be read of an index: both maps, and what was judged."""

    @property
    def bucket_cap(self) -> int:
        """Return how many ordinals a bucket of the shortest keys lists at most."""

    def probe(
        self, keys: U64, present: Flags | None = None, signatures: U8 | None = None
    ) -> Buckets:
        """Return the buckets of *keys* (n, c); where *present* (n, c) is False, nothing is read.

        With the documents' *signatures* (n, k), or rather their `splitters`, all columns but the
        last are bands. Where the bucket of a band is full, those of longer keys are returned too.
        """

    def copies(self, keys: U64, asked: Flags, fingerprints: U8, meets: Meets) -> Copies:
        """Return stored documents whose text equals one of n texts.

        If a text may be compared with any such document, at least one pair is returned for it. A
        filter's index never holds two that the same text may be compared with, because the second
        was withheld.

        Args:
            keys: (n,) the folded fingerprints; different texts may share one.
            asked: (n,) where it is False, nothing is read.
            fingerprints: (n, 16) the full fingerprints; different texts have different ones.
            meets: Which pairs may be compared: a stored document may be forgotten already.
        """

    def fetch(self, ordinals: I64) -> Documents:
        """Return the documents stored under *ordinals* (distinct, rising); absent ones left out."""

    @property
    def ids(self) -> bool:
        """Return whether the index can find documents by id: decided when it is created."""

    def named(self, names: Sequence[bytes], most: int, since: int = 0) -> list[I64]:
        """Return the ordinals, from *since* on, of the *most* oldest documents of each of *names*.

        They rise. Documents that the horizon has passed are included as long as they are stored.
        A name without a scope (`format.name_of`) finds the documents of all scopes: then they are
        not the oldest, and *since* must be 0. Call it only if `ids` is true.
        """

    def __len__(self) -> int:
        """Return the number of documents that are remembered."""

    @property
    def progress(self) -> Progress:
        """Return the index's position and its horizon, as last written."""

    @property
    def windows(self) -> tuple[Window, ...]:
        """Return the windows that are alive, the oldest first; at least one."""

    def marks_covering(self, partitions: I64, offsets: I64) -> list[BatchMark | None]:
        """Return for each (partition, offset) the mark of the batch that first judged it."""

    def mark(self, number: int) -> BatchMark | None:
        """Return the mark of the batch *number*; None: its window is dropped, or it is to come."""

    def fact(self, name: str) -> bytes | None:
        """Return the fact about the index that was stored under *name*; None: there is none."""


class Index(Readable, Protocol):
    """The memory of one task, for its owner. Not safe for use from two threads at once."""

    def apply(self, changes: Changes) -> Applied:
        """Write *changes* atomically. Applying an ordinal that is known adds nothing.

        New ordinals rise from write to write. A full bucket does not take later documents: they are
        listed under longer keys. If a bucket loses a member, these documents stay under their
        longer keys, and the next new document takes the free place. Raises `ValueError`: the
        horizon falls, or the window that opens does not follow the newest or is one too many.
        Nothing was written.
        """

    def prepare(self) -> None:
        """Create the next window's tables before the write that opens it (RocksDB: 70 ms)."""

    def drop_owed(self) -> None:
        """Give up a failed write: the caller reads its input again, from `progress` on."""

    def remember(self, name: str, value: bytes) -> None:
        """Store a fact about the index itself under *name*, and wait for the disk."""

    def checkpoint(self) -> Path:
        """Return a directory with links to the files of the index as it is now; delete it soon.

        Raises `IndexFault`: the index has no files, or its disk is full.
        """

    def usage(self) -> Usage:
        """Return what the index takes on its disk."""

    def close(self) -> None:
        """Release the directory and its lock."""
