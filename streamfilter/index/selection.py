"""Rows of columns: some of the additions, with everything that belongs to them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from streamfilter.index.protocol import Additions, Buckets, Documents, Removals


def subset(additions: Additions, rows: NDArray[np.intp]) -> Additions:
    """Return the *rows* of *additions*, in the order given."""
    buckets, records = additions.buckets, additions.records
    return replace(
        additions,
        documents=documents_at(additions.documents, rows),
        keys=additions.keys[rows],
        buckets=buckets_at(buckets, rows) if buckets is not None else None,
        records=[records[i] for i in rows.tolist()] if records is not None else None,
    )


def removals_at(removals: Removals, rows: NDArray[np.intp]) -> Removals:
    """Return the *rows* of *removals*, in the order given."""
    return replace(
        removals,
        ordinals=removals.ordinals[rows],
        keys=removals.keys[rows],
        signatures=removals.signatures[rows],
        names=[removals.names[i] for i in rows.tolist()],
    )


def documents_at(documents: Documents, rows: NDArray[np.intp]) -> Documents:
    """Return the *rows* of *documents*, in the order given."""
    return Documents(
        ordinals=documents.ordinals[rows],
        ids=[documents.ids[i] for i in rows.tolist()],
        batches=documents.batches[rows],
        partitions=documents.partitions[rows],
        offsets=documents.offsets[rows],
        timestamps=documents.timestamps[rows],
        contents=documents.contents.at(rows),
    )


def buckets_at(buckets: Buckets, rows: NDArray[np.intp]) -> Buckets:
    """Return the *rows* of *buckets*, in the order given; not what full ones turned away."""
    columns = (buckets.counts[rows], buckets.starts[rows])
    return Buckets(*columns, buckets.pool, buckets.overflows[rows])
