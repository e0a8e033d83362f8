"""Longer keys: where a document is listed whose bucket is full.

A cap bounds the work, but a bucket that only counts what comes later is blind to it: whoever
sends enough variants of a text first hides the text. So a full bucket becomes more selective
instead: later documents are listed under a longer key, made of the full bucket's key and some
more slots of the signature, and when that bucket is full, too, under a longer one still (an idea
of LSH Forest: Bawa, Condie, Ganesan 2005). Variants of one text have little in common with each
other, so these buckets stay small, and nobody reads them whose bucket is not full.

Slots are taken from behind the band's own, round and round the signature. They are the stored
bytes, so a restore makes the same keys. The key that they are mixed onto is secret already.

Residue: with one band "behind its own" is slot 0, its own first one, and a record of one field
has no other slots at all. Their members agree in those slots, so a step that takes only them does
not split: it is room for more of the same. At 128 slots and the default
recall only a threshold of 1 plans one band; other slots would change the keys of stored indexes.
"""

from __future__ import annotations

import numpy as np

from streamfilter.index.format import BUCKET_CAP_MAX
from streamfilter.similarity.columns import I64, U8, U64

STEPS = (2, 2, 2, 3, 3, 6)
"""Slots that each longer key has in addition. A pair of similarity s goes along with each with
probability s ** step. Short steps keep a document under the shortest key that has room for it: its
copies share a key of 12 slots two and a half times as often as one of 18."""

DEPTH = len(STEPS)

ROOM = 4
"""A longer key's bucket lists so many times the square of what the others list, and at most 255
(the default of 8 gives 255): what it holds is rarer, and a document that finds no place under a
longer key either loses more than one that does at first."""

WEIGHTS = (6, 8, 10, 12, 15, 18, 24)
"""What it says for a pair to share a key that is so many steps long: of six slots at first, the
slots that are seen to agree."""

_WORD = 8
_OFFSET = np.uint64(0x9E3779B97F4A7C15)  # else 0 and no slots would stay 0
_FACTORS = (np.uint64(0xD6E8FEB86659FD93), np.uint64(0x9FB21C651E98DF25))


def cap_at(cap: int, depth: int) -> int:
    """Return how many documents a bucket *depth* steps down lists, if the others list *cap*."""
    return cap if not depth else min(ROOM * cap * cap, BUCKET_CAP_MAX)


def longer(keys: U64, signatures: U8, columns: I64, *, bands: int, depth: int) -> U64:
    """Return the keys one step longer than *keys*, which are *depth* - 1 steps long.

    Args:
        keys: (p,) keys of full buckets.
        signatures: (p, k) the signatures of the documents that have them.
        columns: (p,) which of the document's band keys each began as.
        bands: How many of these there are.
        depth: Of the result, from 1.
    """
    slots, step = signatures.shape[1], STEPS[depth - 1]
    begins = (columns + 1) * slots // bands + sum(STEPS[: depth - 1])
    words = np.zeros((len(keys), _WORD), np.uint8)
    places = (begins[:, None] + np.arange(step)) % slots
    words[:, :step] = np.take_along_axis(signatures, places, axis=1)
    return mixed_with(keys, words.view("<u8").reshape(-1).astype(np.uint64))


def mixed_with(keys: U64, words: U64) -> U64:
    """Return a new key for each key and word: of one key, different words give different keys."""
    mixed = (keys ^ words) + _OFFSET
    for factor in _FACTORS:  # an odd factor and a shift: each a bijection
        mixed *= factor
        mixed ^= mixed >> np.uint64(32)
    return mixed
