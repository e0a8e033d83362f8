"""Records as sets: each field is a token and a band of its own.

Two records are candidates if at least one field is exactly equal. So a record's signature is the
hashes of its fields, eight bytes each, and a band is the eight bytes of one field. Bands, keys and
stored columns are the same as for texts. A candidate is verified on the fields themselves, which
are stored as a payload.

An absent field is equal to nothing: a hash of the whole record takes its place.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Callable, Sequence

import numpy as np

from streamfilter.entities.joined import join_fields, split_fields
from streamfilter.similarity.columns import U32, Contents, Samples, distinct
from streamfilter.similarity.hashing import WORD
from streamfilter.similarity.text.code_points import visible, words
from streamfilter.similarity.text.ordering import normal_form

_ASCII_WORD = re.compile("[a-z0-9]+")


def _words(value: str) -> str:
    if value.isascii():
        return " ".join(_ASCII_WORD.findall(value.lower()))
    folded = normal_form("NFKC", visible(value)).casefold().replace("_", " ")
    return " ".join(words(folded))


def _digits(value: str) -> str:
    return "".join(str(unicodedata.digit(each)) for each in value if each.isdigit())


def _exact(value: str) -> str:
    return normal_form("NFKC", visible(value)).strip()


_NORMALISERS: dict[str, Callable[[str], str]] = {
    "words": _words,
    "digits": _digits,
    "exact": _exact,
}


class RecordSketcher:
    """Sketches joined records with fields of these kinds, under one secret seed."""

    def __init__(self, kinds: Sequence[str], *, seed: bytes) -> None:
        self.kinds = tuple(kinds)
        self._normalisers = [_NORMALISERS[kind] for kind in kinds]
        self._key = hashlib.blake2b(seed, person=b"record").digest()

    def normalised(self, text: str) -> list[str]:
        """Return the record's normalised fields, then its held-out one as it is."""
        *values, held_out = split_fields(text, len(self.kinds))
        pairs = zip(self._normalisers, values, strict=True)
        return [*(normalise(value) for normalise, value in pairs), held_out]

    def contents(self, texts: Sequence[str]) -> Contents:
        """Return the columns of joined records of F fields.

        A fingerprint is of all fields but the held-out one. A signature has the (8 F) bytes of the
        fields' hashes. A sample has the tokens of the fields that are present. A payload is the
        normalised record, with the held-out field.
        """
        count, width = len(texts), len(self.kinds)
        hashes = np.zeros((count, width), np.uint64)
        fingerprints = np.zeros((count, 16), np.uint8)
        samples: list[U32] = []
        payloads: list[bytes] = []
        for row, text in enumerate(texts):
            *values, held_out = self.normalised(text)
            whole = self._digest(b"record", join_fields(values).encode(), 16)
            fingerprints[row] = np.frombuffer(whole, np.uint8)
            hashes[row] = [self._field(place, value, whole) for place, value in enumerate(values)]
            there = [place for place, value in enumerate(values) if value]
            samples.append(distinct((hashes[row, there] >> np.uint64(32)).astype(np.uint32)))
            payloads.append(join_fields(values, held_out).encode())
        sizes = np.fromiter(map(len, samples), np.int64, count)
        signatures = hashes.astype("<u8").view(np.uint8).reshape(count, width * WORD)
        signatures[sizes == 0] = 0
        starts = np.concatenate(([0], np.cumsum(sizes)))
        tokens = np.concatenate([np.zeros(0, np.uint32), *samples])
        return Contents(fingerprints, signatures, Samples(tokens, starts, sizes), payloads)

    def _field(self, place: int, value: str, whole: bytes) -> int:
        """Return 64 bits of a field; of an absent one, bits that no other record has."""
        encoded = value.encode() if value else whole
        person = b"%s %d" % (b"field" if value else b"absent", place)
        return int.from_bytes(self._digest(person, encoded, WORD), "little")

    def _digest(self, person: bytes, data: bytes, size: int) -> bytes:
        return hashlib.blake2b(data, digest_size=size, key=self._key, person=person).digest()
