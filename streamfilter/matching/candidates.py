"""Candidates: which earlier documents share a bucket with a document, and in how many bands.

They come from two places that behave as one: the index, and the overlay, the documents of this
very micro-batch that are unique. A bucket lists a bounded number of documents, the index's
first, then the overlay's, in the order of judgement; who finds it full goes on to a longer key.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from streamfilter.index.protocol import Buckets
from streamfilter.similarity.columns import I64, Flags

_ORDINAL_BITS = 40
"""An ordinal has no more (`index.format`), so that one integer sorts by row, then ordinal."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """Distinct (document, candidate) pairs, by document, then most bands, then oldest."""

    rows: I64
    """(p,) row of the document in the micro-batch, rising."""
    ordinals: I64
    """(p,) the candidate's ordinal."""
    bands: I64
    """(p,) band keys that the two share."""
    same_text: Flags
    """(p,) True where the folded content fingerprints are equal."""

    def __len__(self) -> int:
        return len(self.rows)

    def where(self, chosen: Flags | I64) -> Candidates:
        """Return the chosen pairs, in their order."""
        return Candidates(
            self.rows[chosen], self.ordinals[chosen], self.bands[chosen], self.same_text[chosen]
        )


@dataclass(frozen=True, slots=True)
class Hits:
    """Single key equalities: document *rows[h]* met *ordinals[h]* in one key column."""

    rows: I64
    ordinals: I64
    same_text: Flags
    """True where the column is that of the content fingerprint."""


def hits_of(buckets: Buckets) -> Hits:
    """Return the hits that a probe of the index found, in all windows, under keys of all lengths.

    Lists of several windows are not cut to one bucket's cap: an old window's full bucket would hide
    from view what later ones list under the same key, and there they have no longer key to go to.
    """
    columns = buckets.counts.shape[1]
    cells, ordinals = buckets.cells, buckets.ordinals
    if buckets.older or buckets.deeper:
        levels = [level for window in buckets.windows for level in window.deeper]
        cells = np.concatenate(
            [window.cells for window in buckets.windows]
            + [np.repeat(level.cells, level.counts) for level in levels]
        )
        ordinals = np.concatenate(
            [window.ordinals for window in buckets.windows] + [level.ordinals for level in levels]
        )
    return Hits(cells // columns, ordinals, cells % columns == columns - 1)


def collect(hits: Hits) -> Candidates:
    """Gather hits into distinct pairs and put them in the order in which they are verified."""
    order = np.argsort(hits.rows << _ORDINAL_BITS | hits.ordinals)
    rows, ordinals, same_text = hits.rows[order], hits.ordinals[order], hits.same_text[order]
    first = np.ones(len(rows), bool)
    first[1:] = (rows[1:] != rows[:-1]) | (ordinals[1:] != ordinals[:-1])
    begins = np.flatnonzero(first)
    if not begins.size:
        return Candidates(rows, ordinals, np.zeros(0, np.int64), same_text)
    bands = np.add.reduceat((~same_text).astype(np.int64), begins)
    same = np.logical_or.reduceat(same_text, begins)
    rows, ordinals = rows[begins], ordinals[begins]
    stride = int(bands.max()) + 1
    best = np.argsort(rows * stride + (stride - 1 - bands), kind="stable")
    return Candidates(rows[best], ordinals[best], bands[best], same[best])


def merge(one: Candidates, other: Candidates) -> Candidates:
    """Return the pairs of both, which have none in common, in the order of verification."""
    rows = np.concatenate((one.rows, other.rows))
    ordinals = np.concatenate((one.ordinals, other.ordinals))
    bands = np.concatenate((one.bands, other.bands))
    same = np.concatenate((one.same_text, other.same_text))
    best = np.lexsort((ordinals, -bands, rows))
    return Candidates(rows[best], ordinals[best], bands[best], same[best])


def ranks(rows: I64) -> I64:
    """Return for each element of the rising *rows* its place among the equal ones, from 0."""
    if not len(rows):
        return rows
    first = np.flatnonzero(np.concatenate(([True], rows[1:] != rows[:-1])))
    return np.arange(len(rows)) - np.repeat(first, np.diff(np.append(first, len(rows))))
