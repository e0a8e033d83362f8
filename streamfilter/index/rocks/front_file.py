"""The front between two runs: a file in the database's directory while it is closed.

    magic, stamp of the database's last write, sum of the rest, layers, keys and words of each

The file is read and deleted at opening, so there is none after a crash. A file with another stamp
than the database's, or with a wrong sum, is ignored. The front can always be made again from the
keys in the database.
"""

from __future__ import annotations

import os
import struct
from contextlib import suppress
from pathlib import Path

import numpy as np
import xxhash

from streamfilter.index.rocks.bloom_filter import WORD_BYTES, Layer

FILE_NAME = "streamfilter-front"  # RocksDB does not touch files with unknown names
LAYERS_MAX = 16

_HEAD = struct.Struct("<8sQQQ")
_LAYER = struct.Struct("<QQ")
_MAGIC = b"SFFRONT3"


def file_of(directory: Path, window: int) -> Path:
    """Return the file of a *window*'s front."""
    return directory / (f"{FILE_NAME}-{window}" if window else FILE_NAME)


def save(path: Path, layers: list[Layer], *, stamp: int) -> None:
    """Write *layers* for write number *stamp*, without a wait: the sum detects a torn file."""
    sizes = b"".join(_LAYER.pack(layer.keys, len(layer.words)) for layer in layers)
    head = _HEAD.pack(_MAGIC, stamp, _sum(stamp, sizes, layers), len(layers))
    new = path.with_name(path.name + ".new")
    try:
        with new.open("wb") as file:
            file.write(head + sizes)
            for layer in layers:
                layer.words.astype("<u8", copy=False).tofile(file)
        new.replace(path)
    except OSError:
        with suppress(OSError):
            new.unlink(missing_ok=True)


def take(path: Path, *, stamp: int, bytes_max: int) -> list[Layer] | None:
    """Return the layers in *path* if they belong to write number *stamp*, and delete the file.

    The deletion is on disk before this returns. If the file came back after a power cut, other
    writes could have the same numbers by then, and their keys would be called absent. Raises
    `OSError`: the file is there and cannot be read or deleted.
    """
    path.with_name(path.name + ".new").unlink(missing_ok=True)
    if not path.exists():
        return None
    layers = _read(path, stamp, bytes_max)
    path.unlink()
    descriptor = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    return layers


def _read(path: Path, stamp: int, bytes_max: int) -> list[Layer] | None:
    size = path.stat().st_size
    with path.open("rb") as file:
        head = file.read(_HEAD.size)
        if len(head) < _HEAD.size:
            return None
        magic, saved_stamp, total, count = _HEAD.unpack(head)
        if magic != _MAGIC or saved_stamp != stamp or count > LAYERS_MAX:
            return None
        sizes = file.read(count * _LAYER.size)
        words = size - _HEAD.size - count * _LAYER.size
        if len(sizes) < count * _LAYER.size or words > bytes_max:
            return None
        fields = list(_LAYER.iter_unpack(sizes))
        if words != WORD_BYTES * sum(length for _, length in fields):
            return None
        layers = [Layer(np.fromfile(file, "<u8", length), keys) for keys, length in fields]
    return layers if total == _sum(stamp, sizes, layers) else None


def _sum(stamp: int, sizes: bytes, layers: list[Layer]) -> int:
    # 64 bits against accidental damage of over 128 MiB; XXH3 reads them at memory speed. A torn
    # front that was accepted would call existing keys absent, and duplicates unique.
    total = xxhash.xxh3_64(sizes, seed=stamp)
    for layer in layers:
        total.update(layer.words.astype("<u8", copy=False).data)
    return total.intdigest()
