"""Records as columns: each key of a record is a band of its own.

Two records are candidates if they share a key: an equal field, or an equal pair of parts of two
fields (`kinds.key_pairs`). A pair finds a record whose other fields all changed a little, and it
stays rare where one value is common: a city has thousands of records, a city with a beginning of
a name has few.

A record's signature is the hashes of its keys, eight bytes each. Bands, longer keys and stored
columns are the same as for texts. A candidate is verified on the fields themselves, which are
stored as a payload.

An absent field is equal to nothing: a hash of the whole record takes the place of its keys.
"""

import hashlib
from collections.abc import Sequence

import numpy as np

from streamfilter.entities.joined import join_fields, split_fields
from streamfilter.entities.kinds import KINDS, key_pairs, keys_of
from streamfilter.similarity.columns import U32, U64, Contents, Samples, distinct
from streamfilter.similarity.hashing import WORD


class RecordSketcher:
    """Sketches joined records with fields of these kinds, under one secret seed."""

    def __init__(self, kinds: Sequence[str], *, seed: bytes) -> None:
        unknown = sorted(set(kinds) - KINDS.keys())
        if unknown:
            raise ValueError(f"this version of streamfilter has no fields of kind {unknown[0]}")
        self.kinds = [KINDS[kind] for kind in kinds]
        self._pairs, self._width = key_pairs(kinds), keys_of(kinds)
        self._key = hashlib.blake2b(seed, person=b"record").digest()

    def normalised(self, text: str) -> list[str]:
        """Return the record's normalised fields, then its held-out one as it is."""
        *values, held_out = split_fields(text, len(self.kinds))
        pairs = zip(self.kinds, values, strict=True)
        return [*(kind.normalise(value) for kind, value in pairs), held_out]

    def contents(self, texts: Sequence[str], scopes: U64 | None = None) -> Contents:
        """Return the columns of joined records of F fields with K keys, each in its scope if any.

        A fingerprint is of all fields but the held-out one. A signature has the (8 K) bytes of the
        keys' hashes. A sample has the tokens of the fields that are present. A payload is the
        normalised record, with the held-out field.
        """
        count = len(texts)
        hashes = np.zeros((count, self._width), np.uint64)
        fingerprints = np.zeros((count, 16), np.uint8)
        samples: list[U32] = []
        payloads: list[bytes] = []
        for row, text in enumerate(texts):
            *values, held_out = self.normalised(text)
            scope = b"" if scopes is None else scopes[row].tobytes()
            whole = self._digest(b"record", scope + join_fields(values).encode(), 16)
            fingerprints[row] = np.frombuffer(whole, np.uint8)
            hashes[row] = [
                self._hash(place, key, whole, scope) for place, key in enumerate(self._keys(values))
            ]
            there = [place for place, value in enumerate(values) if value]
            samples.append(distinct((hashes[row, there] >> np.uint64(32)).astype(np.uint32)))
            payloads.append(join_fields(values, held_out).encode())
        sizes = np.fromiter(map(len, samples), np.int64, count)
        signatures = hashes.astype("<u8").view(np.uint8).reshape(count, self._width * WORD)
        signatures[sizes == 0] = 0
        starts = np.concatenate(([0], np.cumsum(sizes)))
        tokens = np.concatenate([np.zeros(0, np.uint32), *samples])
        return Contents(fingerprints, signatures, Samples(tokens, starts, sizes), payloads)

    def _keys(self, values: Sequence[str]) -> list[str]:
        """Return the keys of normalised values: of each field, then of pairs; "" for absent."""
        parts = [kind.parts(value) for kind, value in zip(self.kinds, values, strict=True)]
        wholes = [kind.whole(value) for kind, value in zip(self.kinds, values, strict=True)]
        for (field, part), (other, its) in self._pairs:
            one, two = parts[field][part], parts[other][its]
            wholes.append(f"{one}\n{two}" if one.strip() and two.strip() else "")
        return wholes

    def _hash(self, place: int, key: str, whole: bytes, scope: bytes) -> int:
        """Return 64 bits of a key; of an absent one, bits that no other record has."""
        encoded = scope + key.encode() if key else whole
        person = b"%s %d" % (b"field" if key else b"absent", place)
        return int.from_bytes(self._digest(person, encoded, WORD), "little")

    def _digest(self, person: bytes, data: bytes, size: int) -> bytes:
        return hashlib.blake2b(data, digest_size=size, key=self._key, person=person).digest()
