"""Avro container files: the writer's schema first, then blocks of records, each with a marker.

Records keep their bytes. The output has the same schema, codec and marker. If the length of a
record cannot be found, the start of the next one is unknown. Reading then stops, and the error
names the last readable record.
"""

from __future__ import annotations

import bz2
import json
import lzma
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from streamfilter.documents.codecs.avro_values import AvroValues
from streamfilter.documents.codecs.schemas import BROKEN_VALUE, Broken
from streamfilter.documents.codecs.varints import as_long
from streamfilter.documents.reader import Reader
from streamfilter.documents.rows import Row
from streamfilter.files.formats.compression import (
    BZIP2,
    DEFLATE,
    XZ,
    ZSTANDARD,
    Damaged,
    Packing,
    unpack,
    zstandard,
)
from streamfilter.files.formats.lines import InputFile
from streamfilter.files.formats.protocol import Input, check_columns
from streamfilter.files.outputs import OutputFile
from streamfilter.model import ErrorCode, Malformed, Record, Source
from streamfilter.stops import BrokenInput, of_extra

CRC_BYTES = 4
SIZE_BYTES_MAX = 5
Codec = tuple[Callable[[bytes, int], bytes], Callable[[bytes], bytes]]
"""(unpacks a block to at most the given number of bytes, packs a block)."""


def codec(name: str, path: str) -> Codec:
    """Return the codec *name* of the file at *path*, or raise `BrokenInput` or `Stop`."""
    if name == "null":
        return lambda data, limit: data, lambda data: data
    if name == "snappy":
        with of_extra("parquet", f"{path}: a file that is packed by snappy"):
            import pyarrow as library
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
    "deflate": (DEFLATE, partial(zlib.compress, wbits=-zlib.MAX_WBITS)),
    "bzip2": (BZIP2, bz2.compress),
    "xz": (XZ, lzma.compress),
    "zstandard": (ZSTANDARD, lambda data: zstandard().ZstdCompressor().compress(data)),
}


MAGIC = b"Obj\x01"
SYNC_BYTES = 16
BLOCK_BYTES_MAX = 256 * 1024 * 1024  # a greater length is damage, or a decompression bomb
HEADER_BYTES_MAX = 16 * 1024 * 1024  # limit of the header, which is kept in memory
BLOCK_BYTES = 64 * 1024  # a block that we write is closed at this size
LONG_BYTES_MAX = 10


