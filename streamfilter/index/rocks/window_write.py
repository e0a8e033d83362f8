"""The entries of one write in one window: its documents, and the buckets that list them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import astuple
from functools import partial

import numpy as np

from streamfilter.index.bands.bucket_writes import listed
from streamfilter.index.bands.buckets import Grouped, encoded_integers, found, written
from streamfilter.index.format import Lists, encode_documents
from streamfilter.index.protocol import Additions, Applied, Buckets, Removals
from streamfilter.index.rocks.column_families import id_keys
from streamfilter.index.rocks.entries import Entries
from streamfilter.index.rocks.window_tables import WindowTables
from streamfilter.similarity.columns import Flags


def put_changed(
    entries: Entries,
    tables: WindowTables,
    additions: Additions | None,
    removals: Removals | None,
    *,
    cap: int,
) -> Applied:
    """Put into *entries* the changes of one window by its own *removals* and *additions*.

    Args:
        entries: Of the write.
        tables: The window's.
        additions: Documents that are not stored yet.
        removals: Documents that are.
        cap: Of the shortest keys' buckets.
    """
    removals = removals if removals is not None and len(removals.ordinals) else None
    if additions is None and removals is None:
        return Applied()
    first_lists = tables.lists
    if additions is not None and additions.buckets is not None and removals is None:
        first_lists = partial(_probed_lists, additions.buckets, written(additions))
    applied = listed(
        entries, tables.families.bands, additions, removals, first_lists=first_lists,
        lists_of=tables.lists, about_to_write=tables.about_to_write, cap=cap,
    )  # fmt: skip
    family, ids = tables.families.documents, tables.families.ids
    if additions is not None:
        documents = additions.documents
        entries.put(family, encoded_integers(documents.ordinals), records_of(additions))
        if ids is not None:
            names = id_keys(documents.ids, documents.ordinals.tolist())
            entries.put(ids, names, [b""] * len(names))
    if removals is not None:
        entries.delete(family, encoded_integers(removals.ordinals))
        if ids is not None:
            entries.delete(ids, id_keys(removals.ids, removals.ordinals.tolist()))
    return applied


def records_of(additions: Additions) -> Sequence[bytes]:
    """Return the record of each document."""
    records = additions.records
    return encode_documents(additions.documents) if records is None else records


def _probed_lists(
    buckets: Buckets, present: Flags, grouped: Grouped, names: Sequence[bytes]
) -> Lists:
    """Return the buckets from a probe of the same keys."""
    return found(buckets, np.flatnonzero(present)[grouped.first])


def together(writes: Iterable[Applied]) -> Applied:
    """Return the sums of the counts of all windows."""
    return Applied(*map(sum, zip(*map(astuple, writes), strict=True)))
