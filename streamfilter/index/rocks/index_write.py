"""One write to the database: its entries, its counts, and the progress after it."""

from collections.abc import Iterable, Sequence
from functools import partial

import numpy as np
from msgspec import Struct
from msgspec.structs import astuple, replace
from numpy.typing import NDArray

from streamfilter.index.bands.bucket_writes import Joining, listed
from streamfilter.index.bands.buckets import Grouped, encoded_integers, found
from streamfilter.index.bands.page_writes import BucketTable
from streamfilter.index.bands.sorted_run import newest
from streamfilter.index.format import Entries, Lists, encode_documents, id_keys, names_of
from streamfilter.index.journal import (
    STANDING,
    StoredProgress,
    encode_mark,
    encode_standing,
    span_entries,
)
from streamfilter.index.protocol import Additions, Applied, Changes, Removals
from streamfilter.index.rocks.column_families import META
from streamfilter.index.rocks.window_tables import WindowTables
from streamfilter.index.windows import owner, parts_of
from streamfilter.model import BatchMark
from streamfilter.similarity.columns import I64

NOTHING: I64 = np.zeros(0, np.int64)


class WindowWrite(Struct, frozen=True):
    """The part of a write for one window: what is added and removed. It is made first.

    Example: the windows begin with the ordinals 0 and 10, and a write removes 4 and 12 and adds 20
    and 21. The first window's part removes 4. The second one's removes 12 and adds 20 and 21.
    """

    tables: WindowTables
    joining: Joining | None  # documents not stored yet, in rising order; and their keys
    removals: Removals | None  # documents that are stored, in rising order

    @property
    def added(self) -> I64:
        return NOTHING if self.joining is None else self.joining.additions.documents.ordinals

    @property
    def removed(self) -> I64:
        return NOTHING if self.removals is None else self.removals.ordinals

    def put(self, entries: Entries, *, cap: int) -> Applied:
        """Put the changes into *entries*; *cap* is that of the shortest keys' buckets."""
        tables, joining, removals = self.tables, self.joining, self.removals
        if joining is None and removals is None:
            return Applied()
        first_lists = tables.lists
        if joining is not None and joining.additions.buckets is not None and removals is None:
            first_lists = partial(_probed_lists, joining)
        table = BucketTable(cap, tables.lists, tables.runs.add)
        applied = listed(table, joining, removals, first_lists=first_lists)
        tables.runs.stage(entries, newest(table.changed))
        family, ids = tables.families.documents, tables.families.ids
        if joining is not None:
            documents, records = joining.additions.documents, joining.additions.records
            records = encode_documents(documents) if records is None else records
            entries.put(family, encoded_integers(documents.ordinals), records)
            if ids is not None:
                names = id_keys(names_of(documents), documents.ordinals.tolist())
                entries.put(ids, names, [b""] * len(names))
        if removals is not None:
            entries.delete(family, encoded_integers(removals.ordinals))
            if ids is not None:
                entries.delete(ids, id_keys(removals.names, removals.ordinals.tolist()))
        return applied


def window_writes(
    changes: Changes, windows: Sequence[WindowTables], *, highest: int
) -> list[WindowWrite]:
    """Return the part of *changes* of each of *windows*, the oldest first.

    Additions that are stored already, and removals that are not, are left out. *windows* are those
    that were alive, and the one that begins. Ordinals above *highest* were never stored.
    """
    added, removed = changes.additions, changes.removals
    new = _rows(added.documents.ordinals if added else NOTHING, windows)
    old = _rows(removed.ordinals if removed else NOTHING, windows)
    return [
        WindowWrite(
            each,
            _joining(each, added, rows, highest) if added and len(rows) else None,
            _leaving(each, removed, gone) if removed and len(gone) else None,
        )
        for each, rows, gone in zip(windows, new, old, strict=True)
    ]


def _rows(ordinals: I64, windows: Sequence[WindowTables]) -> list[NDArray[np.intp]]:
    """Return the rows of each window's *ordinals*: in rising order, and each ordinal once."""
    distinct, first = np.unique(ordinals, return_index=True)
    return [first[part] for part in parts_of(tuple(each.window for each in windows), distinct)]


