"""The messages between a process and its workers: bytes with a length in front.

A question is a part of a batch: values to read and sketch, or texts to sketch. The answer is the
rows that were documents, and the sketches of these.

Both ends are ours and of the same version. Nevertheless the bytes, MessagePack, are decoded only to
columns and texts: no message can make code run, unlike a pickle.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import IO

import msgspec
import numpy as np
from msgspec import Struct

from streamfilter.model import Document
from streamfilter.similarity.columns import I64
from streamfilter.similarity.sketch import Sketches

LENGTH = struct.Struct("<Q")


class Drawn(Struct, frozen=True):
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


class Mishap(Exception):
    """A worker returned no sketches: it did not start, died, or did not answer in time."""


Answer = Drawn | str  # a string is the name of the exception in the worker


class Part(Struct, frozen=True):
    """A part of a batch, as a question: which values are documents, and what are their sketches?"""

    scheme: str
    seed: bytes
    recipe: str  # how to read the values (`Reader.recipe_for`); "": they are those of `as_values`
    values: Sequence[bytes | None]
    each: int = 1  # how many of the values belong to one document. It is not sent

    def answered_by(self, answer: Drawn) -> bool:
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
    return msgspec.msgpack.encode((part.scheme, part.seed, part.recipe, part.values))


def decode_part(data: bytes) -> Part:
    """Return what `encode_part` wrote."""
    return Part(*_PART.decode(data))


def encode_answer(answer: Answer) -> bytes:
    if isinstance(answer, str):
        return msgspec.msgpack.encode(answer)
    ids, rows = [*map(as_value, answer.ids)], answer.rows.astype("<i8").tobytes()
    return msgspec.msgpack.encode((rows, ids, answer.sketches.to_bytes()))


def decode_answer(data: bytes) -> Answer:
    """Return what `encode_answer` wrote; raises ValueError for anything else."""
    found = _ANSWER.decode(data)
    if isinstance(found, str):
        return found
    rows, ids, sketches = found
    documents = np.frombuffer(rows, "<i8").astype(np.int64)
    return Drawn(documents, [*map(as_text, ids)], Sketches.from_bytes(sketches))


_PART = msgspec.msgpack.Decoder(tuple[str, bytes, str, list[bytes | None]])
_ANSWER = msgspec.msgpack.Decoder(str | tuple[bytes, list[bytes], bytes])
