"""Bytes on disk: a document's record and a bucket's value.

The record of a document, all little-endian (the ordinal is the key, not part of the value):

    fixed header | signature | digests | id | tokens | payload length (4), payload | batch (2)

The top bit of ``n_tokens`` says that a payload follows. The next bit says that the record ends
with the upper 16 of the 48 bits of the batch's number. At 50 batches a second they are needed
after 2.7 years; until then they take no space. The changelog's document record carries the same
bytes. So these functions use no database.

A bucket is its ordinals, 5 bytes each. A bucket that was full once ends with a 4-byte count of the
later documents, which went to a longer key or page. The length modulo 5 shows the count: a bucket
that lists 3 and 7 and counts 2 more has 5 + 5 + 4 bytes. Only a bucket with a count may be empty,
when all its documents have been forgotten.

Whole columns are packed and unpacked at once, not field by field, because Python is slow per field.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace
from numpy.typing import NDArray

from streamfilter.index.errors import FormatError
from streamfilter.index.protocol import Additions, Documents
from streamfilter.similarity.columns import (
    I64,
    NO_DIGESTS,
    U8,
    U32,
    Contents,
    Flags,
    Samples,
    Widths,
)

FORMAT = 2  # version of all that an index stores on disk and in the changelog

ORDINAL_BYTES = 5  # a trillion documents; 8 bytes would cost 50 B a document more
OVERFLOW_BYTES = 4
ORDINAL_MAX = (1 << 8 * ORDINAL_BYTES) - 1
OVERFLOW_MAX = (1 << 8 * OVERFLOW_BYTES) - 1
ID_BYTES_MAX = 0xFFFF
_VALUE = ID_BYTES_MAX.to_bytes(2, "big")
BUCKET_CAP = 8
BUCKET_CAP_MAX = 255  # `Buckets.counts` is a column of bytes
SECONDS_MAX = 0xFFFF_FFFF

PAYLOAD = 0x8000  # bit of ``n_tokens``: a payload follows the tokens. Plain texts have no payload
LATE = 0x4000  # bit of ``n_tokens``: the record ends with the upper bits of the batch's number
LATE_BYTES = 2

_EARLY = 0xFFFF_FFFF  # the bits of a batch's number that are stored in the fixed part
_LIMITS = {
    "batch": (1 << 32 + 8 * LATE_BYTES) - 1,
    "partition": 0xFFFF,
    "set_size": 0xFFFF_FFFF,
    "n_tokens": 0x3FFF,
    "id_len": ID_BYTES_MAX,
}


def _layout(widths: Widths) -> np.dtype[np.void]:
    """Return the fixed part of a document: 42 bytes, the signature and the digests."""
    columns: list[tuple[str, str, tuple[int, ...]]] = [
        ("batch", "<u4", ()),
        ("partition", "<u2", ()),
        ("offset", "<i8", ()),
        ("seconds", "<u4", ()),
        ("set_size", "<u4", ()),
        ("n_tokens", "<u2", ()),
        ("id_len", "<u2", ()),
        ("fingerprint", "u1", (16,)),
        ("signature", "u1", (widths.slots,)),
    ]
    if widths.digests:
        columns.append(("digests", "<u8", (widths.digests,)))
    return np.dtype(columns)


def whole_seconds(milliseconds: I64) -> NDArray[np.int64]:
    """Return the stored form of timestamps: 0 for none, else 1 + the seconds.

    A larger value than 32 bits hold is stored as the largest that fits. A wrong clock, such as a
    producer that sends microseconds, must not stop the service: no verdict depends on this column.
    """
    return np.where(milliseconds < 0, 0, np.minimum(milliseconds // 1_000 + 1, SECONDS_MAX))


def recorded(additions: Additions) -> Additions:
    """Return *additions* with their documents' records, encoded once for changelog and index."""
    return replace(additions, records=encode_documents(additions.documents))


