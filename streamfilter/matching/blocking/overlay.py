"""The overlay: the buckets that documents of one micro-batch share among themselves.

Documents of a batch are candidates of each other as if each had been written to the index before
the next one arrived. Only keys that occur at least twice in the batch matter. Each such key is a
group: the rows that have it, in order. Only unique rows enter a bucket, and which rows are unique
is not known before the batch is judged. So the caller passes a guess, and the overlay returns what
each bucket would then list. Caps and longer keys are the same as in the index.

If the batch forgets documents, they leave their buckets in between (`leaving`). A row finds the
places as they are at its time. A write removes all of them before it adds, so the batch must end
early (`cut`) if that would list a row elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from streamfilter.index.bands.bucket_overflow import DEPTH, cap_at, longer
from streamfilter.index.bucket_levels import Level
from streamfilter.index.protocol import Buckets
from streamfilter.matching.blocking.forgetting import NEVER, NO_TOMBSTONES, Forgetting
from streamfilter.matching.blocking.leaving import first_misplaced, first_paged, places
from streamfilter.similarity.columns import I64, U8, U64, Flags, ranks

TABLE_SPACE = 12  # entries for each key in the table of upper bits: one key in 12 shares them
TABLE_BITS_MAX = 22  # 16 MiB; more keys share them in a larger batch

Leaving = tuple[I64, I64, I64]
"""(d,) each: cell and ordinal of each forgotten document in a list, and the row from which on it
is gone."""


class Groups(Struct, frozen=True):
    """Keys of one length that occur in at least two rows of the batch, or that are kept.

    Three rows with the keys 7, 9 and 7 in one column give one group with two entries: rows 0 and 2.
    """

    keys: U64  # (e,) the entries' keys, group by group
    cells: I64  # (e,) row * columns + column of each entry; rows rise within a group
    rows: I64
    groups: I64  # (e,) rising
    begins: I64  # (g,) first entry of each group
    room: I64  # (g,) how many entries the group's bucket can list beside the index's documents
    leaving: Mapping[int, Sequence[int]] = field(default_factory=dict)
    """Full group that documents leave → the rows from which on stored ones are gone."""
    until: Sequence[int] = ()  # the row from which on each row of the batch is gone, or `NEVER`

    @classmethod
    def of(
        cls, keys: U64, cells: I64, *, columns: int, room: I64, kept: Flags | None = None
    ) -> Groups:
        """Group equal *keys* (m,) of the rising *cells*; a *kept* key may be in one row alone."""
        near = _near(keys)
        if kept is not None:
            near = np.union1d(near, np.flatnonzero(kept))
        keys, cells, room = keys[near], cells[near], room[near]
        order = np.argsort(keys, kind="stable")
        ordered = keys[order]
        equal = ordered[1:] == ordered[:-1]
        shared = np.zeros(len(ordered), np.bool_)
        shared[1:] |= equal
        shared[:-1] |= equal
        if kept is not None:
            shared |= kept[near][order]
        chosen = order[shared]
        heads = np.concatenate(([True], keys[chosen][1:] != keys[chosen][:-1]))[: len(chosen)]
        begins = np.flatnonzero(heads)
        return cls(
            keys[chosen], cells[chosen], cells[chosen] // columns, np.cumsum(heads) - 1,
            begins, room[chosen[begins]],
        )  # fmt: skip

    def crowded(self) -> I64:
        """Return, by cell, the entries of groups that have more rows than their bucket has room."""
        entries = np.flatnonzero(self.full[self.groups])
        return entries[np.argsort(self.cells[entries])]

    @property
    def full(self) -> Flags:
        """Return (g,): whether the group has more rows than its bucket has room."""
        full: Flags = np.diff(np.append(self.begins, len(self.rows))) > self.room
        return full

    def left_by(self, stored: Leaving | None, until: I64) -> Groups:
        """Return the groups with what leaves them; *stored* leave the index's lists."""
        left: dict[int, set[tuple[int, int]]] = {}
        full = self.full
        for entry in np.flatnonzero(full[self.groups] & (until[self.rows] < NEVER)).tolist():
            left.setdefault(int(self.groups[entry]), set())
        if stored is not None and len(stored[0]):
            cells, ordinals, rows = stored
            order = np.argsort(self.cells)
            at = np.searchsorted(self.cells[order], cells).clip(max=len(order) - 1)
            ours = order[at] if len(order) else at[:0]
            known = self.cells[ours] == cells[: len(ours)]
            groups = self.groups[ours[known]]
            for group, ordinal, row in zip(
                groups.tolist(), ordinals[known].tolist(), rows[known].tolist(), strict=True
            ):
                if full[group]:
                    left.setdefault(group, set()).add((ordinal, row))
        leaving = {group: [row for _, row in found] for group, found in left.items()}
        return replace(self, leaving=leaving, until=until.tolist())

    def listed(self, joining: I64) -> Flags:
        """Return which of the rising entries *joining* find room in their bucket."""
        groups = self.groups[joining]
        found = np.asarray(ranks(groups) < self.room[groups])
        for group, stored in self.leaving.items():
            part = slice(*np.searchsorted(groups, [group, group + 1]))
            rows = self.rows[joining[part]].tolist()
            found[part] = places(rows, int(self.room[group]), stored, self.until)
        return found

    def misplaced(self, joining: I64) -> int:
        """Return the row before which the batch must end; `NEVER`: a write lists all as here."""
        groups = self.groups[joining]
        ends = [NEVER]
        for group, stored in self.leaving.items():
            part = slice(*np.searchsorted(groups, [group, group + 1]))
            rows = self.rows[joining[part]].tolist()
            ends.append(first_misplaced(rows, int(self.room[group]), stored, self.until))
        return min(ends)

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

    This is a fast filter before the exact grouping: most keys share them with none. Each key writes
    its place into a table at its upper bits; a key that reads another place there shares them with
    the key at that place. The upper bits 1, 2 and 1: the table has place 2 at 1, so key 0 shares
    them with key 2.
    """
    bits = min((TABLE_SPACE * len(keys)).bit_length(), TABLE_BITS_MAX)
    upper = (keys >> np.uint64(64 - bits)).astype(np.intp)
    places = np.arange(len(keys), dtype=np.int32)
    table = np.empty(1 << bits, np.int32)
    table[upper] = places
    there = table[upper]
    near = there != places
    near[there[near]] = True
    return np.flatnonzero(near)


def _leaving(level: Level, forgetting: Forgetting) -> Leaving:
    """Return the forgotten documents that leave a list of *level*."""
    listed = level.ordinals
    at = np.searchsorted(forgetting.ordinals, listed).clip(max=len(forgetting.ordinals) - 1)
    gone = forgetting.ordinals[at] == listed
    return level.askers[gone], listed[gone], forgetting.rows[at[gone]]


class Overlay:
    """Candidates within the batch, given which of its rows are unique."""

    def __init__(
        self,
        keys: U64,
        present: Flags,
        signatures: U8,
        buckets: Buckets,
        *,
        cap: int,
        kept: Flags,
        forgetting: Forgetting = NO_TOMBSTONES,
    ) -> None:
        """Group equal *keys* (n, c) where *present*; *buckets* are the index's buckets of them.

        Rows that are *kept* are listed under their whole text, though no row finds them there.
        """
        self._columns, self._cap, self._forgetting = keys.shape[1], cap, forgetting
        self._buckets, self._keys = buckets, keys
        self._listed = present[:, -1] | kept
        self._until = forgetting.until(len(keys))
        levels = (buckets.shortest, *buckets.deeper) if len(forgetting.ordinals) else ()
        self._left = [_leaving(level, forgetting) for level in levels]
        cells = np.flatnonzero(present)
        room = cap - buckets.counts.reshape(-1)[cells].astype(np.int64)
        needed = self._kept(0, cells, room)
        room[self._whole(cells)] = NEVER  # its bucket goes on in pages
        self._levels: list[Groups] = []
        self._add(keys.reshape(-1)[cells], cells, room, needed)
        for depth in range(1, DEPTH + 1):
            self._one_longer(signatures, buckets, depth, cap_at(cap, depth))
            if not len(self._levels[-1].cells):
                self._levels.pop()
                break

    def _kept(self, depth: int, cells: I64, room: I64) -> Flags | None:
        """Return which *cells* find a full bucket, if a document leaves it or a longer key's."""
        left = [cells_left for cells_left, _, _ in self._left[depth:]]
        if not left:
            return None
        kept: Flags = np.isin(cells, np.concatenate(left)) & (room <= 0)
        return kept

    def _add(self, keys: U64, cells: I64, room: I64, kept: Flags | None) -> None:
        """Add the groups of the next longer keys."""
        groups = Groups.of(keys, cells, columns=self._columns, room=room, kept=kept)
        if len(self._forgetting.ordinals):
            depth = len(self._levels)
            stored = self._left[depth] if depth < len(self._left) else None
            groups = groups.left_by(stored, self._until)
        self._levels.append(groups)

    def _one_longer(self, signatures: U8, buckets: Buckets, depth: int, cap: int) -> None:
        """Add the groups, under longer keys, of rows that may find the last level full."""
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
        self._add(keys, cells, room, self._kept(depth, cells, room))

    def _whole(self, cells: I64) -> Flags:
        whole: Flags = cells % self._columns == self._columns - 1
        return whole

    def cut(self, unique: Flags) -> int:
        """Return the row before which the batch must end; `NEVER`: it need not.

        *unique* are the final verdicts. A write removes all forgotten documents before it adds the
        others in their order. If it would then list one elsewhere, the batch ends before the
        record that frees the place.
        """
        if not len(self._forgetting.ordinals):
            return NEVER
        ends, away = [self._cut_of_whole(unique)], None
        for level in self._levels:
            joins = unique[level.rows]
            if away is not None:
                joins &= np.isin(level.cells, away)
            joining = np.flatnonzero(joins)
            ends.append(level.misplaced(joining))
            away = level.cells[joining[~level.listed(joining)]]
        return min(ends)

    def _cut_of_whole(self, unique: Flags) -> int:
        """Return the same for the buckets of whole texts, which close once they were full."""
        buckets, ends = self._buckets, [NEVER]
        texts: dict[int, list[int]] = {}
        for row in np.flatnonzero(unique & self._listed).tolist():
            texts.setdefault(int(self._keys[row, -1]), []).append(row)
        until = self._until.tolist()
        for rows in texts.values():
            listed = int(buckets.counts[rows[0], -1])
            closed = bool(buckets.overflows[rows[0], -1])
            if not closed and listed + len(rows) <= self._cap:
                continue
            start = int(buckets.starts[rows[0], -1])
            theirs = buckets.pool[start : start + listed]
            stored = self._forgetting.rows[np.isin(self._forgetting.ordinals, theirs)].tolist()
            ends.append(first_paged(rows, self._cap - listed, stored, until, closed=closed))
        return min(ends)

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
