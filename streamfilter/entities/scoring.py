"""Scores: 100 points for each equal field, fewer for small differences, none for others.

rapidfuzz computes the string similarities, for whole columns outside the interpreter. Unrelated
strings have a similarity of 30 to 50, so a field below a floor gives no points.

| kind | equal | less | nothing |
|---|---|---|---|
| ``words`` | same words | 70 to 99: misspelt, or in another order | below 70 |
| ``digits`` | same digits | 80: same last 7 (another area code); 80 to 99: a digit off | else |
| ``exact``  | same | | else |
| ``name`` | same words | each word misspelt, short, or an initial; another order | an end differs |
| ``address`` | same words | 70 to 99, less if a number differs | below 70, or all numbers differ |
| ``phone`` | same number | 80 to 99: same last 7, or a digit off | else |
| ``date`` | same day | 90: day and month exchanged; 80: a digit off | else |
| ``email`` | same address | 90: a letter off; 80: two, or same name at another domain | else |
| ``number`` | same number | 70 to 99: up to 3 % apart | else |

The similarity of two records is their score divided by the highest possible score:

- Without ``minimum_fields``, all fields count. A field that is missing gives no points.
- With it, only the fields that both have count, and so many of them need `ALIKE` points or more:
  else the similarity is 0. An address, a phone or an email that differs counts half of its weight,
  because people move.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import cache, lru_cache, partial

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from streamfilter.entities.joined import split_fields
from streamfilter.entities.kinds import KINDS, LOCAL_DIGITS
from streamfilter.entities.lists import GENERATIONS, NICKNAMES
from streamfilter.similarity.columns import F64, I64
from streamfilter.similarity.exact import Compared
from streamfilter.stops import of_extra


def score(rules: FieldRules, mine: Sequence[str], theirs: Sequence[str]) -> float:
    """Return the points of two records' fields, divided by the highest possible points.

    This is the law: one field after the other. Tests compare the columns of `FieldRules` with it.

    Without ``minimum`` all fields count. With it, only those that both have; so many must be
    alike, and a field that people change counts half where it differs.
    """
    score = highest = alike = 0.0
    weights = rules.weights or (1.0,) * len(rules.kinds)
    for kind, weight, one, other in zip(rules.kinds, weights, mine, theirs, strict=True):
        there = bool(one and other)
        points = float(points_of([one], [other], kind)[0]) if there else 0.0
        score += weight * points
        alike += points >= ALIKE
        if rules.minimum is None:
            highest += weight * POINTS
        elif there:
            highest += weight * max(points, POINTS * KINDS[kind].changes)
    if not highest or alike < (rules.minimum or 0):
        return 0.0
    return score / highest


Near = Callable[[Sequence[str], Sequence[str]], F64]
"""Returns the points of pairs of values that are not equal."""
POINTS = 100.0
ALIKE = 50.0  # points from which a field is alike
WORDS_FLOOR = 70.0
_NO_NAMES: frozenset[str] = frozenset()
_ROUNDING = 1e-9
DIGITS_FLOOR = 0.8
PHONE_FLOOR = 0.85
LOCAL_POINTS = 80.0  # points for equal local numbers with different area codes
WORD_FLOOR = 0.7  # two words of a name below this similarity are two names
SHORT_FORM, INITIAL = 0.95, 0.8  # similarity of a name and its short form; its initial
NAME_WORDS = 6  # words of a name that are compared: bounds the pairs of words
PART_OF = 0.9  # share of its points that an address gives if it is a part of the other one
SOME_NUMBERS, OTHER_NUMBERS = 0.9, 0.6
"""Share of its points that an address keeps if some of its numbers differ; if all do."""
EXTRA_WORD = 5.0  # points that each word costs that only one of two names has
ONE_WORD = 70.0  # most points if one name has a single word, and the other has more


class FieldRules(Struct, frozen=True):
    """How the fields of two records become their similarity."""

    kinds: tuple[str, ...]  # the kind of each field, as the scheme names it (`kinds.KINDS`)
    weights: tuple[float, ...] = ()  # the weight of each field; empty: 1 each
    minimum: int | None = None  # fields both must have and be alike in; None: all count

    def similarity(self, points: F64) -> F64:
        """Return the similarity of pairs from the (p, F) *points* of their fields, NaN: absent.

        Example: points 100, 0, 90 and NaN of a name, an address, a phone and an email of weight 1
        give 190 / 400 without a minimum. With a minimum of 2 they give 190 / 240: the address
        counts half, and the email does not.
        """
        score, highest = np.zeros(len(points)), np.zeros(len(points))
        alike = np.zeros(len(points), np.int64)
        weights = self.weights or (1.0,) * len(self.kinds)
        # Field by field, so that the sums are those of the law to the last bit.
        for column, kind, weight in zip(points.T, self.kinds, weights, strict=True):
            given = np.nan_to_num(column)
            score += weight * given
            alike += given >= ALIKE
            if self.minimum is None:
                highest += weight * POINTS
            else:
                least = POINTS * KINDS[kind].changes
                highest += weight * np.where(np.isnan(column), 0.0, np.maximum(given, least))
        enough = (alike >= (self.minimum or 0)) & (highest > 0)
        return np.where(enough, score / np.where(enough, highest, 1.0), 0.0)


def compare_records(left: Sequence[bytes], right: Sequence[bytes], rules: FieldRules) -> Compared:
    """Return the similarity of each pair of payloads (left[p], right[p]): score / highest score."""
    similarity = rules.similarity(field_points(left, right, rules.kinds))
    pairs = len(left)
    return Compared(
        similarity, np.ones(pairs, np.bool_), np.full(pairs, len(rules.kinds), np.int64)
    )


class RecordColumns(Struct, frozen=True):
    """The fields of some records, one list of values for each."""

    fields: Sequence[Sequence[str]]

    @classmethod
    def of(cls, payloads: Sequence[bytes], count: int) -> RecordColumns:
        rows = [split_fields(payload.decode(), count) for payload in payloads]
        return cls([[row[place] for row in rows] for place in range(count)])


def similar_records(
    ours: RecordColumns, theirs: RecordColumns, rules: FieldRules, *, threshold: float
) -> tuple[I64, I64, F64]:
    """Return (our row, their row, similarity) of all pairs from *threshold* on.

    A pair is given up once it cannot reach the threshold, even if all other fields are equal.
    """
    counts = len(ours.fields[0]), len(theirs.fields[0])
    one, two = (each.ravel() for each in np.indices(counts))
    points = np.full((len(one), len(rules.kinds)), np.nan)
    cheapest = [*_NEAR]
    order = sorted(range(len(rules.kinds)), key=lambda place: cheapest.index(rules.kinds[place]))
    for place in order:
        mine, its = ours.fields[place], theirs.fields[place]
        values = [mine[row] for row in one.tolist()], [its[row] for row in two.tolist()]
        points[:, place] = points_of(*values, rules.kinds[place])
        best = points.copy()
        best[:, order[order.index(place) + 1 :]] = POINTS
        kept = rules.similarity(best) >= threshold - _ROUNDING
        one, two, points = one[kept], two[kept], points[kept]
    similarity = rules.similarity(points)
    kept = similarity >= threshold
    return one[kept], two[kept], similarity[kept]


def field_points(left: Sequence[bytes], right: Sequence[bytes], kinds: Sequence[str]) -> F64:
    """Return (p, F) points of each field of each pair of payloads; NaN: not both have it."""
    points = np.full((len(left), len(kinds)), np.nan)
    if not left:
        return points
    ours, theirs = (RecordColumns.of(each, len(kinds)).fields for each in (left, right))
    for place, (one, other, kind) in enumerate(zip(ours, theirs, kinds, strict=True)):
        points[:, place] = points_of(one, other, kind)
    return points


def require_library() -> None:
    """Raise `MissingExtra` if the library that compares fields is not installed."""
    with of_extra("records", "input.format: fields"):
        import rapidfuzz  # noqa: F401


def points_of(one: Sequence[str], other: Sequence[str], kind: str) -> F64:
    """Return the points of one field for each pair of normalised values, NaN: one is absent."""
    equal = np.fromiter(map(str.__eq__, one, other), np.bool_, len(one))
    there = np.fromiter(map(bool, one), np.bool_, len(one))
    there &= np.fromiter(map(bool, other), np.bool_, len(other))
    points = np.where(there, POINTS, np.nan)
    rows = np.flatnonzero(there & ~equal)
    if len(rows):
        values = [one[row] for row in rows.tolist()], [other[row] for row in rows.tolist()]
        # Only an equal field gives all points; equal words in another order give one point less.
        points[rows] = np.minimum(_NEAR[kind](*values), POINTS - 1)
    return points


def _words(one: Sequence[str], other: Sequence[str]) -> F64:
    # Imported at use: filters of texts start faster without it.
    from rapidfuzz import fuzz, process

    # Sorted words find a different order. A typo in a first letter can change the sorted order,
    # so the unsorted similarity counts too.
    sorted_ = process.cpdist(one, other, scorer=fuzz.token_sort_ratio, score_cutoff=WORDS_FLOOR)
    return np.asarray(np.maximum(_spelled(one, other, WORDS_FLOOR / POINTS), sorted_))


def _spelled(one: Sequence[str], other: Sequence[str], floor: float) -> F64:
    """Return the points of spelling: 100 less the share of edits, 0 below the *floor*."""
    from rapidfuzz import process
    from rapidfuzz.distance import OSA

    near = process.cpdist(one, other, scorer=OSA.normalized_similarity, score_cutoff=floor)
    return np.asarray(POINTS * near.astype(np.float64))


def _numbered(one: Sequence[str], other: Sequence[str], floor: float) -> F64:
    """Return the points of two numbers: of their spelling, or of the same local number."""
    local = np.where(_same_local(one, other), LOCAL_POINTS, 0.0)
    return np.asarray(np.maximum(_spelled(one, other, floor), local))


def _same_local(one: Sequence[str], other: Sequence[str]) -> NDArray[np.bool_]:
    same = (
        len(a) >= LOCAL_DIGITS and len(b) >= LOCAL_DIGITS and a[-LOCAL_DIGITS:] == b[-LOCAL_DIGITS:]
        for a, b in zip(one, other, strict=True)
    )
    return np.fromiter(same, np.bool_, len(one))


def _one_by_one(score: Callable[[str, str], float]) -> Near:
    return lambda one, other: np.fromiter(map(score, one, other), np.float64, len(one))


def _name(one: str, other: str) -> float:
    """Return the points of two names: every word of the shorter one needs its counterpart.

    The family's name alone is no person: Anna Berger and Otto Berger get nothing. A middle name
    may differ if two words or more are alike, but no word at an end of both names: Juan Garcia
    Lopez has a sister Ana. ``De la Cruz`` and ``Delacruz`` are one name. ``Jr`` and ``Sr`` are two
    persons.
    """
    if one.replace(" ", "") == other.replace(" ", ""):
        return POINTS
    generations = {GENERATIONS.get(each.rpartition(" ")[2], "") for each in (one, other)}
    if len(generations - {""}) > 1:
        return 0.0
    few, many = sorted((one.split()[:NAME_WORDS], other.split()[:NAME_WORDS]), key=len)
    pairs = sorted((-_alike(a, b), i, j) for i, a in enumerate(few) for j, b in enumerate(many))
    found: dict[int, float] = {}
    taken: set[int] = set()
    for unalike, i, j in pairs:
        if unalike and i not in found and j not in taken:
            found[i] = -unalike
            taken.add(j)
    unlike = [i for i in range(len(few)) if i not in found]
    if len(unlike) > (1 if len(few) > 2 else 0):
        return 0.0
    if unlike and unlike[0] in (0, len(few) - 1) and not {0, len(many) - 1} <= taken:
        return 0.0
    points = POINTS * sum(found.values()) / len(few)
    points -= EXTRA_WORD * (len(many) - len(few))
    return min(points, ONE_WORD) if len(few) == 1 < len(many) else max(points, 0.0)


@lru_cache(maxsize=16_384)
def _alike(one: str, other: str) -> float:
    """Return the similarity of two words of names, 0 if they are two names."""
    if one == other:
        return 1.0
    if len(one) == 1 or len(other) == 1:
        return INITIAL if one[0] == other[0] else 0.0
    if NICKNAMES.get(one, _NO_NAMES) & NICKNAMES.get(other, _NO_NAMES):
        return SHORT_FORM
    return _similarity()(one, other, score_cutoff=WORD_FLOOR)


@cache
def _similarity() -> Callable[..., float]:
    """Return the similarity of two words; it is of an extra, so it is imported at its first use."""
    from rapidfuzz.distance import OSA

    return OSA.normalized_similarity


def _addresses(one: Sequence[str], other: Sequence[str]) -> F64:
    from rapidfuzz import fuzz, process

    part = process.cpdist(one, other, scorer=fuzz.token_set_ratio, score_cutoff=WORDS_FLOOR)
    near = np.maximum(_words(one, other), PART_OF * part.astype(np.float64))
    near *= np.fromiter(map(_same_numbers, one, other), np.float64, len(one))
    return np.where(near >= ALIKE, near, 0.0)


def _same_numbers(one: str, other: str) -> float:
    """Return which share of its points an address keeps, by the numbers in both."""
    ours, theirs = ({part for part in each.split() if part[0].isdigit()} for each in (one, other))
    if ours <= theirs or theirs <= ours:
        return 1.0
    return SOME_NUMBERS if ours & theirs else OTHER_NUMBERS


def _dates(one: Sequence[str], other: Sequence[str]) -> F64:
    from rapidfuzz import process
    from rapidfuzz.distance import OSA

    edits = process.cpdist(one, other, scorer=OSA.distance, score_cutoff=1)
    exchanged = (
        a[:4] == b[:4] and a[4:6] == b[6:] and a[6:] == b[4:6]
        for a, b in zip(one, other, strict=True)
    )
    near = np.where(edits == 1, 80.0, 0.0)
    return np.where(np.fromiter(exchanged, np.bool_, len(one)), 90.0, near)


def _emails(one: Sequence[str], other: Sequence[str]) -> F64:
    from rapidfuzz import process
    from rapidfuzz.distance import OSA

    same = (
        len(a.partition("@")[0]) >= 6 and a.partition("@")[0] == b.partition("@")[0]
        for a, b in zip(one, other, strict=True)
    )
    local = np.fromiter(same, np.bool_, len(one))
    edits = process.cpdist(one, other, scorer=OSA.distance, score_cutoff=2)
    near = np.where(edits == 1, 90.0, np.where(edits == 2, LOCAL_POINTS, 0.0))
    return np.asarray(np.where(local, np.maximum(near, LOCAL_POINTS), near))


def _number(one: str, other: str) -> float:
    a, b = Decimal(one), Decimal(other)
    points = POINTS - 1_000 * float(abs(a - b) / max(abs(a), abs(b)))
    return points if points >= WORDS_FLOOR else 0.0


_NEAR: dict[str, Near] = {
    "exact": lambda one, _: np.zeros(len(one)),
    "date.2": _dates,
    "number.2": _one_by_one(_number),
    "digits": partial(_numbered, floor=DIGITS_FLOOR),
    "phone.1": partial(_numbered, floor=PHONE_FLOOR),
    "email.1": _emails,
    "words": _words,
    "name.2": _one_by_one(_name),
    "address.1": _addresses,
}
"""The points of two values that are not equal, by kind: those that cost least come first."""