def encode_documents(documents: Documents) -> list[bytes]:
    """Return each document's record, without its ordinal, or raise `FormatError`."""
    contents, samples = documents.contents, documents.contents.samples
    ids = _encoded_ids(documents.ids)
    columns = {
        "batch": documents.batches,
        "partition": documents.partitions,
        "set_size": samples.set_sizes,
        "n_tokens": samples.sizes,
        "id_len": np.fromiter(map(len, ids), np.int64, len(ids)),
    }
    fixed = np.zeros(len(documents), _layout(contents.widths))
    for name, column in columns.items():
        if len(column) and (column.min() < 0 or column.max() > _LIMITS[name]):
            raise FormatError(f"{name} must lie in 0..{_LIMITS[name]}")
        fixed[name] = column & _EARLY if name == "batch" else column
    late = documents.batches > _EARLY
    fixed["n_tokens"] |= np.where(late, LATE, 0).astype("<u2")
    if contents.payloads:
        fixed["n_tokens"] |= PAYLOAD
    fixed["offset"] = documents.offsets
    fixed["seconds"] = whole_seconds(documents.timestamps)
    fixed["fingerprint"] = contents.fingerprints
    fixed["signature"] = contents.signatures
    if contents.widths.digests:
        fixed["digests"] = contents.digests
    heads: list[bytes] = fixed.view(f"V{fixed.dtype.itemsize}").tolist()
    tokens = np.ascontiguousarray(samples.tokens, dtype="<u4").tobytes()
    ends = pairwise((4 * samples.starts).tolist())
    values = [
        b"".join((head, id_, tokens[begin:end]))
        for head, id_, (begin, end) in zip(heads, ids, ends, strict=True)
    ]
    if contents.payloads:
        values = [
            value + len(payload).to_bytes(4, "little") + payload
            for value, payload in zip(values, contents.payloads, strict=True)
        ]
    for i in np.flatnonzero(late).tolist():
        values[i] += (int(documents.batches[i]) >> 32).to_bytes(LATE_BYTES, "little")
    return values


def _encoded_ids(ids: Sequence[str]) -> list[bytes]:
    try:
        return [text.encode() for text in ids]
    except UnicodeEncodeError as error:
        raise FormatError(f"an id is not valid Unicode: {error.reason}") from error


def decode_documents(ordinals: I64, values: Sequence[bytes], widths: Widths) -> Documents:
    """Return the documents that `encode_documents` wrote, or raise `FormatError`."""
    layout = _layout(widths)
    width = layout.itemsize
    lengths = np.fromiter(map(len, values), np.int64, len(values))
    if (lengths < width).any():
        raise FormatError(f"a document's record is shorter than its fixed part of {width} bytes")
    fixed = np.frombuffer(b"".join([value[:width] for value in values]), layout)
    batches = fixed["batch"].astype(np.int64)
    if (late := (fixed["n_tokens"] & LATE) != 0).any():
        values, batches = _without_late(values, batches, late, width)
        lengths = np.fromiter(map(len, values), np.int64, len(values))
    id_ends = width + fixed["id_len"].astype(np.int64)
    sizes = (fixed["n_tokens"] & ~np.uint16(PAYLOAD | LATE)).astype(np.int64)
    payloads: list[bytes] = []
    if (fixed["n_tokens"] & PAYLOAD).any():
        values, payloads = _without_payloads(values, (id_ends + 4 * sizes).tolist(), fixed)
        lengths = np.fromiter(map(len, values), np.int64, len(values))
    _check_lengths(lengths, id_ends + 4 * sizes, sizes, fixed)
    ends = id_ends.tolist()
    tokens = np.frombuffer(
        b"".join([value[end:] for value, end in zip(values, ends, strict=True)]), "<u4"
    ).astype(np.uint32)
    starts = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
    _check_rising(tokens, starts, "token sample")
    seconds = fixed["seconds"].astype(np.int64)
    return Documents(
        ordinals=np.asarray(ordinals, dtype=np.int64),
        ids=_decoded_ids([v[width:end] for v, end in zip(values, ends, strict=True)]),
        batches=batches,
        partitions=fixed["partition"].astype(np.int64),
        offsets=fixed["offset"].astype(np.int64),
        timestamps=np.where(seconds == 0, -1, (seconds - 1) * 1_000),
        contents=Contents(
            fingerprints=np.ascontiguousarray(fixed["fingerprint"]),
            signatures=np.ascontiguousarray(fixed["signature"]),
            samples=Samples(tokens, starts, fixed["set_size"].astype(np.int64)),
            payloads=payloads,
            digests=fixed["digests"].astype(np.uint64) if widths.digests else NO_DIGESTS,
            agreeing=widths.agreeing,
            scoped=widths.scoped,
            also=widths.also,
        ),
    )


