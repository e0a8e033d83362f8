"""The beginning of every changelog record, and the record that opens a changelog.

A record begins with a version byte and a type byte. `Header` names the index and its group, and
holds the settings that a restore needs. It is repeated as the first record of a transaction that
begins a window, and it marks both ends of a rewrite.
"""

import json
import struct

from msgspec import Struct

from streamfilter.index.errors import FormatError
from streamfilter.index.format import BUCKET_CAP_MAX, ORDINAL_MAX
from streamfilter.index.input_table import ONE_TOPIC, InputTable, decode_table
from streamfilter.model import Window

VERSION = 1
NAMED = 2  # version of a batch that names its writer; one of `VERSION` has no writer
AGED = 3
"""Version of a batch whose index forgets: it holds the first ordinal that is remembered. Its
highest timestamp is the stream time. Older versions of streamfilter refuse it. A window's header
has `VERSION`, so without this they would skip the window."""
DATED = 4
"""Version of an `AGED` batch with documents. For each document it holds the time of arrival and the
horizon at that time (`index.ages`). Its own horizon is the one after the batch; an `AGED` batch
holds the one before."""
ANEW = 5  # version of a header that begins or ends a rewrite, which repeats earlier batches
SEVERAL = 6
"""Version of a header with a table of several input topics, perhaps also of a
rewrite. A version that ignored the table would take its numbers for partitions of one topic."""
SEEDED = 7  # version of a header whose table has seeds: an older version would lose them
HEADER, DOCUMENT, BATCH, FORGET, SUCCESSOR = 1, 2, 3, 4, 5
"""The types. `SUCCESSOR` ends a changelog: another group took the input over. An older version of
streamfilter refuses it, and so does not go on behind it."""
BEGIN, END, GROWN = "begin", "end", "grown"
REWRITING = bytes([ANEW, HEADER])  # the first bytes of such a header, with one input topic
GROUP, BUCKET_CAP, WINDOW, PART, INPUTS = "group", "bucket_cap", "window", "anew", "inputs"
"""Names of the header's fields, in addition to the identity's fields."""
NUMBER_MAX = (1 << 63) - 1  # of batches and ordinals: compared in signed 64-bit columns

PREFIX = struct.Struct("<BB")


class Successor(Struct, frozen=True):
    """The group that goes on in place of a changelog's owner."""

    group: str
    index_id: str  # of its index: after a `reset` it has another one


class Header(Struct, frozen=True):
    """The record that opens a changelog: its owner, and the settings that a restore needs."""

    identity: bytes  # by `Identity.encode`; after a decode, with the record's other fields
    group: str = ""  # the consumer group that writes it. Empty: not stored (old version)
    bucket_cap: int = 0  # another one would restore other buckets. 0: not stored
    window: Window | None = None  # begins with this record's transaction. None: the first
    anew: str = ""
    """`BEGIN` or `END` of a rewrite. `GROWN`: it only has a table of further inputs; a changelog
    that begins with it lost its beginning. Empty: it opens a changelog or a window."""
    inputs: InputTable = ONE_TOPIC
    """The numbers of several input topics, and the seeds; empty: one topic, and no seed."""
    successor: Successor | None = None
    """Who took the input over. Not in this record: a seed's transactions end with it."""


def kind_of(value: bytes) -> int:
    """Return the type byte of a record, or raise `FormatError`."""
    if len(value) < PREFIX.size:
        raise FormatError("a changelog record is too short to say what it is")
    version, kind = PREFIX.unpack_from(value)
    if not VERSION <= version <= SEEDED:
        raise FormatError(
            f"a changelog record of version {version}; this streamfilter reads up to {SEEDED}"
        )
    if kind not in (HEADER, DOCUMENT, BATCH, FORGET, SUCCESSOR):
        raise FormatError(f"a changelog record of unknown type {kind}")
    if version != VERSION and kind != (HEADER if version >= ANEW else BATCH):
        raise FormatError(f"a changelog record of type {kind} has no version {version}")
    return int(kind)


