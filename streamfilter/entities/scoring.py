"""Scores: 100 points for each equal field, fewer for small differences, none for others.

rapidfuzz computes the string similarities, for whole columns outside the interpreter. Unrelated
strings have a similarity of 30 to 50, so a field below a floor gives no points. The similarity of
two records is their score divided by the highest possible score.

| kind | equal | less | nothing |
|---|---|---|---|
| ``words`` | same words | 70 to 99: misspelt, or in another order | below 70 |
| ``digits`` | same digits | 80: same last 7 (another area code); 80 to 99: a digit off | else |
| ``exact`` | same | | else |

A field that is missing on either side gives no points: a missing value is no evidence.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from streamfilter.entities.joined import split_fields
from streamfilter.similarity.columns import F64
from streamfilter.similarity.exact import Compared
from streamfilter.stops import MissingExtra

POINTS = 100.0
WORDS_FLOOR = 70.0
DIGITS_FLOOR = 0.8
LOCAL_DIGITS = 7
LOCAL_POINTS = 80.0
"""Points for equal local numbers with different area codes."""


def compare_records(
    left: Sequence[bytes], right: Sequence[bytes], kinds: Sequence[str]
) -> Compared:
    """Return the similarity of each pair of payloads (left[p], right[p]): score / highest score."""
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
    """Check that the library that compares fields is installed.

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
    # Imported at use: filters of texts start faster without it.
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
        # Sorted words find a different order. A typo in a first letter can change the sorted order,
        # so the unsorted similarity counts too.
        sorted_ = process.cpdist(one, other, scorer=fuzz.token_sort_ratio, score_cutoff=WORDS_FLOOR)
        near = np.maximum(near, sorted_)
    elif kind == "digits":
        near = POINTS * process.cpdist(
            one, other, scorer=OSA.normalized_similarity, score_cutoff=DIGITS_FLOOR
        )
        near = np.maximum(near, LOCAL_POINTS * _same_local(one, other))
    # Only an equal field gives all points; equal words in another order give one point less.
    less = np.minimum(near.astype(np.float64), POINTS - 1)
    return np.where(there, np.where(equal, POINTS, less), 0.0)


def _same_local(one: Sequence[str], other: Sequence[str]) -> NDArray[np.bool_]:
    """Return which pairs of numbers end in the same local number."""
    same = (
        len(a) >= LOCAL_DIGITS and len(b) >= LOCAL_DIGITS and a[-LOCAL_DIGITS:] == b[-LOCAL_DIGITS:]
        for a, b in zip(one, other, strict=True)
    )
    return np.fromiter(same, np.bool_, len(one))
