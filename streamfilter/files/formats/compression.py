"""Compression: gzip, bzip2, xz and Zstandard, of whole files and of a container's blocks.

A packed file may unpack to a thousand times its size. So it is unpacked in pieces, and no header
makes an unpacker use more than `MEMORY_BYTES_MAX`.
"""

import bz2
import gzip
import lzma
import zlib
from collections.abc import Callable
from io import BufferedReader, RawIOBase
from pathlib import Path
from typing import IO, Any

from msgspec import Struct
from msgspec.structs import replace

from streamfilter.stops import BrokenInput, of_extra

PIECE_BYTES = 1 << 17  # bytes that are unpacked at a time
MEMORY_BYTES_MAX = 1 << 27  # of an unpacker; the strongest presets need 65 and 128 MiB
ZSTD_PIECE_BYTES = 512
"""Packed bytes passed to Zstandard at a time. The library does not limit its output, and four
bytes may unpack to 128 KiB."""


class Damaged(Exception):
    """The data is corrupt, or not packed as its first bytes say; the message says why."""


class _Zlib:
    """zlib's unpacker with the interface of `bz2` and `lzma`."""

    def __init__(self, window_bits: int) -> None:
        self._unpacker = zlib.decompressobj(window_bits)
        self._rest = b""
        self.needs_input = True

    def decompress(self, data: bytes, size: int) -> bytes:
        found = self._unpacker.decompress(self._rest + data, size)
        self._rest = self._unpacker.unconsumed_tail
        self.needs_input = not self._rest and len(found) < size
        return found

    @property
    def eof(self) -> bool:
        return self._unpacker.eof

    @property
    def unused_data(self) -> bytes:
        return self._unpacker.unused_data


class _Zstandard:
    """Zstandard's unpacker with the interface of `bz2` and `lzma`."""

    needs_input = True

    def __init__(self) -> None:
        unpacker = zstandard().ZstdDecompressor(max_window_size=MEMORY_BYTES_MAX)
        self._unpacker = unpacker.decompressobj()

    def decompress(self, data: bytes, size: int) -> bytes:
        """Unpack a piece of `ZSTD_PIECE_BYTES`, to at most 16 MiB; *size* is ignored."""
        try:
            found: bytes = self._unpacker.decompress(data)
        except zstandard().ZstdError as error:
            raise ValueError(str(error)) from None
        return found

    @property
    def eof(self) -> bool:
        return bool(self._unpacker.eof)

    @property
    def unused_data(self) -> bytes:
        data: bytes = self._unpacker.unused_data
        return data


def zstandard() -> Any:
    """Return the Zstandard library, or raise `Stop` (usage) with the cure."""
    with of_extra("zstd", "Zstandard (.zst)"):
        import zstandard
    return zstandard


class Packing(Struct, frozen=True):
    """One compression format."""

    name: str
    suffix: str  # suffix of a file name
    magic: bytes  # first bytes of packed data
    unpacker: Callable[[], Any]  # of one stream; a file may hold several in sequence
    writer: Callable[[IO[bytes]], Any]
    """Creates the packer of a file, without name and time, so that equal lines give equal bytes."""
    piece: int = PIECE_BYTES  # packed bytes passed to the unpacker at a time


GZIP = Packing(
    "gzip", ".gz", b"\x1f\x8b", lambda: _Zlib(16 + zlib.MAX_WBITS),
    lambda file: gzip.GzipFile("", "wb", compresslevel=6, fileobj=file, mtime=0),
)  # fmt: skip
BZIP2 = Packing("bzip2", ".bz2", b"BZh", bz2.BZ2Decompressor, lambda file: bz2.BZ2File(file, "wb"))
XZ = Packing(
    "xz", ".xz", b"\xfd7zXZ\x00", lambda: lzma.LZMADecompressor(memlimit=MEMORY_BYTES_MAX),
    lambda file: lzma.LZMAFile(file, "wb"),  # noqa: SIM115
)  # fmt: skip
ZSTANDARD = Packing(
    "Zstandard", ".zst", b"\x28\xb5\x2f\xfd", _Zstandard,
    lambda file: zstandard().ZstdCompressor().stream_writer(file, closefd=False),
    ZSTD_PIECE_BYTES,
)  # fmt: skip
DEFLATE = replace(
    GZIP, name="deflate", suffix="", magic=b"", unpacker=lambda: _Zlib(-zlib.MAX_WBITS)
)
"""gzip without its frame, as in Avro blocks; never used for a file."""
PACKINGS = (GZIP, BZIP2, XZ, ZSTANDARD)
_SKIPPABLE = b"\x2a\x4d\x18"
"""Magic bytes of a skippable Zstandard frame, after a byte 0x50 to 0x5f. Parallel packers put such
a frame before each other frame."""
_BLOCK_MAGIC = (b"1AY&SY", b"\x17rE8P\x90")
"""Bytes required after ``BZh9``, because a text may begin with those letters."""

