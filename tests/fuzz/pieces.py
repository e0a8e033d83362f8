"""Several values in one input: each behind its length, so that the fuzzer can move the cuts."""

import struct
from collections.abc import Callable
from dataclasses import dataclass

_LENGTH = struct.Struct("<H")


@dataclass(frozen=True, slots=True)
class Target:
    """One reader of bytes under test."""

    check: Callable[[bytes], object]
    """Raises for a broken promise, and returns for everything else."""
    seeds: tuple[bytes, ...]
    """Inputs that the reader takes: where the fuzzer begins."""
    words: tuple[bytes, ...] = ()
    """What an input is made of, for the fuzzer's dictionary."""


def cut(data: bytes, at_most: int) -> list[bytes]:
    """Return up to *at_most* pieces; the last one takes what is left."""
    pieces: list[bytes] = []
    while len(pieces) + 1 < at_most and len(data) >= _LENGTH.size:
        (length,) = _LENGTH.unpack_from(data)
        end = _LENGTH.size + length
        pieces.append(data[_LENGTH.size : end])
        data = data[end:]
    return [*pieces, data]


def joined(*pieces: bytes) -> bytes:
    """Return what `cut` parts into *pieces*."""
    return b"".join(_LENGTH.pack(len(each)) + each for each in pieces[:-1]) + pieces[-1]