def _without_late(
    values: Sequence[bytes], batches: I64, late: Flags, width: int
) -> tuple[list[bytes], I64]:
    """Return the records without the upper bits of the batch numbers, and the whole numbers."""
    bare, whole = list(values), batches.copy()
    for i in np.flatnonzero(late).tolist():
        bare[i], rest = values[i][:-LATE_BYTES], values[i][-LATE_BYTES:]
        if len(bare[i]) < width or not any(rest):
            raise FormatError("a document's record lacks a part of its batch's number")
        whole[i] += int.from_bytes(rest, "little") << 32
    return bare, whole


def _without_payloads(
    values: Sequence[bytes], ends: list[int], fixed: NDArray[np.void]
) -> tuple[list[bytes], list[bytes]]:
    """Return the records up to their *ends*, and the payloads behind the ends."""
    if not (fixed["n_tokens"] & PAYLOAD).all():
        raise FormatError("some documents have a payload and others have none")
    payloads = [value[end + 4 :] for value, end in zip(values, ends, strict=True)]
    for value, end, payload in zip(values, ends, payloads, strict=True):
        if int.from_bytes(value[end : end + 4], "little") != len(payload) or len(value) < end + 4:
            raise FormatError("a document's payload has not the length that it says")
    return [value[:end] for value, end in zip(values, ends, strict=True)], payloads


def _check_lengths(lengths: I64, expected: I64, sampled: I64, fixed: NDArray[np.void]) -> None:
    if not np.array_equal(lengths, expected):
        raise FormatError("a document's record has not the length that its header says")
    if (sampled > fixed["set_size"]).any() or ((sampled == 0) != (fixed["set_size"] == 0)).any():
        raise FormatError("a document's token sample does not go with the size of its set")


def _check_rising(values: I64 | U32, starts: I64, what: str) -> None:
    """Refuse groups that do not rise strictly; ``starts`` also holds the end of the last."""
    fine = np.ones(len(values) + 1, np.bool_)
    np.greater(values[1:], values[:-1], out=fine[1:-1])
    fine[starts] = True
    if not fine.all():
        raise FormatError(f"a {what} is not in rising order")


def _decoded_ids(ids: list[bytes]) -> list[str]:
    try:
        return [text.decode() for text in ids]
    except UnicodeDecodeError as error:
        raise FormatError("a document's id is not UTF-8") from error


class Lists(Struct, frozen=True):
    """Many buckets as columns: bucket i lists the next ``counts[i]`` of ``ordinals``."""

    counts: I64
    ordinals: I64
    overflows: I64  # how many ordinals each bucket did not take, because it was full


def encode_buckets(lists: Lists) -> list[bytes]:
    """Return each bucket's value, or raise `FormatError`; only one with a count may be empty."""
    if len(lists.ordinals) and not 0 <= lists.ordinals.min() <= lists.ordinals.max() <= ORDINAL_MAX:
        raise FormatError(f"an ordinal must lie in 0..{ORDINAL_MAX}")
    wide = np.ascontiguousarray(lists.ordinals, dtype="<i8").view(np.uint8).reshape(-1, 8)
    packed = np.ascontiguousarray(wide[:, :ORDINAL_BYTES])
    ends = np.cumsum(lists.counts)
    firsts = ends - lists.counts
    values: list[bytes] = [b""] * len(firsts)
    if len(packed):
        at = np.minimum(firsts, len(packed) - 1)
        values = packed.view(f"V{ORDINAL_BYTES}").ravel()[at].tolist()
    # Nearly all buckets list one document, so only the others are cut out one by one.
    several = np.flatnonzero(lists.counts != 1)
    data = packed.tobytes() if several.size else b""
    cuts = ((ORDINAL_BYTES * column[several]).tolist() for column in (firsts, ends))
    for i, start, end in zip(several.tolist(), *cuts, strict=True):
        values[i] = data[start:end]
    for i in np.flatnonzero(lists.overflows).tolist():
        count = min(int(lists.overflows[i]), OVERFLOW_MAX)
        values[i] += count.to_bytes(OVERFLOW_BYTES, "little")
    return values


