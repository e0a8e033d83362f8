"""What passes between a process and its workers: bytes behind their length.

Both ends are ours, and of one version. Yet nothing is made of these bytes but columns and texts:
whatever else comes, no code runs because of it.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import IO

import numpy as np

from streamfilter.similarity.sketch import Sketches

LENGTH = struct.Struct("<Q")
_QUESTION = struct.Struct("<III")
"""Bytes of the scheme and of the seed, number of texts."""
_SKETCHES, _TROUBLE = b"s", b"t"


def write(file: IO[bytes], data: bytes) -> None:
    """Write *data* to *file*, all of it."""
    file.write(LENGTH.pack(len(data)))
    file.write(data)
    file.flush()


def read(file: IO[bytes]) -> bytes:
    """Return what comes next.

    Raises:
        EOFError: there is nothing, or not all of it.
    """
    (length,) = LENGTH.unpack(_exactly(file, LENGTH.size))
    return _exactly(file, length)


def _exactly(file: IO[bytes], size: int) -> bytes:
    data = file.read(size)
    if len(data) < size:
        raise EOFError(f"the other end is gone: {len(data)} of {size} bytes came")
    return data


def encode_question(scheme: str, seed: bytes, texts: Sequence[str]) -> bytes:
    """Return the question for the sketches of *texts*, which may hold any code point."""
    name = scheme.encode()
    lengths = np.array([len(text) for text in texts], "<i8")
    head = _QUESTION.pack(len(name), len(seed), len(texts))
    return head + name + seed + lengths.tobytes() + "".join(texts).encode("utf-8", "surrogatepass")


def decode_question(data: bytes) -> tuple[str, bytes, list[str]]:
    """Return scheme, seed and texts of what `encode_question` wrote."""
    scheme, seed, count = _QUESTION.unpack_from(data)
    begin = _QUESTION.size + scheme + seed
    ends = np.cumsum(np.frombuffer(data, "<i8", count=count, offset=begin)).tolist()
    joined = data[begin + 8 * count :].decode("utf-8", "surrogatepass")
    texts = [joined[start:end] for start, end in zip([0, *ends], ends, strict=False)]
    return data[_QUESTION.size : begin - seed].decode(), data[begin - seed : begin], texts


def encode_answer(answer: Sketches | str) -> bytes:
    """Return sketches, or the name of what went wrong, as bytes."""
    if isinstance(answer, str):
        return _TROUBLE + answer.encode()
    return _SKETCHES + answer.to_bytes()


def decode_answer(data: bytes) -> Sketches | str:
    """Return what `encode_answer` wrote; raises ValueError for anything else."""
    if data[:1] == _TROUBLE:
        return data[1:].decode()
    if data[:1] == _SKETCHES:
        return Sketches.from_bytes(data[1:])
    raise ValueError("neither sketches nor trouble")
