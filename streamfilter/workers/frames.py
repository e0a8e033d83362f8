"""The messages between a process and its workers: bytes with a length in front.

A question is a part of a batch: values to read and sketch, or texts to sketch. The answer is the
rows that were documents, and the sketches of these.

Both ends are ours and of the same version. Nevertheless the bytes are decoded only to columns and
texts: no message can make code run, unlike a pickle.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import IO

import numpy as np

from streamfilter.model import Document
from streamfilter.similarity.columns import I64
from streamfilter.similarity.sketch import Sketches

LENGTH = struct.Struct("<Q")
_PART = struct.Struct("<IIII")  # bytes of the scheme, the seed and the recipe; number of values
_DRAWN_HEAD = struct.Struct("<IIQ")  # number of documents, number of ids, bytes of the ids
_DRAWN, _TROUBLE = b"d", b"t"
_NO_VALUE = -1  # the length that marks a null value


@dataclass(frozen=True, slots=True)
class Drawn:
    """The plain documents in some values, read and sketched by worker processes."""

    rows: I64  # (n,) which of the values these are, rising
    ids: Sequence[str]  # ids from the values; empty if ids are not in the values
    sketches: Sketches

    @classmethod
    def joined(cls, parts: Sequence[Drawn], starts: Sequence[int]) -> Drawn:
        """Return the documents of all *parts* (one or more); part i began at ``starts[i]``."""
        rows = [part.rows + start for part, start in zip(parts, starts, strict=True)]
        ids = [id_ for part in parts for id_ in part.ids]
        sketches = Sketches.joined([part.sketches for part in parts])
        return cls(np.concatenate(rows), ids, sketches)


Answer = Drawn | str  # a string is the name of the exception in the worker


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a batch, as a question: which values are documents, and what are their sketches?"""

    scheme: str
    seed: bytes
    recipe: str  # how to read the values (`Reader.recipe_for`); "": they are those of `as_values`
    values: Sequence[bytes | None]
    each: int = 1  # how many of the values belong to one document. It is not sent

    def answered_by(self, answer: Drawn) -> bool:
        """Return whether *answer* fits this part."""
        rows, documents = answer.rows, len(self.values) // self.each
        rising = not len(rows) or (
            rows[0] >= 0 and rows[-1] < documents and bool((np.diff(rows) > 0).all())
        )
        whole = bool(self.recipe) or len(rows) == documents
        fits = len(answer.sketches) == len(rows) and len(answer.ids) in (0, len(rows))
        return rising and whole and fits


def as_values(documents: Sequence[Document], pointers: int) -> list[bytes | None]:
    """Return the text of each document, and after it the *pointers* values beside the text."""
    if not pointers:
        return [as_value(each.text) for each in documents]
    return [
        None if part is None else as_value(part)
        for each in documents
        for part in (each.text, *each.values)
    ]


def as_documents(values: Sequence[bytes | None], pointers: int) -> list[Document]:
    """Return the documents that `as_values` made *values* of, without ids."""
    parts = [None if value is None else as_text(value) for value in values]
    each = 1 + pointers
    places = range(0, len(parts), each)
    return [Document("", parts[at] or "", tuple(parts[at + 1 : at + each])) for at in places]


def as_value(text: str) -> bytes:
    """Return *text*, which may hold any code point, as a value."""
    return text.encode("utf-8", "surrogatepass")


def as_text(value: bytes | None) -> str:
    """Return the text that `as_value` made *value* of."""
    return (value or b"").decode("utf-8", "surrogatepass")


def write(file: IO[bytes], data: bytes) -> None:
    """Write *data* to *file*, all of it."""
    file.write(LENGTH.pack(len(data)))
    file.write(data)
    file.flush()


def read(file: IO[bytes]) -> bytes:
    """Return the next message; raise `EOFError` if there is none, or it is cut short."""
    (length,) = LENGTH.unpack(_exactly(file, LENGTH.size))
    return _exactly(file, length)


def _exactly(file: IO[bytes], size: int) -> bytes:
    data = file.read(size)
    if len(data) < size:
        raise EOFError(f"the other end is gone: {len(data)} of {size} bytes came")
    return data


def encode_part(part: Part) -> bytes:
    """Return *part* as bytes."""
    name, recipe, values = part.scheme.encode(), part.recipe.encode(), part.values
    head = _PART.pack(len(name), len(part.seed), len(recipe), len(values))
    lengths = _lengths([_NO_VALUE if v is None else len(v) for v in values])
    content = [v for v in values if v is not None]  # no value is copied twice
    return b"".join((head, name, part.seed, recipe, lengths, *content))


def decode_part(data: bytes) -> Part:
    """Return what `encode_part` wrote."""
    *sizes, count = _PART.unpack_from(data)
    name, seed, recipe = _cut(data, _PART.size, sizes)
    begin = _PART.size + sum(sizes)
    lengths = np.frombuffer(data, "<i8", count=count, offset=begin)
    values: list[bytes | None] = [*_cut(data, begin + 8 * count, np.maximum(lengths, 0).tolist())]
    for row in np.flatnonzero(lengths == _NO_VALUE).tolist():
        values[row] = None
    return Part(name.decode(), seed, recipe.decode(), values)


def encode_answer(answer: Answer) -> bytes:
    """Return documents, or the name of an exception, as bytes."""
    if isinstance(answer, str):
        return _TROUBLE + answer.encode()
    ids = [*map(as_value, answer.ids)]
    head = _DRAWN_HEAD.pack(len(answer.rows), len(ids), sum(map(len, ids)))
    rows, lengths = answer.rows.astype("<i8").tobytes(), _lengths([*map(len, ids)])
    return b"".join((_DRAWN, head, rows, lengths, *ids, answer.sketches.to_bytes()))


def decode_answer(data: bytes) -> Answer:
    """Return what `encode_answer` wrote; raises ValueError for anything else."""
    if data[:1] == _TROUBLE:
        return data[1:].decode()
    if data[:1] != _DRAWN:
        raise ValueError("neither documents nor trouble")
    documents, named, size = _DRAWN_HEAD.unpack_from(data, 1)
    at = 1 + _DRAWN_HEAD.size
    rows = np.frombuffer(data, "<i8", count=documents, offset=at).astype(np.int64)
    at += 8 * documents
    lengths = np.frombuffer(data, "<i8", count=named, offset=at).tolist()
    at += 8 * named
    ids = [*map(as_text, _cut(data, at, lengths))]
    return Drawn(rows, ids, Sketches.from_bytes(data[at + size :]))


def _lengths(values: Sequence[int]) -> bytes:
    return np.array(values, "<i8").tobytes()


def _cut(data: bytes, begin: int, sizes: Sequence[int]) -> list[bytes]:
    ends = [*accumulate(sizes, initial=begin)]
    return [data[start:end] for start, end in pairwise(ends)]