def body_of(value: bytes, kind: int) -> bytes:
    """Return a record of type *kind* without its first two bytes, or raise `FormatError`."""
    if (found := kind_of(value)) != kind:
        raise FormatError(f"a changelog record of type {found} where {kind} was expected")
    return value[PREFIX.size :]


def encode_header(header: Header) -> bytes:
    """Return the record that opens a changelog or a window: the identity's fields, and ours."""
    ours: dict[str, object] = {GROUP: header.group, BUCKET_CAP: header.bucket_cap}
    if (window := header.window) is not None:
        ours[WINDOW] = [window.number, window.first_ordinal, window.first_batch]
    if header.anew:
        ours[PART] = header.anew
    version = ANEW if header.anew else VERSION
    if header.inputs:
        ours[INPUTS] = header.inputs.as_json()
        version = SEEDED if header.inputs.seeds else SEVERAL
    fields = json.loads(header.identity) | ours
    body = json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()
    return PREFIX.pack(version, HEADER) + body


def decode_header(value: bytes) -> Header:
    """Return the header in a record; its identity has all fields. Raise `FormatError`."""
    body = body_of(value, HEADER)
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError):
        raise FormatError("a header record is not JSON") from None
    if not isinstance(fields, dict):
        raise FormatError("a header record has no fields")
    cap = fields.get(BUCKET_CAP, 0)
    if type(cap) is not int or not 0 <= cap <= BUCKET_CAP_MAX:
        raise FormatError(f"a header record has the bucket_cap {cap!r}")
    anew = fields.get(PART, "")
    every = "", BEGIN, END, GROWN
    parts = {ANEW: (BEGIN, END), SEVERAL: every, SEEDED: every}.get(value[0], ("",))
    if anew not in parts:
        raise FormatError(f"a header record is the part {anew!r} of a rewrite")
    window = _decoded_window(fields.get(WINDOW))
    inputs = decode_table(fields.get(INPUTS)) if value[0] >= SEVERAL else ONE_TOPIC
    if bool(inputs.seeds) is not (value[0] == SEEDED):
        raise FormatError(f"a header record of version {value[0]} has {len(inputs.seeds)} seeds")
    return Header(body, str(fields.get(GROUP, "")), cap, window, anew, inputs)


def part_of(value: bytes) -> str:
    """Return `Header.anew` of a header that can have it, else ''. Raise `FormatError`."""
    headed = value[1:2] == bytes([HEADER]) and value[0] >= ANEW
    return decode_header(value).anew if headed else ""


def encode_successor(by: Successor) -> bytes:
    """Return the record that ends a changelog, because another group goes on in its place."""
    return PREFIX.pack(VERSION, SUCCESSOR) + json.dumps([by.group, by.index_id]).encode()


def decode_successor(value: bytes) -> Successor:
    """Return what is in a record of `encode_successor`, or raise `FormatError`."""
    try:
        fields = json.loads(body_of(value, SUCCESSOR))
    except (ValueError, RecursionError):
        fields = None
    if (
        not isinstance(fields, list)
        or len(fields) != 2
        or not all(isinstance(each, str) and each for each in fields)
    ):
        raise FormatError("a successor record names no group and index")
    return Successor(*fields)


def _decoded_window(field: object) -> Window | None:
    if field is None:
        return None
    if not isinstance(field, list) or len(field) != 3 or any(type(n) is not int for n in field):
        raise FormatError(f"a header record has the window {field!r}")
    number, ordinal, batch = field
    fits = max(number, batch) <= NUMBER_MAX and ordinal <= ORDINAL_MAX + 1
    if not fits or min(number - 1, ordinal, batch) < 0:
        raise FormatError(f"a header record has the window {field!r}")
    return Window(number, ordinal, batch)
