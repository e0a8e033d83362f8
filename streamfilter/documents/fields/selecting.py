"""Selecting: takes the text and the id out of a decoded value, its key or its headers.

This is independent of the format. Several texts are joined by a newline. Missing texts are left
out, but at least one must exist. If `/after/text` and `/after#/text` are both named, the one counts
whose form the value has: an object, or a string that holds one. A null text is an empty text. A
record is a tombstone if the path to every text ends at null before its last step. The change event
of a deleted row is an example.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from msgspec import Struct

from streamfilter.documents.fields.pointers import (
    DEPTH,
    EACH,
    WHOLE,
    Deleted,
    Inside,
    Integer,
    Path,
    Unreadable,
    checked_string,
    name_of,
    parse_pointer,
    string_of,
    wrong_type,
)
from streamfilter.documents.fields.strict_json import decode_utf8
from streamfilter.documents.fields.values import ends_at_null, field_at, has_form, strings_at
from streamfilter.model import ErrorCode, Record

DEPTH_MAX = 512  # half of Python's recursion limit, so that no parser reaches it


class Limits(Struct, frozen=True):
    """Size limits of a record; a larger one is a dead letter with a code."""

    document_bytes: int = 10 * 1024 * 1024
    text_characters: int = 2_000_000
    depth: int = DEPTH  # nesting of objects and arrays, also in JSON that a string holds

    def __post_init__(self) -> None:
        if not 1 <= self.depth <= DEPTH_MAX:
            raise ValueError(f"limits.depth is {self.depth}; use 1 to {DEPTH_MAX}, such as 64")


ID_BYTES_MAX = 1_024
DOCUMENT_LIMIT, TEXT_LIMIT, FIXED = "limits.document", "limits.text_characters", "fixed"
"""The settings that limits belong to, as a dead letter names them."""
"""Longest id in bytes of UTF-8: ids are stored in the index and travel in headers."""
KEY = "key"  # a setting with this instead of a pointer means the record's key
HEADER = "header:"  # a setting with this prefix instead of a pointer names a header
Fields = tuple[str, str | int | None]  # text and id as decoded


class TextSelection:
    """Takes the text out of a decoded value, and the id if it is there."""

    def __init__(self, texts: Sequence[str], id_pointer: str | None, *, depth: int = DEPTH) -> None:
        """Prepare to read *texts*, at least one, in this order; none leads through another."""
        self.texts = [() if text == WHOLE else parse_pointer(text, depth=depth) for text in texts]
        self.id = None if id_pointer is None else parse_pointer(id_pointer, depth=depth)
        self.paths = [*self.texts, *([] if self.id is None else [self.id])]
        """All paths that are read in a value."""
        self.needed = [self.texts, *([] if self.id is None else [[self.id]])]
        """Groups of these: a document needs at least one path of each group."""
        forms = Counter(map(_without_strings, self.texts))
        self._forms = {text for text in self.texts if forms[_without_strings(text)] > 1}
        self._only = self.texts[0] if len(texts) == 1 and EACH not in self.texts[0] else None
        self._key = _only_key(self._only)
        self._id_key = _only_key(self.id)
        id_at_hand = self.id is None or self._id_key is not None
        self.columns = (self._key, self._id_key) if self._key is not None and id_at_hand else None
        """The keys of the text and of the id, if there is one. None if either is nested deeper."""

    def __call__(self, root: Any) -> Fields:
        """Return text and id; raise `Unreadable`, or `Deleted` if each text's path ends at null."""
        # Most values have a text and an id under two keys of the outermost object.
        if self._key is not None and type(root) is dict:
            text = root.get(self._key)
            if type(text) is str and text.isascii():
                if self.id is None:
                    return text, None
                id_ = root.get(self._id_key) if self._id_key is not None else None
                if type(id_) is int or (type(id_) is str and id_.isascii()):
                    return text, id_
        return self._looked_for(root)

    def _looked_for(self, root: Any) -> Fields:
        try:
            text = self._joined(root) if self._only is None else _text_at(root, self._only)
        except Unreadable as trouble:
            if root is not None and all(ends_at_null(root, path) for path in self.texts):
                raise Deleted(trouble.reading.code, trouble.reading.message) from None
            raise
        return text, None if self.id is None else id_at(root, self.id)

    def _joined(self, root: Any) -> str:
        found = [
            None if path in self._forms and not has_form(root, path) else strings_at(root, path)
            for path in self.texts
        ]
        parts = [part for each in found if each is not None for part in each]
        if all(each is None for each in found):
            names = ", no ".join(map(name_of, self.texts))
            raise Unreadable(ErrorCode.MISSING_TEXT, f"there is no {names}")
        return "\n".join(parts)


def _without_strings(path: Path) -> Path:
    """Return *path* as it leads if no JSON is in a string."""
    return tuple(key for key in path if type(key) is not Inside)


def _only_key(path: Path | None) -> str | None:
    return path[0] if path is not None and len(path) == 1 and path[0] != EACH else None


def _text_at(root: Any, path: Path) -> str:
    found = field_at(root, path, missing=ErrorCode.MISSING_TEXT)
    return "" if found is None else string_of(found, path)


def id_at(root: Any, path: Path) -> str | int:
    """Return the id at *path*, or raise `Unreadable`."""
    found = field_at(root, path, missing=ErrorCode.MISSING_ID)
    if isinstance(found, Integer):
        check_size("the id", len(found), "bytes", ID_BYTES_MAX, FIXED)
        return int(found)
    if type(found) is int:
        return found
    if not isinstance(found, str):
        raise wrong_type(path, found, "a string or an integer")
    return checked_string(found, path)


def id_beside(where: str | None) -> Callable[[Record], str | int] | None:
    """Return a function that takes the id from the key or a header; None if it is in the value."""
    if where == KEY:
        return _key
    if where is not None and where.startswith(HEADER):
        return partial(_header, where.removeprefix(HEADER))
    return None


def _key(record: Record) -> str:
    if record.key is None:
        raise Unreadable(ErrorCode.MISSING_ID, "the record has no key")
    return decode_utf8(record.key, "the key is ")


def _header(name: str, record: Record) -> str:
    """Return the header's content; the last one of that name wins, as for other consumers."""
    content = next((each for known, each in reversed(record.headers) if known == name), None)
    if content is None:
        raise Unreadable(ErrorCode.MISSING_ID, f"the record has no header {name}")
    return decode_utf8(content, f"header {name} is ")


def check_size(what: str, size: int, unit: str, limit: int, setting: str) -> None:
    """Raise TOO_LARGE if *size* exceeds *limit*, the value of *setting*."""
    if size > limit:
        message = f"{what} has {size} {unit}; the limit is {limit} ({setting})"
        raise Unreadable(ErrorCode.TOO_LARGE, message)