def decode_buckets(values: Sequence[bytes | None]) -> Lists:
    """Return the buckets behind *values* (None: an empty one), or raise `FormatError`."""
    lengths = np.fromiter([len(v) if v is not None else 0 for v in values], np.int64, len(values))
    counts, rest = np.divmod(lengths, ORDINAL_BYTES)
    full: Flags = rest == OVERFLOW_BYTES
    stored = [value for value in values if value is not None]
    if ((rest != 0) & ~full).any() or counts.max(initial=0) > BUCKET_CAP_MAX:
        raise FormatError("a bucket's value has an impossible length")
    if np.count_nonzero(lengths) != len(stored):
        raise FormatError("a stored bucket lists nothing")
    overflows = np.zeros(len(values), np.int64)
    if full.any():
        stored, overflows = _split_overflows(values, full, counts)
    data: U8 = np.frombuffer(b"".join(stored), np.uint8)
    wide = np.zeros((len(data) // ORDINAL_BYTES, 8), np.uint8)
    wide[:, :ORDINAL_BYTES] = data.reshape(-1, ORDINAL_BYTES)
    ordinals = wide.view("<i8").ravel().astype(np.int64)
    _check_rising(ordinals, np.cumsum(counts), "bucket")
    return Lists(counts, ordinals, overflows)


def _split_overflows(
    values: Sequence[bytes | None], full: Flags, counts: I64
) -> tuple[list[bytes], I64]:
    """Return the values without their counters, and the counters."""
    bare = [value or b"" for value in values]
    overflows = np.zeros(len(values), np.int64)
    for i in np.flatnonzero(full).tolist():
        end = ORDINAL_BYTES * int(counts[i])
        overflows[i] = int.from_bytes(bare[i][end:], "little")
        bare[i] = bare[i][:end]
    if not overflows[full].all():
        raise FormatError("a bucket counts an overflow of nothing")
    return bare, overflows


def name_of(document_id: str, scope: bytes = b"") -> bytes:
    """Return the name by which the documents of an id are found, those of one *scope* if given.

    It is the id's length, the id itself and the scope. So a name belongs to exactly one id, even if
    other ids begin with the same characters. No document has to be read to check it. Where there
    are scopes, the name without one begins the names of all scopes.
    """
    encoded = document_id.encode()
    return min(len(encoded), ID_BYTES_MAX).to_bytes(2, "big") + encoded + scope


def values_of(contents: Contents) -> list[tuple[bytes, ...]]:
    """Return the names of the values of each document that make a duplicate (`Contents.naming`).

    A name is the longest length of an id, a byte with which no id begins, and the digest. An
    absent value has none: the digests 7 and 0 give the one name of 7 in place 0.
    """
    return [
        tuple(
            _VALUE + bytes([0xFF - place]) + digest.to_bytes(8, "big")
            for place, digest in enumerate(row)
            if digest
        )
        for row in contents.naming.tolist()
    ]


def names_of(documents: Documents) -> list[tuple[bytes, ...]]:
    """Return the names of each document in the table of ids: its id's, then its values'."""
    ids = map(name_of, documents.ids, documents.contents.scopes)
    if not documents.contents.also:
        return [(each,) for each in ids]
    return [(id_, *each) for id_, each in zip(ids, values_of(documents.contents), strict=True)]


def id_keys(names: Sequence[Sequence[bytes]], ordinals: Sequence[int]) -> list[bytes]:
    """Return the keys of documents with these names in the table of ids; the values are empty."""
    each = zip(names, ordinals, strict=True)
    return [name + ordinal.to_bytes(8, "big") for theirs, ordinal in each for name in theirs]


class Entries(Struct):
    """Puts and deletes of one atomic write, by family; rising order of keys is fastest."""

    keys: dict[str, list[bytes]] = field(default_factory=dict)
    values: dict[str, list[bytes]] = field(default_factory=dict)
    deleted: dict[str, list[bytes]] = field(default_factory=dict)
    ranges: dict[str, list[tuple[bytes, bytes]]] = field(default_factory=dict)

    def put(self, family: str, keys: Sequence[bytes], values: Sequence[bytes]) -> None:
        self.keys.setdefault(family, []).extend(keys)
        self.values.setdefault(family, []).extend(values)

    def delete(self, family: str, keys: Sequence[bytes]) -> None:
        """Delete *keys* of *family*. Do not also put them. Absent keys do no harm."""
        self.deleted.setdefault(family, []).extend(keys)

    def delete_range(self, family: str, range_: tuple[bytes, bytes]) -> None:
        """Delete all keys of *family* from the first on and before the last, and then put."""
        self.ranges.setdefault(family, []).append(range_)
