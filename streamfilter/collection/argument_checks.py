"""Checks of the arguments of a `Deduplicator`. The errors name the value and what to use."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Real

from streamfilter.documents.fields.values import canonical


def check_id(id: object) -> str:
    """Return *id* if it is a str that UTF-8 can encode; raise `TypeError` or `ValueError`."""
    known = _str("id", id)
    try:
        known.encode()
    except UnicodeEncodeError:
        raise ValueError(f"the id {known!r:.60} is no UTF-8 text; name it otherwise") from None
    return known


def check_text(text: object) -> str:
    """Return *text* if it is a str, or raise `TypeError`."""
    return _str("text", text)


def check_scope(scope: object) -> str | None:
    """Return *scope* as the service compares a value; a blank one is None, as none is.

    Raises:
        TypeError, ValueError: it is neither a str nor None, or no UTF-8 text.
    """
    if scope is None:
        return None
    known = _str("scope", scope)
    try:
        known.encode()
    except UnicodeEncodeError:
        raise ValueError(f"the scope {known!r:.60} is no UTF-8 text; name it otherwise") from None
    return canonical(known, ())


def check_pair(pair: object) -> tuple[str, str]:
    """Return *pair* if it is an id and a text; raise `TypeError` or `ValueError`."""
    # A str of two characters has two elements too. An iteration over a dict yields such keys.
    if isinstance(pair, str) or not isinstance(pair, Iterable) or len(two := [*pair]) != 2:
        kind = type(pair).__name__
        raise TypeError(
            f"got {pair!r:.60} ({kind}); expected pairs of an id and a text, of a dict its items()"
        )
    return check_id(two[0]), check_text(two[1])


def check_many(ids: Iterable[str]) -> Iterable[str]:
    """Return *ids*; raise `TypeError` for one str, whose characters would be taken for ids."""
    if isinstance(ids, str):
        raise TypeError(f"expected many ids, got one: forget({ids!r:.60})")
    return ids


def check_threshold(threshold: object) -> None:
    """Raise `TypeError` if *threshold* is no number. `MatchPolicy` checks its range."""
    if not isinstance(threshold, Real):
        kind = type(threshold).__name__
        raise TypeError(
            f"threshold is {threshold!r:.60} ({kind}); use a number in (0, 1], such as 0.8"
        )


def _str(name: str, value: object) -> str:
    if not isinstance(value, str):
        kind = type(value).__name__
        raise TypeError(f"the {name} is {value!r:.60} ({kind}); expected a str: decode it first")
    return value
