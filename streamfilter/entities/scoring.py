"""Scores: 100 points for each field that is equal, less for small differences, none for others.

The string similarities are rapidfuzz's, which compares whole columns outside of the interpreter.
Unrelated strings are 30 to 50 alike by any of them, so that there is a floor below which a field
gives nothing. The similarity of two records is their score over the highest there is.

| kind | equal | less | nothing |
|---|---|---|---|
| ``words`` | same words | 70 to 99: misspelt, or in another order | below 70 |
| ``digits`` | same digits | 80: same last 7 (another area code); 80 to 99: a digit off | else |
| ``exact`` | same | | else |

A field that is missing on either side gives nothing: no evidence is no evidence.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from streamfilter.similarity.columns import F64
from streamfilter.similarity.exact import Compared
from streamfilter.similarity.records import split_fields
from streamfilter.stops import MissingExtra

POINTS = 100.0
WORDS_FLOOR = 70.0
DIGITS_FLOOR = 0.8
LOCAL_DIGITS = 7
LOCAL_POINTS = 80.0
"""For equal local numbers behind different area codes."""


def compare_records(
    left: Sequence[bytes], right: Sequence[bytes], kinds: Sequence[str]
) -> Compared:
    """Return the similarity of each pair of payloads (left[p], right[p]): score / highest."""
    total = field_points(left, right, kinds).sum(axis=1)
    pairs = len(left)
    return Compared(
        total / (POINTS * len(kinds)),
        np.ones(pairs, np.bool_),
        np.full(pairs, len(kinds), np.int64),
    )


def field_points(left: Sequence[bytes], right: Sequence[bytes], kinds: Sequence[str]) -> F64:
    """Return (p, F) points of each field of each pair of payloads."""
    points = np.zeros((len(left), len(kinds)))
    if not left:
        return points
    ours = [split_fields(payload.decode(), len(kinds)) for payload in left]
    theirs = [split_fields(payload.decode(), len(kinds)) for payload in right]
    for place, kind in enumerate(kinds):
        one, other = [row[place] for row in ours], [row[place] for row in theirs]
        points[:, place] = points_of(one, other, kind)
    return points


def require_library() -> None:
    """Return if values of fields can be compared.

    Raises:
        MissingExtra: rapidfuzz is not installed.
    """
    try:
        import rapidfuzz  # noqa: F401
    except ModuleNotFoundError:
        what = "input.format: fields"
        raise MissingExtra(what, needs="rapidfuzz", extra="records") from None


def points_of(one: Sequence[str], other: Sequence[str], kind: str) -> F64:
    """Return the points of one field for each pair of normalised values."""
    # Imported at use: nobody who filters texts waits 20 ms for it at every start.
    from rapidfuzz import fuzz, process
    from rapidfuzz.distance import OSA

    equal = np.fromiter(map(str.__eq__, one, other), np.bool_, len(one))
    there = np.fromiter(map(bool, one), np.bool_, len(one))
    there &= np.fromiter(map(bool, other), np.bool_, len(other))
    near = np.zeros(len(one))
    if kind == "words":
        near = POINTS * process.cpdist(
            one, other, scorer=OSA.normalized_similarity, score_cutoff=WORDS_FLOOR / POINTS
        )
        # Sorting words undoes another order, and makes one of a slip in a first letter.
        sorted_ = process.cpdist(one, other, scorer=fuzz.token_sort_ratio, score_cutoff=WORDS_FLOOR)
        near = np.maximum(near, sorted_)
    elif kind == "digits":
        near = POINTS * process.cpdist(
            one, other, scorer=OSA.normalized_similarity, score_cutoff=DIGITS_FLOOR
        )
        near = np.maximum(near, LOCAL_POINTS * _same_local(one, other))
    # Equal words in another order are not quite an equal field: only those give all points.
    less = np.minimum(near.astype(np.float64), POINTS - 1)
    return np.where(there, np.where(equal, POINTS, less), 0.0)


def _same_local(one: Sequence[str], other: Sequence[str]) -> NDArray[np.bool_]:
    """Return which pairs of numbers end in the same local number."""
    same = (
        len(a) >= LOCAL_DIGITS and len(b) >= LOCAL_DIGITS and a[-LOCAL_DIGITS:] == b[-LOCAL_DIGITS:]
        for a, b in zip(one, other, strict=True)
    )
    return np.fromiter(same, np.bool_, len(one))
