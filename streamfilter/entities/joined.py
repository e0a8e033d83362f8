"""A record as one text: its fields and the held-out one, joined by ASCII's unit separator."""

from collections.abc import Sequence

SEPARATOR = "\x1f"
_AND = " + /"


def pointers_of(field: str) -> list[str]:
    """Return the pointers of a field, which may join several values.

    Example: ``/last + /first`` gives ``/last`` and ``/first``.
    """
    first, *others = field.split(_AND)
    return [first, *(f"/{each}" for each in others)]


def join_fields(values: Sequence[str], held_out: str = "") -> str:
    """Return a record as one text: its fields, then the held-out one."""
    return SEPARATOR.join(value.replace(SEPARATOR, " ") for value in (*values, held_out))


def split_fields(text: str, count: int) -> list[str]:
    """Return the *count* fields of a joined record and its held-out one, or raise `ValueError`."""
    parts = text.split(SEPARATOR)
    if len(parts) != count + 1:
        raise ValueError(f"a record has {count} fields and one more, not {len(parts)}")
    return parts
