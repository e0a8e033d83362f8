"""Digests: what is compared beside the text, as 64 bits of a keyed hash.

The scheme names what is compared (`Scheme.digests`). A digest is stored with the document, so that
a pair is compared, and keys are computed again, without the record. The hash is keyed by the
index's seed: values come from strangers, who must not be able to make two of them equal.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from streamfilter.similarity.columns import NO_DIGESTS, U64

ABSENT = 0
"""The digest of what a record does not have."""


class Digester:
    """Makes the digests of documents under one scheme and one secret seed."""

    def __init__(
        self, subjects: Sequence[str], pointers: Sequence[str], *, seed: bytes, scope: bool = False
    ) -> None:
        """Prepare for *subjects*, each one of *pointers*: where its value is.

        With *scope*, the first subject is the scope: equal values of different scopes then have
        different digests.
        """
        self._scope = scope
        self._places = [pointers.index(subject) for subject in subjects]
        key = hashlib.blake2b(seed, person=b"digest").digest()
        self._keyed = hashlib.blake2b(digest_size=8, key=key)

    def digests(self, values: Sequence[Sequence[str | None]]) -> U64:
        """Return (n, d) digests; *values* are those of each document, in the pointers' order.

        A document without any values has none: all its digests are `ABSENT`.
        """
        if not self._places:
            return NO_DIGESTS
        if self._scope:
            rows = [self._scoped(each) if each else [ABSENT] * len(self._places) for each in values]
            return np.array(rows, np.uint64).reshape(-1, len(self._places))
        found = [
            self._digest(each[place]) if each else ABSENT
            for each in values
            for place in self._places
        ]
        return np.array(found, np.uint64).reshape(-1, len(self._places))

    def _scoped(self, values: Sequence[str | None]) -> list[int]:
        scope = self._digest(values[self._places[0]])
        under = scope.to_bytes(8, "little")
        return [scope, *(self._digest(values[place], under) for place in self._places[1:])]

    def _digest(self, value: str | None, under: bytes = b"") -> int:
        if value is None:
            return ABSENT
        state = self._keyed.copy()
        state.update(under)
        state.update(value.encode("utf-8", "surrogatepass"))
        return int.from_bytes(state.digest(), "little") or 1
