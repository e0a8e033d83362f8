"""One write to the database: its entries, its counts, and the progress after it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import astuple, replace

from streamfilter.index.format import Entries
from streamfilter.index.journal import (
    STANDING,
    StoredProgress,
    encode_mark,
    encode_standing,
    span_entries,
)
from streamfilter.index.protocol import Applied, Changes
from streamfilter.index.rocks.column_families import META
from streamfilter.index.rocks.window_tables import WindowTables
from streamfilter.index.rocks.window_write import window_writes
from streamfilter.index.windows import owner
from streamfilter.model import BatchMark


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