class AvroTable(InputFile):
    """One container file, read once from its beginning."""

    format = "avro"

    def __init__(self, path: str, reader: Reader, name: str | None) -> None:
        """Open *path*, known to the index as *name*, and read its schema, or raise `Stop`."""
        super().__init__(path, name=name)
        self._rows_read = 0
        with self._damage():
            self._bytes = _Bytes(self.unpacked())
            metadata = self._header()
            text = metadata.get("avro.schema", b"").decode()
            self.schema = json.loads(text)
            values = AvroValues(text)
            self._read = values.reader(reader.paths).value
            self._skip = values.reader(()).value
            columns = values.outline().keys()
        self.codec = metadata.get("avro.codec", b"null").decode("utf-8", "replace")
        self._unpack, self.pack = codec(self.codec, path)
        self.sum(text.encode())
        check_columns(path, columns, reader)

    def _header(self) -> Mapping[str, bytes]:
        if self._bytes.take(len(MAGIC)) != MAGIC:
            raise BrokenInput(f"{self.path} is no Avro container file: it does not begin as one")
        metadata = {}
        while count := self._bytes.long():
            if count < 0:
                count = -count
                self._bytes.long()
            for _ in range(count):
                key = self._bytes.take(self._bytes.long()).decode()
                metadata[key] = self._bytes.take(self._bytes.long())
        self.sync = self._bytes.take(SYNC_BYTES)
        self.header, self._bytes.kept = b"".join(self._bytes.kept or ()), None
        return metadata

    def _records(self) -> Iterator[tuple[Row, int]]:
        with self._damage():
            for row in self._decoded():
                raw = row.value or b""
                self.sum(raw)
                yield row, len(raw)

    def _decoded(self) -> Iterator[Row]:
        for count, data in self._blocks():
            at = 0
            for _ in range(count):
                begun = at
                trouble = None
                try:
                    named, at = self._read(data, at)
                except UnicodeDecodeError:
                    named, at = self._skip(data, at)
                    trouble = Malformed(ErrorCode.BAD_UTF8, "a string is not UTF-8")
                if begun == at:
                    raise Broken("a record of no bytes")
                self._rows_read += 1
                source = Source(self.name, 0, self._rows_read)
                yield Row(source, data[begun:at], named=named, trouble=trouble)
            if at != len(data):
                raise Broken(f"{len(data) - at} bytes are left behind a block's last record")

    def _blocks(self) -> Iterator[tuple[int, bytes]]:
        """Yield each block's number of records, and its unpacked content."""
        while not self._bytes.ended():
            count = self._bytes.long()
            data = self._bytes.take(self._bytes.long())
            if self._bytes.take(SYNC_BYTES) != self.sync:
                raise Broken("a block does not end with the file's marker")
            if count < 0:
                raise Broken("a block of fewer than no records")
            yield count, self._unpack(data, BLOCK_BYTES_MAX)

    @contextmanager
    def _damage(self) -> Iterator[None]:
        """Turn errors of a damaged file into `BrokenInput`, which says how far it can be read."""
        try:
            yield
        except (*BROKEN_VALUE, RecursionError, ValueError, Damaged) as error:
            why = "nested too deep" if isinstance(error, RecursionError) else error
            where = f"after row {self._rows_read}" if self._rows_read else "at its beginning"
            raise BrokenInput(f"{self.path}: damaged Avro data {where}: {why}") from None

    def writer(self, output: OutputFile) -> AvroWriter:
        return AvroWriter(output, self)

    def differs(self, other: Input) -> str | None:
        same = isinstance(other, AvroTable) and other.schema == self.schema
        return None if same else "their schemas differ"


table = AvroTable


class AvroWriter:
    """Writes records unchanged, in new blocks."""

    def __init__(self, output: OutputFile, like: AvroTable) -> None:
        self._output, self._sync = output, like.sync
        self._pack = like.pack
        self._records: list[bytes] = []
        self._held = 0
        output.append(like.header)

    def add(self, records: Sequence[Record]) -> None:
        for record in records:
            raw = record.value or b""
            self._records.append(raw)
            self._held += len(raw)
            if self._held >= BLOCK_BYTES:
                self.finish()

    def finish(self) -> None:
        if self._records:
            data = self._pack(b"".join(self._records))
            lengths = as_long(len(self._records)) + as_long(len(data))
            self._output.append(lengths + data + self._sync)
            self._records, self._held = [], 0


class _Bytes:
    """Reads Avro's primitives from a file; a file that is cut short is an error."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._next = b""
        self._held = 0
        self.kept: list[bytes] | None = []  # what was read of the header; None afterwards

    def ended(self) -> bool:
        self._next = self._next or self._stream.read(1)
        return not self._next

    def take(self, size: int) -> bytes:
        if not 0 <= size <= BLOCK_BYTES_MAX:
            raise Broken(f"a length of {size} bytes")
        data: bytes = self._next + self._stream.read(size - len(self._next)) if size else b""
        self._next = b"" if size else self._next
        if len(data) < size:
            raise Broken("it ends in the middle")
        if self.kept is not None:
            self._held += size
            if self._held > HEADER_BYTES_MAX:
                raise Broken(f"a header of more than {HEADER_BYTES_MAX} bytes")
            self.kept.append(data)
        return data

    def long(self) -> int:
        value = 0
        for place in range(LONG_BYTES_MAX):
            byte = self.take(1)[0]
            value |= (byte & 127) << 7 * place
            if byte < 128:
                return (value >> 1) ^ -(value & 1)
        raise Broken("an integer of more than 64 bits")
