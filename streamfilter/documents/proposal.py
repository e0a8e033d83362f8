"""Proposes the fields for text and id, from some records of a topic.

It helps to write the first configuration. A person reads the proposal and its figures. The filter
does not use it.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from statistics import median
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from streamfilter.documents.codecs.schemas import FRAME_BYTES, is_glue
from streamfilter.documents.fields.pointers import (
    Integer,
    Path,
    Unreadable,
    parse_pointer,
    pointer_of,
)
from streamfilter.documents.fields.strict_json import check_depth, decode_utf8, parse_json

DEPTH = 64
MOST = 0.8  # share of the records that must have a proposed field
ID_CHARACTERS_MAX = 200

_ID = re.compile(r"(?:^|[_.-])(?:id|uid|uuid|guid|key|url|uri|ref|nr)$|(?<=[a-z])I[Dd]$", re.ASCII)
"""Names of id fields. Different values alone are not enough: times and counters differ, too."""


class Proposal(Struct, frozen=True):
    """The proposed format and fields."""

    records: int  # how many records were examined, without tombstones
    format: str
    """``json`` or ``text``; ``avro`` if most values begin with a registry's frame (they may also be
    Protobuf)."""
    text: str | None = None  # pointer to the field with the most words; None: there is none
    words: int = 0  # median number of words in that text
    others: tuple[str, ...] = ()  # further fields with words, the longest first
    id: str | None = None  # pointer to a field that is named like an id and always differs
    distinct: tuple[str, ...] = ()
    """JSON Pointers to fields of one word or a number that differ in each record, with any name."""

    @property
    def sure(self) -> bool:
        """Return whether the proposal says where the text is."""
        return self.records > 0 and (self.format == "text" or self.text is not None)


class _Seen(Struct):
    """Statistics of the values at one pointer."""

    words: list[int] = field(default_factory=list)
    values: set[str] = field(default_factory=set)
    count: int = 0

    def see(self, value: str) -> None:
        self.count += 1
        self.values.add(value)
        if not isinstance(value, Integer):
            self.words.append(len(value.split()))


def propose(values: Sequence[bytes | None]) -> Proposal:
    there = [value for value in values if value]
    roots = [root for value in there if (root := _object(value)) is not None]
    if len(roots) < MOST * len(there):
        return Proposal(len(there), _other_format(there))
    return replace(propose_from(roots, "json"), records=len(there))


def propose_from(roots: Sequence[dict[str, Any]], format: str) -> Proposal:
    """Return the proposal for records that were decoded to *roots* by *format*."""
    seen: defaultdict[str, _Seen] = defaultdict(_Seen)
    for root in roots:
        for pointer, value in _scalars(root, ()):
            seen[pointer].see(value)
    found = {pointer: each for pointer, each in seen.items() if each.count >= MOST * len(roots)}
    texts = sorted(
        (pointer for pointer, each in found.items() if max(each.words, default=0) > 1),
        key=lambda pointer: -sum(found[pointer].words),
    )
    distinct = _distinct(found, len(roots))
    return Proposal(
        records=len(roots),
        format=format,
        text=texts[0] if texts else None,
        words=round(median(found[texts[0]].words)) if texts else 0,
        others=tuple(texts[1:4]),
        id=next((each for each in distinct if _ID.search(each.rpartition("/")[2])), None),
        distinct=tuple(each for each in distinct if max(found[each].words, default=0) < 2)[:3],
    )


def _distinct(found: dict[str, _Seen], records: int) -> list[str]:
    """Return the fields that are in every record and always different, the outermost first."""
    never_the_same = [
        pointer
        for pointer, each in found.items()
        if each.count == len(each.values) == records
        and max(map(len, each.values)) <= ID_CHARACTERS_MAX
    ]
    return sorted(never_the_same, key=lambda pointer: pointer.count("/"))


def _object(value: bytes) -> dict[str, Any] | None:
    try:
        check_depth(value, DEPTH)
        root = parse_json(value)
    except Unreadable:
        return None
    return root if isinstance(root, dict) else None


def _other_format(values: Sequence[bytes]) -> str:
    """Return the format of values that are not JSON objects; ``json`` if unclear or broken."""
    framed = sum((v.startswith(b"\0") and len(v) > FRAME_BYTES) or is_glue(v) for v in values)
    if framed >= MOST * len(values):
        return "avro"
    if sum(value.lstrip().startswith((b"{", b"[")) for value in values) >= MOST * len(values):
        return "json"
    return "text" if all(map(_is_text, values)) else "json"


def _is_text(value: bytes) -> bool:
    try:
        return decode_utf8(value).isprintable() or b"\0" not in value
    except Unreadable:
        return False


def _scalars(here: dict[str, Any], path: Path) -> Iterator[tuple[str, str]]:
    """Yield (pointer, value) of each text and integer inside nested objects."""
    for key, value in here.items():
        pointer = pointer_of((*path, key))
        if isinstance(value, dict):
            yield from _scalars(value, (*path, key))
        elif isinstance(value, str) and _can_be_named(pointer):
            yield pointer, value
        elif type(value) is int and _can_be_named(pointer):
            yield pointer, Integer(value)


def _can_be_named(pointer: str) -> bool:
    try:
        parse_pointer(pointer)
    except ValueError:  # a key that looks like an array's index
        return False
    return True
