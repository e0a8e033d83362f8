"""Codecs of Avro container files: functions that unpack and pack a block."""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable
from functools import partial
from typing import Any

from streamfilter.documents.codecs.schemas import Broken
from streamfilter.files.formats.compression import (
    BZIP2,
    DEFLATE,
    XZ,
    ZSTANDARD,
    Packing,
    unpack,
    zstandard,
)
from streamfilter.stops import BrokenInput, ExitCode, Stop

CRC_BYTES = 4
SIZE_BYTES_MAX = 5
Codec = tuple[Callable[[bytes, int], bytes], Callable[[bytes], bytes]]
"""(unpacks a block to at most the given number of bytes, packs a block)."""


def codec(name: str, path: str) -> Codec:
    """Return the codec *name* of the file at *path*, or raise `BrokenInput` or `Stop`."""
    if name == "null":
        return lambda data, limit: data, lambda data: data
    if name == "snappy":
        library = _pyarrow(path)
        return partial(_from_snappy, library), partial(_to_snappy, library)
    if name not in _PACKINGS:
        raise BrokenInput(
            f"{path} is packed by the codec {name}, which is not read\n    cure: "
            "write it anew, such as by `avro-tools recodec --codec deflate IN OUT`"
        )
    packing, pack = _PACKINGS[name]
    if packing is ZSTANDARD:
        zstandard()
    return partial(unpack, packing), pack


def _deflated(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()


def _pyarrow(path: str) -> Any:
    try:
        import pyarrow
    except ModuleNotFoundError:
        raise Stop(
            f"{path} is packed by snappy, which needs pyarrow, and that is not installed\n"
            "    cure: pip install 'streamfilter[parquet]'",
            exit_code=ExitCode.USAGE,
        ) from None
    return pyarrow


def _from_snappy(pyarrow: Any, data: bytes, limit: int) -> bytes:
    """Unpack a block: the unpacked size (varint), the packed data, and a checksum."""
    packed, checksum = data[:-CRC_BYTES], data[-CRC_BYTES:]
    size = 0
    for place, byte in enumerate(packed[:SIZE_BYTES_MAX]):
        size |= (byte & 127) << 7 * place
        if byte < 128:
            break
    if size > limit:
        raise Broken("a block unpacks to more than a block may hold")
    try:
        found: bytes = pyarrow.decompress(packed, size, codec="snappy", asbytes=True)
    except (OSError, pyarrow.ArrowException) as error:
        raise Broken(f"a block is damaged: {error}") from None
    if zlib.crc32(found).to_bytes(CRC_BYTES, "big") != checksum:
        raise Broken("a block's checksum is wrong")
    return found


def _to_snappy(pyarrow: Any, data: bytes) -> bytes:
    packed: bytes = pyarrow.compress(data, codec="snappy", asbytes=True)
    return packed + zlib.crc32(data).to_bytes(CRC_BYTES, "big")


_PACKINGS: dict[str, tuple[Packing, Callable[[bytes], bytes]]] = {
    "deflate": (DEFLATE, _deflated),
    "bzip2": (BZIP2, bz2.compress),
    "xz": (XZ, lzma.compress),
    "zstandard": (ZSTANDARD, lambda data: zstandard().ZstdCompressor().compress(data)),
}
