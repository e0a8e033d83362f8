"""The messages between a process and its workers: bytes with a length in front.

A question holds texts to sketch, or values to read and sketch. The answer to texts is their
sketches. The answer to values is the rows that were documents, and the sketches of these.

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

from streamfilter.similarity.columns import I64
from streamfilter.similarity.sketch import Drawn, Sketches

LENGTH = struct.Struct("<Q")
_QUESTION = struct.Struct("<IIII")
"""Bytes of the scheme, of the seed and of the recipe; number of texts or values."""
_DRAWN_HEAD = struct.Struct("<IIQ")
"""Number of documents, number of ids, bytes of the ids."""
_SKETCHES, _DRAWN, _TROUBLE = b"s", b"d", b"t"
_NO_VALUE = -1
"""The length that marks a null value."""

Answer = Sketches | Drawn | str
"""A string is the name of the exception in the worker."""


@dataclass(frozen=True, slots=True)
class Texts:
    """A question for the sketches of texts, which may hold any code point."""

    scheme: str
    seed: bytes
    texts: Sequence[str]

    def __len__(self) -> int:
        return len(self.texts)

    def answered_by(self, answer: Answer) -> bool:
        """Return whether *answer* fits this question."""
        return isinstance(answer, Sketches) and len(answer) == len(self.texts)


@dataclass(frozen=True, slots=True)
class Values:
    """A question for the documents in values, and their sketches."""

    scheme: str
    seed: bytes
    recipe: str
    """How to read the values (`documents.reader.Recipe`)."""
    values: Sequence[bytes | None]

    def __len__(self) -> int:
        return len(self.values)

    def answered_by(self, answer: Answer) -> bool:
        """Return whether *answer* fits this question."""
        if not isinstance(answer, Drawn):
            return False
        rows = answer.rows
        rising = not len(rows) or (
            rows[0] >= 0 and rows[-1] < len(self.values) and bool((np.diff(rows) > 0).all())
        )
        return rising and len(answer.sketches) == len(rows) and len(answer.ids) in (0, len(rows))


Question = Texts | Values


def write(file: IO[bytes], data: bytes) -> None:
    """Write *data* to *file*, all of it."""
    file.write(LENGTH.pack(len(data)))
    file.write(data)
    file.flush()


def read(file: IO[bytes]) -> bytes:
    """Return the next message.

    Raises:
        EOFError: there is none, or it is cut short.
    """
    (length,) = LENGTH.unpack(_exactly(file, LENGTH.size))
    return _exactly(file, length)


def _exactly(file: IO[bytes], size: int) -> bytes:
    data = file.read(size)
    if len(data) < size:
        raise EOFError(f"the other end is gone: {len(data)} of {size} bytes came")
    return data


def encode_question(question: Question) -> bytes:
    """Return *question* as bytes."""
    name, recipe = question.scheme.encode(), b""
    if isinstance(question, Values):
        recipe = question.recipe.encode()
        lengths = _lengths([_NO_VALUE if v is None else len(v) for v in question.values])
        content = [v for v in question.values if v is not None]  # no value is copied twice
    else:
        lengths, joined = _joined(question.texts)
        content = [joined]
    head = _QUESTION.pack(len(name), len(question.seed), len(recipe), len(question))
    return b"".join((head, name, question.seed, recipe, lengths, *content))


def decode_question(data: bytes) -> Question:
    """Return what `encode_question` wrote."""
    *parts, count = _QUESTION.unpack_from(data)
    name, seed, recipe = _cut(data, _QUESTION.size, parts)
    begin = _QUESTION.size + sum(parts)
    lengths, content = np.frombuffer(data, "<i8", count=count, offset=begin), begin + 8 * count
    if not recipe:
        return Texts(name.decode(), seed, _separated(lengths, data[content:]))
    values: list[bytes | None] = list(_cut(data, content, np.maximum(lengths, 0).tolist()))
    for row in np.flatnonzero(lengths == _NO_VALUE).tolist():
        values[row] = None
    return Values(name.decode(), seed, recipe.decode(), values)


def encode_answer(answer: Answer) -> bytes:
    """Return sketches, or the name of an exception, as bytes."""
    if isinstance(answer, str):
        return _TROUBLE + answer.encode()
    if isinstance(answer, Sketches):
        return _SKETCHES + answer.to_bytes()
    lengths, ids = _joined(answer.ids)
    head = _DRAWN_HEAD.pack(len(answer.rows), len(answer.ids), len(ids))
    rows = answer.rows.astype("<i8").tobytes()
    return b"".join((_DRAWN, head, rows, lengths, ids, answer.sketches.to_bytes()))


def decode_answer(data: bytes) -> Answer:
    """Return what `encode_answer` wrote; raises ValueError for anything else."""
    if data[:1] == _TROUBLE:
        return data[1:].decode()
    if data[:1] == _SKETCHES:
        return Sketches.from_bytes(data[1:])
    if data[:1] != _DRAWN:
        raise ValueError("neither sketches nor trouble")
    documents, named, size = _DRAWN_HEAD.unpack_from(data, 1)
    at = 1 + _DRAWN_HEAD.size
    rows = np.frombuffer(data, "<i8", count=documents, offset=at).astype(np.int64)
    at += 8 * documents
    lengths = np.frombuffer(data, "<i8", count=named, offset=at)
    at += 8 * named
    ids = _separated(lengths, data[at : at + size])
    return Drawn(rows, ids, Sketches.from_bytes(data[at + size :]))


def _lengths(values: Sequence[int]) -> bytes:
    return np.array(values, "<i8").tobytes()


def _joined(texts: Sequence[str]) -> tuple[bytes, bytes]:
    """Return the lengths of *texts* in characters, and the joined texts, both as bytes."""
    return _lengths([*map(len, texts)]), "".join(texts).encode("utf-8", "surrogatepass")


def _separated(lengths: I64, content: bytes) -> list[str]:
    """Return the texts for which `_joined` returned *lengths* and *content*."""
    joined, ends = content.decode("utf-8", "surrogatepass"), np.cumsum(lengths).tolist()
    return [joined[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def _cut(data: bytes, begin: int, sizes: Sequence[int]) -> list[bytes]:
    ends = [*accumulate(sizes, initial=begin)]
    return [data[start:end] for start, end in pairwise(ends)]