def _joining(
    tables: WindowTables, additions: Additions, rows: NDArray[np.intp], highest: int
) -> Joining | None:
    ordinals = additions.documents.ordinals[rows]
    if ordinals[0] <= highest:  # only in a repeated restore
        rows = rows[~tables.stored_flags(ordinals)]
    if not len(rows):
        return None
    whole = len(rows) == len(additions.documents) and bool((np.diff(rows) == 1).all())
    return Joining.of(additions if whole else additions.at(rows))


def _leaving(tables: WindowTables, removals: Removals, rows: NDArray[np.intp]) -> Removals | None:
    rows = rows[tables.stored_flags(removals.ordinals[rows])]
    return removals.at(rows) if len(rows) else None


def _probed_lists(joining: Joining, grouped: Grouped) -> Lists:
    assert joining.additions.buckets is not None
    return found(joining.additions.buckets, joining.cells[grouped.first])


def encoded(
    changes: Changes,
    before: StoredProgress,
    *,
    dropped: Sequence[WindowTables],
    alive: Sequence[WindowTables],
    highest: int,
    cap: int,
) -> tuple[Entries, Applied, StoredProgress]:
    """Return the entries of *changes*, their counts, and the progress after them.

    The entries of *dropped* windows go with their families. *highest* is the highest ordinal ever.
    """
    entries = Entries()
    parts = window_writes(changes, (*dropped, *alive), highest=highest)
    removed = sum(int((each.removed >= before.progress.horizon).sum()) for each in parts)
    parts = parts[len(dropped) :]
    keys = sum(part.keys.size for part in (changes.additions, changes.removals) if part)
    for each in alive:
        each.runs.advance(entries, keys, newest_window=each is alive[-1])
    written = [each.put(entries, cap=cap) for each in parts]
    for mark in changes.marks:
        _put_mark(entries, mark, alive)
    known = dict(zip(before.windows, before.held, strict=True))
    held = tuple(
        known.get(part.tables.window, 0) + each.documents - len(part.removed)
        for part, each in zip(parts, written, strict=True)
    )
    # Each other window ends behind the horizon: only the oldest has documents before it.
    end, oldest = changes.progress.horizon, parts[0]
    passed = _passed(alive, before, end, highest)
    passed += int((oldest.added < end).sum()) - int((oldest.removed < end).sum())
    living = sum(held) - passed
    applied = _together(written)
    expired = before.documents + applied.documents - removed - living
    windows = tuple(each.window for each in alive)
    standing = StoredProgress(changes.progress, living, windows, held)
    entries.put(META, [STANDING], [encode_standing(standing)])
    return entries, replace(applied, removed=removed, expired=expired), standing


def _put_mark(entries: Entries, mark: BatchMark, alive: Sequence[WindowTables]) -> None:
    place = owner(tuple(each.window for each in alive), mark.number)
    if place >= 0:
        names = alive[place].families
        entries.put(names.batches, [mark.number.to_bytes(8, "big")], [encode_mark(mark)])
        for key, value in span_entries(mark):
            entries.put(names.spans, [key], [value])


def _passed(
    alive: Sequence[WindowTables], before: StoredProgress, horizon: int, highest: int
) -> int:
    """Return how many documents before *horizon* the oldest window holds.

    A horizon may jump by tens of millions of documents after a pause, and each write waits for this
    count. So only the window that contains the horizon is read, and only its smaller side.
    """
    oldest = alive[0]
    held = dict(zip(before.windows, before.held, strict=True)).get(oldest.window, 0)
    begin, known = oldest.window.first_ordinal, 0
    if oldest.window == before.windows[0]:
        begin = max(begin, before.progress.horizon)
        known = sum(before.held) - before.documents
    end = alive[1].window.first_ordinal if len(alive) > 1 else highest + 1
    if horizon - begin <= end - horizon:
        return known + oldest.stored(begin, horizon)
    return held - oldest.stored(horizon, end)


def _together(writes: Iterable[Applied]) -> Applied:
    return Applied(*map(sum, zip(*map(astuple, writes), strict=True)))
