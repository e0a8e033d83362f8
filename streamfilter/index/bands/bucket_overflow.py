"""Longer keys (bucket overflow): under which key a document is listed if its bucket is full.

`bucket_writes` has the theory. The idea of longer keys comes from LSH Forest (Bawa, Condie,
Ganesan 2005). Variants of one text agree in few further slots, so these buckets stay small.

The further slots follow the band's own slots and wrap around at the end of the signature. They
are stored bytes, so a restore computes the same keys. They are mixed into a key that is secret
already.

Limit: a scheme with one band wraps around to the band's own first slot, and a record of one field
has no other slots. The members of the bucket agree in those slots. A step that takes only such
slots does not divide them: it only makes room for more. With 128 slots and the default recall, a
single band is planned only for a threshold of 1. Other slots would change the keys of stored
indexes.
"""

import numpy as np

from streamfilter.index.format import BUCKET_CAP_MAX
from streamfilter.similarity.columns import I64, U8, U64

STEPS = (2, 2, 2, 3, 3, 6)
"""Slots that each longer key adds. A pair of similarity s still shares the key after a step of n
slots with probability s ** n. Steps are short, so that a document is listed under the shortest key
that has room. Its copies share a key of 12 slots 2.5 times as often as one of 18 slots."""

DEPTH = len(STEPS)

ROOM = 4
"""The cap of a longer key's bucket is `ROOM` times the square of the normal cap, at most 255. The
default cap of 8 gives 255. The cap is higher because members of such a bucket are rarer. Also, a
document that has no place there either loses the key altogether."""

WEIGHTS = (6, 8, 10, 12, 15, 18, 24)  # evidence of a shared key: slots that agree, by steps

_WORD = 8
_OFFSET = np.uint64(0x9E3779B97F4A7C15)  # without it, key 0 and slots of 0 would give key 0
_FACTORS = (np.uint64(0xD6E8FEB86659FD93), np.uint64(0x9FB21C651E98DF25))


def cap_at(cap: int, depth: int) -> int:
    """Return the cap of buckets whose keys are *depth* steps longer; the shortest have *cap*."""
    return cap if not depth else min(ROOM * cap * cap, BUCKET_CAP_MAX)


def longer(keys: U64, signatures: U8, columns: I64, *, bands: int, depth: int) -> U64:
    """Return the keys one step longer than *keys*, which are *depth* - 1 steps long.

    Args:
        keys: (p,) keys of full buckets.
        signatures: (p, k) the signatures of the documents that have these keys.
        columns: (p,) the band column that each key comes from.
        bands: The number of bands.
        depth: Length of the result in steps, from 1.
    """
    slots, step = signatures.shape[1], STEPS[depth - 1]
    begins = (columns + 1) * slots // bands + sum(STEPS[: depth - 1])
    words = np.zeros((len(keys), _WORD), np.uint8)
    places = (begins[:, None] + np.arange(step)) % slots
    words[:, :step] = np.take_along_axis(signatures, places, axis=1)
    return mixed_with(keys, words.view("<u8").reshape(-1).astype(np.uint64))


def mixed_with(keys: U64, words: U64) -> U64:
    """Return a new key for each key and word; with one key, different words give different keys."""
    mixed = (keys ^ words) + _OFFSET
    for factor in _FACTORS:  # odd factors and shifts are bijections
        mixed *= factor
        mixed ^= mixed >> np.uint64(32)
    return mixed
