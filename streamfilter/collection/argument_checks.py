"""Checks of the arguments of a `Deduplicator`. The errors name the value and what to use."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Integral, Real

from streamfilter.documents.fields.values import canonical

ON_CONFLICT = ("error", "skip")
WORKERS_MAX = 64


def is_integer(id: object) -> bool:
    """Return whether *id* is an integer of any library; a bool is none."""
    return isinstance(id, Integral) and not isinstance(id, bool)


def check_text(text: object, where: str = "") -> str:
    """Return *text* if it is a str, or raise `TypeError`; *where* names its row."""
    return str_of("text", text, where, "a str: decode it first")


def check_scope(scope: object) -> str | None:
    """Return *scope* as the service compares a value; a blank one is None, as none is.

    Raises:
        TypeError, ValueError: it is neither a str nor None, or no UTF-8 text.
    """
    if scope is None:
        return None
    return canonical(utf8_of("scope", str_of("scope", scope, "", "a str")), ())


def check_many(ids: Iterable[str | int]) -> Iterable[str | int]:
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


def check_limit(limit: object) -> None:
    """Raise `ValueError` if *limit* is neither None nor a number of matches, 1 or more."""
    if limit is not None and not (is_integer(limit) and limit >= 1):  # type: ignore[operator]
        raise ValueError(f"limit is {limit!r:.60}; use 1 or more, or None for all matches")


def check_workers(workers: object) -> int:
    """Return *workers* if it is a number of processes, 0 to 64, or raise `ValueError`."""
    if not isinstance(workers, int) or not 0 <= workers <= WORKERS_MAX:
        raise ValueError(f"workers is {workers!r:.60}; use 0 to {WORKERS_MAX} processes")
    return workers


def check_conflict(on_conflict: object) -> bool:
    """Return whether *on_conflict* skips rows whose id is known; else they are an error."""
    if on_conflict not in ON_CONFLICT:
        raise ValueError(
            f"on_conflict is {on_conflict!r:.60}; use 'error' or 'skip', or update_many"
        )
    return on_conflict == "skip"


def str_of(name: str, value: object, where: str, expected: str) -> str:
    """Return *value* if it is a str; else raise `TypeError`, which says what was *expected*."""
    if not isinstance(value, str):
        kind = type(value).__name__
        raise TypeError(f"{where}the {name} is {value!r:.60} ({kind}); expected {expected}")
    return value


def utf8_of(name: str, value: str) -> str:
    """Return *value* if UTF-8 can encode it; else raise `ValueError`."""
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError(f"the {name} {value!r:.60} is no UTF-8 text; name it otherwise") from None
    return value
