"""Exact copies of what is remembered, found by one key before any other is looked for.

An equal text is all the evidence there is to give (`Verifier.verify`), so whom a copy resembles
besides need not be known. In a large index a known key costs a read where an unknown one costs
nothing: a copy has as many known keys as bands, and one that would do.
"""

from __future__ import annotations

import numpy as np

from streamfilter.index.protocol import Index
from streamfilter.matching.candidates import joined, meetings
from streamfilter.matching.past import Past
from streamfilter.similarity.columns import Flags, distinct
from streamfilter.similarity.sketch import Sketches


def but_for_copies(present: Flags, sketches: Sketches, index: Index, past: Past) -> Flags:
    """Return *present* without the bands of texts that are in the *index*, word for word.

    The key is a fold of the fingerprint, which others may share: all 128 bits are compared.
    Who is not in a document's *past* is no copy for it: he may be forgotten.
    """
    found = index.probe(sketches.keys[:, -1:], present[:, -1:])
    met = joined(map(past.among, meetings(found.levels, columns=1)))
    stored = index.fetch(distinct(met.ordinals))
    if not len(stored):
        return present
    at = np.searchsorted(stored.ordinals, met.ordinals).clip(max=len(stored) - 1)
    ours, theirs = sketches.contents.fingerprints[met.rows], stored.contents.fingerprints[at]
    same = (stored.ordinals[at] == met.ordinals) & (ours == theirs).all(axis=1)
    wanted = present.copy()
    wanted[met.rows[same], :-1] = False
    return wanted
