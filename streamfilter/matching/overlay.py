"""The overlay: the buckets that documents of one micro-batch share among themselves.

Documents of a batch are candidates of each other as if each had been written to the index before
the next one arrived. Only keys that occur at least twice in the batch matter. Each such key is a
group: the rows that have it, in order. Only unique rows enter a bucket, and which rows are unique
is not known before the batch is judged. So the caller passes a guess, and the overlay returns what
each bucket would then list. Caps and longer keys are the same as in the index.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from streamfilter.index.bands.bucket_overflow import DEPTH, cap_at, longer
from streamfilter.index.bucket_levels import Level
from streamfilter.index.protocol import Buckets
from streamfilter.similarity.columns import I64, U8, U64, Flags, ranks, slices

NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class Groups:
    """Keys of one length that occur in at least two rows of the batch.

    Three rows with the keys 7, 9 and 7 in one column give one group with two entries: rows 0 and 2.
    """

    keys: U64
    """(e,) the entries' keys, group by group."""
    cells: I64
    """(e,) row * columns + column of each entry; rows rise within a group."""
    rows: I64
    groups: I64
    """(e,) rising."""
    begins: I64
    """(g,) first entry of each group."""
    room: I64
    """(g,) how many entries the group's bucket can list beside the index's documents."""

    @classmethod
    def of(cls, keys: U64, cells: I64, *, columns: int, room: I64) -> Groups:
        """Group equal *keys* (m,) of the rising *cells*, each with its bucket's *room*."""
        near = _near(keys)
        keys, cells, room = keys[near], cells[near], room[near]
        order = np.argsort(keys, kind="stable")
        ordered = keys[order]
        equal = ordered[1:] == ordered[:-1]
        shared = np.zeros(len(ordered), np.bool_)
        shared[1:] |= equal
        shared[:-1] |= equal
        chosen = order[shared]
        heads = np.concatenate(([True], keys[chosen][1:] != keys[chosen][:-1]))[: len(chosen)]
        begins = np.flatnonzero(heads)
        return cls(
            keys[chosen], cells[chosen], cells[chosen] // columns, np.cumsum(heads) - 1,
            begins, room[chosen[begins]],
        )  # fmt: skip

    def crowded(self) -> I64:
        """Return, by cell, the entries of groups that have more rows than their bucket has room."""
        sizes = np.diff(np.append(self.begins, len(self.rows)))
        entries = np.flatnonzero((sizes > self.room)[self.groups])
        return entries[np.argsort(self.cells[entries])]

    def listed(self, joining: I64) -> Flags:
        """Return which of the rising entries *joining* find room in their bucket."""
        groups = self.groups[joining]
        return np.asarray(ranks(groups) < self.room[groups])

    def met(self, depth: int, members: I64, asked: I64, *, first_ordinal: int) -> Level:
        """Return for each entry *asked* the *members* of its group that are in earlier rows.

        Both are rising entries. Row 0 of the batch has the ordinal *first_ordinal*. A group with
        rows 0, 2 and 5 whose members are 0 and 2: the entry of row 5 lists both.
        """
        stride = int(self.rows.max(initial=0)) + 1
        places = self.groups[members] * stride + self.rows[members]
        wanted = self.groups[asked]
        starts = np.searchsorted(places, wanted * stride)
        counts = np.searchsorted(places, wanted * stride + self.rows[asked]) - starts
        nobody = np.zeros(len(asked), np.int64)
        return Level(
            depth, self.cells[asked], starts, counts, self.rows[members] + first_ordinal, nobody
        )


def _near(keys: U64) -> I64:
    """Return the rising places of the *keys* that share their upper bits with another key.

    This is a fast filter before the exact grouping: most keys share them with none. The lower bits
    of each key are replaced by its place, so that a plain sort does the work of a slower argsort.
    The keys 7, 9 and 7 have the upper bits 1, 2 and 1: places 0 and 2 are returned.
    """
    bits = np.uint64(len(keys).bit_length())
    tagged = keys >> bits << bits
    tagged |= np.arange(len(keys), dtype=np.uint64)
    tagged.sort()
    upper = tagged >> bits
    near = np.zeros(len(keys), np.bool_)
    near[1:] = upper[1:] == upper[:-1]
    near[:-1] |= near[1:]
    places = tagged[near] & np.uint64((1 << int(bits)) - 1)
    return np.sort(places).astype(np.int64)