_FOREIGN = {
    b"PK\x03\x04": ("a ZIP archive (or a spreadsheet)", "unzip -p IN > OUT"),
    b"7z\xbc\xaf\x27\x1c": ("a 7z archive", "7z e -so IN > OUT"),
    b"Rar!\x1a\x07": ("a RAR archive", "unrar p -inul IN > OUT"),
    b"\x04\x22\x4d\x18": ("packed by lz4", "lz4 -dc IN > OUT"),
    b"\x5d\x00\x00": ("packed by lzma", "xz -dc IN > OUT"),
    b"\x1f\x9d": ("packed by compress", "gzip -dc IN > OUT"),
    b"\xff\x06\x00\x00sNaPpY": ("packed by snappy", "snzip -dc IN > OUT"),
}
"""First bytes of unsupported packings: their name, and the command that unpacks them."""


def packing_of(path: str) -> Packing | None:
    """Return the packing by the suffix of *path*, None for an unpacked file."""
    return next((each for each in PACKINGS if path.lower().endswith(each.suffix)), None)


def suffix_of(path: str) -> str:
    """Return the suffix of *path* in small letters, of a packed file the one before ``.gz``."""
    packing = packing_of(path)
    return Path(path.lower().removesuffix(packing.suffix if packing else "")).suffix


def packing_in(raw: BufferedReader, path: str) -> Packing | None:
    """Return the packing of the file *raw* by its first bytes, None if it is not packed.

    Raises `BrokenInput` for a packing that is not supported, and `Stop` if its library is missing.
    """
    begin = raw.peek(16)[:16]
    for magic, (what, command) in _FOREIGN.items():
        if begin.startswith(magic):
            raise BrokenInput(f"{path} is {what}\n    cure: unpack it, such as by `{command}`")
    if begin[:1] in b"PQRSTUVWXYZ[\\]^_" and begin[1:4] == _SKIPPABLE:
        begin = ZSTANDARD.magic
    for packing in PACKINGS:
        if begin.startswith(packing.magic):
            if packing is ZSTANDARD:
                zstandard()
            if packing is not BZIP2 or begin[4:10] in _BLOCK_MAGIC:
                return packing
    return None


def unpacked(raw: BufferedReader, packing: Packing) -> BufferedReader:
    """Return a reader of the unpacked content of *raw*; it raises `Damaged` for corrupt data."""
    return BufferedReader(_Unpacking(raw, packing), PIECE_BYTES)


class _Unpacking(RawIOBase):
    """The content of a file, unpacked as it is read."""

    def __init__(self, raw: BufferedReader, packing: Packing) -> None:
        self._raw, self._packing = raw, packing
        self._unpacker: Any = None
        self._packed = b""
        self._ready = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._ready:
            if (content := self._next()) is None:
                return 0
            self._ready = memoryview(content)
        size = min(len(buffer), len(self._ready))
        buffer[:size] = self._ready[:size]
        self._ready = self._ready[size:]
        return size

    def _next(self) -> bytes | None:
        """Return the next content, b"" if there is none yet, None at the end."""
        if self._unpacker is not None and not self._unpacker.needs_input:
            return self._unpacked(b"")
        data = self._packed or self._raw.read1(self._packing.piece)
        self._packed = b""
        if self._unpacker is None:
            if not data:
                return None
            data = data.lstrip(b"\0")  # padding between the streams of an xz file
            if not data:
                return b""
            self._unpacker = self._packing.unpacker()
        elif not data:
            raise Damaged("it ends in the middle")
        return self._unpacked(data)

    def _unpacked(self, data: bytes) -> bytes:
        content = _step(self._unpacker, data, PIECE_BYTES)
        if self._unpacker.eof:
            self._packed = self._unpacker.unused_data
            self._unpacker = None
        return content


def _step(unpacker: Any, data: bytes, size: int) -> bytes:
    try:
        content: bytes = unpacker.decompress(data, size)
    except (OSError, ValueError, lzma.LZMAError, zlib.error) as error:
        raise Damaged(str(error)) from None
    return content


def unpack(packing: Packing, data: bytes, limit: int) -> bytes:
    """Return *data*, one stream, unpacked; raise `Damaged` if it is cut, or larger than *limit*."""
    unpacker = packing.unpacker()
    found, held = [], 0
    for at in range(0, len(data), packing.piece):
        piece = data[at : at + packing.piece]
        while not unpacker.eof and held <= limit:
            content = _step(unpacker, piece, limit + 1 - held)
            found.append(content)
            held += len(content)
            piece = b""
            if unpacker.needs_input:
                break
    if held > limit or not unpacker.eof:
        raise Damaged("it is cut short, or unpacks to more than a block may hold")
    return b"".join(found)
