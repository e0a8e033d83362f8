"""Reading: from the bytes of a record to a document, or to the reason why it is none.

The fast way decodes only the text and the id, straight into a struct made from their JSON
Pointers; the parser skips every other field. Whatever it refuses goes the slow way,
`strict_json`, which is the definition: it names the error from a closed set, or still finds a
document where the fast way was too strict. Any bytes give a reading, never an exception.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import msgspec

from streamfilter.documents.record_fields import FieldsReader
from streamfilter.documents.strict_json import (
    Integer,
    Path,
    Unreadable,
    check_depth,
    checked_string,
    decode_utf8,
    field_at,
    kind,
    parse_object,
    parse_pointer,
    pointer_of,
)
from streamfilter.model import (
    Document,
    ErrorCode,
    Malformed,
    Reading,
    Reason,
    Record,
    Source,
    Unjudged,
    Verdict,
)

ID_BYTES_MAX = 1_024
"""Longest id in bytes of UTF-8: ids are stored in the index and travel in headers."""

DEPTH_MAX = 512
"""Highest limit of nesting: half of Python's recursion limit, so that no parser reaches it."""

Fields = tuple[str, str | int | None]
"""Text and id as decoded."""

# Anything but white space, control characters and what Unicode draws as nothing. A fixed list,
# so that a new Python with a newer Unicode changes no verdict.
_VISIBLE = re.compile(
    "[^\\s\x00-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    "\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U000e0000-\U000e0fff]"
)


@dataclass(frozen=True, slots=True)
class Limits:
    """What a record may be at most; beyond it is a dead letter with a code."""

    document_bytes: int = 10 * 1024 * 1024
    text_characters: int = 2_000_000
    depth: int = 64
    """Nested objects and arrays."""

    def __post_init__(self) -> None:
        if not 1 <= self.depth <= DEPTH_MAX:
            raise ValueError(f"limits.depth is {self.depth}; use 1 to {DEPTH_MAX}, such as 64")


def is_blank(text: str) -> bool:
    """Return True if *text* shows nothing: white space, control and invisible characters only."""
    return _VISIBLE.search(text) is None


def position_id(source: Source) -> str:
    """Return the id of a record that brings none: ``topic-partition-offset``."""
    return f"{source.topic}-{source.partition}-{source.offset}"


class Reader:
    """Reads records under one configuration; any thread may share it."""

    def __init__(
        self,
        format: str = "json",
        *,
        text_pointer: str = "/text",
        id_pointer: str | None = "/id",
        fields: Sequence[str] = (),
        held_out: str | None = None,
        limits: Limits | None = None,
        empty_text: str = "forward",
        tombstones: str = "forward",
    ) -> None:
        """Prepare the decoder.

        Args:
            format: ``json`` (text and id by JSON Pointer), ``text`` (the value is the text) or
                ``fields`` (a record: its fields, joined, are the text).
            text_pointer: where the text is, as RFC 6901 has it, such as ``/body/text``.
            id_pointer: where the id is; None makes it ``topic-partition-offset``.
            fields: for records, where each field is.
            held_out: for records, where the field is that takes no part, or None.
            limits: sizes beyond which a record is a dead letter.
            empty_text: ``forward``, ``drop``, or ``exact_only`` to judge empty texts too.
            tombstones: ``forward`` or ``drop`` records without a value.

        Raises:
            ValueError: for anything not listed above; the message names the cure.
        """
        formats: dict[str, Callable[[bytes], Fields]] = {
            "json": self._read_json,
            "text": self._read_text,
            "fields": self._read_record,
        }
        if format not in formats:
            raise ValueError(f"input.format is {format!r}; use one of {', '.join(formats)}")
        if tombstones == "exact_only":
            raise ValueError("tombstones is 'exact_only', but they have no text; use forward")
        self.limits = limits or Limits()
        self._empty = _policy("empty_text", empty_text, Reason.EMPTY)
        self._tombstone = _policy("tombstones", tombstones, Reason.TOMBSTONE)
        self._read_value = formats[format]
        self._record: FieldsReader | None = None
        if format == "fields":
            self._record = FieldsReader(fields, id_pointer=id_pointer, held_out=held_out)
        self._text_path = parse_pointer(text_pointer)
        self._id_path = None if id_pointer is None else parse_pointer(id_pointer)
        self._fast = _fast_decoder(self._text_path, self._id_path)

    def read(self, record: Record) -> Reading:
        """Return the document in *record*, or why there is none."""
        try:
            return self._read(record)
        except Unreadable as trouble:
            return trouble.reading
        except (MemoryError, OSError):
            raise  # the machine's trouble, not the record's: a restart reads it again
        except Exception as error:
            return Malformed(ErrorCode.INTERNAL, f"{type(error).__name__} while reading")

    def _read(self, record: Record) -> Reading:
        value = record.value
        if record.headers_error is not None:
            raise Unreadable(ErrorCode.BAD_HEADER, record.headers_error)
        if value is None:
            return self._tombstone or Malformed(ErrorCode.INTERNAL, "no policy for tombstones")
        _check_size("the value", len(value), "bytes", self.limits.document_bytes)
        text, id_ = self._read_value(value)
        _check_size("the text", len(text), "characters", self.limits.text_characters)
        if self._empty is not None and is_blank(text):
            return self._empty
        name = position_id(record.source) if id_ is None else str(id_)
        _check_size("the id", len(name.encode()), "bytes", ID_BYTES_MAX)
        return Document(name, text)

    def _read_text(self, value: bytes) -> Fields:
        """Take the whole value as the text."""
        return decode_utf8(value), None

    def _read_record(self, value: bytes) -> Fields:
        """Take the fields of a record, joined, for the text."""
        assert self._record is not None, "format fields has its reader"
        check_depth(value, self.limits.depth)
        return self._record.read(value)

    def _read_json(self, value: bytes) -> Fields:
        """Take text and id out of a JSON object, the fast way if it will do."""
        check_depth(value, self.limits.depth)
        if self._fast is not None:
            try:
                fields = self._fast(value)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                return self._read_json_slowly(value)
            if not value.isascii():
                decode_utf8(value)  # the parser does not look into the fields it skips
            return fields
        return self._read_json_slowly(value)

    def _read_json_slowly(self, value: bytes) -> Fields:
        """Name the error, or find the document after all."""
        root = parse_object(value)
        text = field_at(root, self._text_path, missing=ErrorCode.MISSING_TEXT)
        if type(text) is not str:
            raise _wrong_type(self._text_path, text, "a string")
        text = checked_string(text, self._text_path)
        if self._id_path is None:
            return text, None
        id_ = field_at(root, self._id_path, missing=ErrorCode.MISSING_ID)
        if isinstance(id_, Integer):
            _check_size("the id", len(id_), "bytes", ID_BYTES_MAX)
            return text, int(id_)
        if not isinstance(id_, str):
            raise _wrong_type(self._id_path, id_, "a string or an integer")
        return text, checked_string(id_, self._id_path)