class Overlay:
    """Candidates within the batch, given which of its rows are unique."""

    def __init__(
        self, keys: U64, present: Flags, signatures: U8, buckets: Buckets, *, cap: int
    ) -> None:
        """Group equal *keys* (n, c) where *present*; *buckets* are the index's buckets of them."""
        self._columns, self._cells = keys.shape[1], keys.size
        cells = np.flatnonzero(present)
        room = cap - buckets.counts.reshape(-1)[cells].astype(np.int64)
        room[self._whole(cells)] = NEVER  # its bucket goes on in pages
        self._levels = [Groups.of(keys.reshape(-1)[cells], cells, columns=self._columns, room=room)]
        for depth in range(1, DEPTH + 1):
            level = self._one_longer(signatures, buckets, depth, cap_at(cap, depth))
            if not len(level.cells):
                break
            self._levels.append(level)

    def _one_longer(self, signatures: U8, buckets: Buckets, depth: int, cap: int) -> Groups:
        """Return the groups, under longer keys, of rows that may find the last level full."""
        above, columns = self._levels[-1], self._columns
        entries = above.crowded()
        entries = entries[above.cells[entries] % columns < columns - 1]
        cells = above.cells[entries]
        rows, at = np.divmod(cells, columns)
        room = np.full(len(cells), cap)
        if len(cells) and depth <= len(buckets.deeper):
            known = buckets.deeper[depth - 1]
            place = np.searchsorted(known.cells, cells).clip(max=len(known.cells) - 1)
            room -= np.where(known.cells[place] == cells, known.counts[place], 0)
        keys = above.keys[entries]
        if len(cells):
            keys = longer(keys, signatures[rows], at, bands=columns - 1, depth=depth)
        return Groups.of(keys, cells, columns=columns, room=room)

    def _whole(self, cells: I64) -> Flags:
        """Return which *cells* are in the last column: the keys of whole texts."""
        whole: Flags = cells % self._columns == self._columns - 1
        return whole

    def contended(
        self, forgotten: I64, buckets: Buckets, *, first_ordinal: int, cap: int
    ) -> tuple[I64, I64]:
        """Return pairs of a row and a *forgotten* ordinal that share a bucket which may be full.

        For a forgotten document of the batch itself only the next row of its bucket is returned:
        the first that it may keep out. A whole text's bucket also counts the documents that it had
        no room for. A forgotten document may be one of those, so it is paired with its own row.
        """
        rows, ordinals = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for level in (buckets.shortest, *buckets.deeper):
            most = cap_at(cap, level.depth)
            full = np.flatnonzero(level.counts + self._sharing(level.depth, level.cells) > most)
            counts = level.counts[full]
            listed = level.pool[slices(level.starts[full], counts)]
            gone = np.isin(listed, forgotten)
            rows.append(np.repeat(level.cells[full] // self._columns, counts)[gone])
            ordinals.append(listed[gone])
        shortest = self._levels[0]
        own = np.isin(shortest.rows + first_ordinal, forgotten)
        own &= np.isin(shortest.cells, shortest.cells[shortest.crowded()])
        before = np.flatnonzero(own[:-1] & (np.diff(shortest.groups) == 0))
        closed = self._closed(forgotten[forgotten >= first_ordinal] - first_ordinal, buckets, cap)
        rows += [shortest.rows[before + 1], closed]
        ordinals += [shortest.rows[before] + first_ordinal, closed + first_ordinal]
        return np.concatenate(rows), np.concatenate(ordinals)

    def _closed(self, rows: I64, buckets: Buckets, cap: int) -> I64:
        """Return the *rows* whose whole text's bucket is full, or will be within the batch."""
        cells = rows * self._columns + self._columns - 1
        listed = buckets.counts[rows, -1].astype(np.int64) + self._sharing(0, cells)
        closed: I64 = rows[(listed > cap) | (buckets.overflows[rows, -1] > 0)]
        return closed

    def _sharing(self, depth: int, cells: I64) -> I64:
        """Return for each cell how many rows of the batch have its key at this *depth*."""
        sharing = np.ones(self._cells, np.int64)
        if depth < len(self._levels):
            groups = self._levels[depth]
            sizes = np.diff(np.append(groups.begins, len(groups.rows)))
            sharing[groups.cells] = sizes[groups.groups]
        return sharing[cells]

    def levels(self, unique: Flags, asked: Flags, *, first_ordinal: int) -> list[Level]:
        """Return the candidates of the *asked* rows among earlier rows, if *unique* is right.

        Under the key of its whole text a row gets only the latest earlier row. A text can be unique
        again only after its earlier copies were forgotten, and they stay forgotten.
        """
        levels: list[Level] = []
        away: I64 | None = None
        for depth, level in enumerate(self._levels):
            joins = unique[level.rows]
            if away is not None:
                joins &= np.isin(level.cells, away)
            joining = np.flatnonzero(joins)
            if not joining.size:
                break  # as in a batch's first round, where no row is unique yet
            found = level.listed(joining)
            asking = np.flatnonzero(asked[level.rows])
            met = level.met(depth, joining[found], asking, first_ordinal=first_ordinal)
            levels.append(met.latest(self._whole(met.cells)))
            away = level.cells[joining[~found]]
            if not len(away):
                break
        return levels

    def unsettled(self, changed: Flags, undecided: Flags) -> Flags:
        """Return which *undecided* rows may still change, if the guess was wrong for *changed*.

        The content of a bucket depends only on the rows that share its shortest key. So the rows
        behind a changed one in its group may change too, and then those behind them.
        """
        shortest = self._levels[0]
        unsettled = np.zeros(len(undecided), np.bool_)
        if not shortest.begins.size:
            return unsettled
        while True:
            doubtful = (changed | unsettled)[shortest.rows]
            firsts = np.minimum.reduceat(np.where(doubtful, shortest.rows, NEVER), shortest.begins)
            touched = shortest.rows[shortest.rows > firsts[shortest.groups]]
            before = int(unsettled.sum())
            unsettled[touched] = True
            unsettled &= undecided
            if int(unsettled.sum()) == before:
                return unsettled
