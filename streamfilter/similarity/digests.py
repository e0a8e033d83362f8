"""Digests: what is compared beside the text, as 64 bits of a keyed hash.

The scheme names what is compared (`Scheme.digests`). A digest is stored with the document, so that
a pair is compared, and keys are computed again, without the record. The hash is keyed by the
index's seed: values come from strangers, who must not be able to make two of them equal.
"""

import hashlib
import re
import unicodedata
from collections.abc import Callable, Sequence

import numpy as np

from streamfilter.cleaning.masks import URL
from streamfilter.similarity.columns import NO_DIGESTS, U64
from streamfilter.similarity.text.code_points import visible

ABSENT = 0  # the digest of what a record does not have
_EMPTY = ("[]", "{}")

_NUMBER = re.compile(
    r"\d++(?:[.,'\u2019\u00a0\u202f\u2009\u066b\u066c]\d\d*+)*+|[\u00bc-\u00be\u2150-\u215e\u2189]"
)
_SEPARATED = re.compile(r"\D(\d+)")
_AFTER_URL = ".,;:!?)]}"


def numbers_in(text: str) -> list[str]:
    """Return the numbers of *text*, in their order.

    A number is a run of digits of any script. One separator may stand between two runs: a point, a
    comma, an apostrophe, or a space that does not break. It is left out before exactly three
    digits, and is a point before any others: ``1'000``, ``1,000`` and ``1.000`` are 1000, and
    ``2,5`` is 2.5. An ordinary space separates numbers, and a sign is no part of one. A fraction
    such as ``½`` is a number, too.
    """
    return [_plain_number(each) for each in _NUMBER.findall(text)]


def _plain_number(found: str) -> str:
    if not found.isascii():
        found = "".join([str(unicodedata.decimal(each, each)) for each in found])
    if found.isdecimal():
        return found
    return _SEPARATED.sub(lambda part: part[1] if len(part[1]) == 3 else "." + part[1], found)


def urls_in(text: str) -> list[str]:
    """Return the web addresses of *text*, in their order, without punctuation behind them."""
    return [each.rstrip(_AFTER_URL) for each in URL.findall(text)]


Subject = int | Callable[[str], list[str]]
"""The place of a value, or what finds numbers or addresses in a text."""

OF_TEXT: dict[str, Callable[[str], list[str]]] = {"numbers": numbers_in, "urls": urls_in}
"""The subjects that are found in the text itself.

Their order counts, and so do repeats. "From 3 to 5" and "from 5 to 3" are two facts. A reprint
keeps the order. One that leaves a paragraph out has other numbers, and is forwarded.
"""


class Digester:
    """Makes the digests of documents under one scheme and one secret seed."""

    def __init__(
        self,
        subjects: Sequence[str],
        pointers: Sequence[str],
        *,
        seed: bytes,
        scope: bool = False,
        also: int = 0,
        clean: Callable[[str], str] | None = None,
        clean_value: Callable[[str], str] | None = None,
    ) -> None:
        """Prepare for *subjects*, each of them in `OF_TEXT` or one of *pointers*.

        With *scope*, the first subject is the scope: equal values of different scopes then have
        different digests. *clean* removes what is no part of the text, such as tags, but no number
        and no address. The last subjects, *also* of them, are values that make a duplicate:
        *clean_value* removes what is no part of these, and an empty list or object is absent.
        """
        self._scope, self._also, self._clean_value = scope, also, clean_value
        self._subjects: list[Subject] = [
            OF_TEXT.get(each) or pointers.index(each) for each in subjects
        ]
        self._clean = clean if any(map(callable, self._subjects)) else None
        key = hashlib.blake2b(seed, person=b"digest").digest()
        self._keyed = hashlib.blake2b(digest_size=8, key=key)

    def digests(self, texts: Sequence[str], values: Sequence[Sequence[str | None]]) -> U64:
        """Return (n, d) digests; *values* are those of each text, in the pointers' order.

        A document without any values has none: all its digests are `ABSENT`.
        """
        if not self._subjects:
            return NO_DIGESTS
        found: list[int] = []
        for text, each in zip(texts, values, strict=True):
            clean = text if self._clean is None else self._clean(text)
            row = [self._value(subject, clean, each) for subject in self._subjects]
            if self._also:
                row[-self._also :] = map(self._naming, row[-self._also :])
            found += self._row(row)
        return np.array(found, np.uint64).reshape(-1, len(self._subjects))

    def scope(self, value: str | None) -> bytes:
        return self._digest(value).to_bytes(8, "big")

    def shared(self, text: str, values: Sequence[str | None]) -> bytes:
        """Return the digests of one text and its values that are the same in a match by its text.

        Those that make a duplicate, each alone, are left out.
        """
        found = self.digests([text], [values])
        return found[:, : found.shape[1] - self._also].tobytes()

    def _value(self, subject: Subject, text: str, values: Sequence[str | None]) -> str | None:
        if isinstance(subject, int):
            return values[subject] if values else None
        return "\n".join(subject(visible(text))) or None

    def _naming(self, value: str | None) -> str | None:
        """Return what names a document of *value*; None: nothing does."""
        if value is None or value in _EMPTY:
            return None
        return value if self._clean_value is None else self._clean_value(value)

    def _row(self, values: Sequence[str | None]) -> list[int]:
        if not self._scope:
            return [self._digest(value) for value in values]
        scope = self._digest(values[0])
        under = scope.to_bytes(8, "little")
        return [scope, *(self._digest(value, under) for value in values[1:])]

    def _digest(self, value: str | None, under: bytes = b"") -> int:
        if value is None:
            return ABSENT
        state = self._keyed.copy()
        state.update(under)
        state.update(value.encode("utf-8", "surrogatepass"))
        return int.from_bytes(state.digest(), "little") or 1