def _policy(key: str, policy: str, reason: Reason) -> Unjudged | None:
    """Return the reading that *policy* prescribes, None if such records are judged."""
    if policy == "exact_only":
        return None
    verdicts = {"forward": Verdict.PASSTHROUGH, "drop": Verdict.DROPPED}
    if policy not in verdicts:
        raise ValueError(f"{key} is {policy!r}; use forward or drop")
    return Unjudged(verdicts[policy], reason)


def _check_size(what: str, size: int, unit: str, limit: int) -> None:
    if size > limit:
        raise Unreadable(ErrorCode.TOO_LARGE, f"{what} has {size} {unit}; the limit is {limit}")


def _wrong_type(path: Path, value: Any, wanted: str) -> Unreadable:
    message = f"{pointer_of(path)} is {kind(value)}; it must be {wanted}"
    return Unreadable(ErrorCode.WRONG_TYPE, message)


def _fast_decoder(text: Path, id_: Path | None) -> Callable[[bytes], Fields] | None:
    """Return a function from bytes to text and id; None if msgspec cannot name the fields.

    Raises:
        ValueError: if one pointer leads through the other.
    """
    if id_ is not None and (text[: len(id_)] == id_ or id_[: len(text)] == text):
        raise ValueError(
            f"{pointer_of(text)!r} (text) and {pointer_of(id_)!r} (id) overlap; "
            "use two different fields"
        )
    fields: list[tuple[Path, Any]] = [(text, str)]
    if id_ is not None:
        fields.append((id_, str | int))
    try:
        decode = msgspec.json.Decoder(_struct(fields)).decode
    except ValueError:  # msgspec renames to no key with a quote, backslash or control character
        return None
    if id_ is None:
        get_text = attrgetter(_attributes(text))
        return lambda value: (get_text(decode(value)), None)
    get_both = attrgetter(_attributes(text), _attributes(id_))
    return lambda value: get_both(decode(value))


def _struct(fields: list[tuple[Path, Any]]) -> type[msgspec.Struct]:
    """Return a struct that decodes exactly *fields*, nested as their paths say."""
    groups: dict[str, list[tuple[Path, Any]]] = {}
    for path, type_ in fields:
        groups.setdefault(path[0], []).append((path[1:], type_))
    return msgspec.defstruct(
        "Fields",
        [
            (_attribute(key), members[0][1] if members[0][0] == () else _struct(members))
            for key, members in groups.items()
        ],
        rename={_attribute(key): key for key in groups},
        gc=False,
    )


def _attribute(key: str) -> str:
    """Return a Python name for any *key*."""
    return "f" + key.encode().hex()


def _attributes(path: Path) -> str:
    return ".".join(map(_attribute, path))
