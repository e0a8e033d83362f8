"""What passes between a process and its workers: values, each behind its length.

Both ends are ours, of one version and one user, and the pipe has no name: so values travel
pickled, columns as they stand in memory.
"""

from __future__ import annotations

import pickle
import struct
from typing import IO, Any

LENGTH = struct.Struct("<Q")


def write(file: IO[bytes], value: object) -> None:
    """Write *value* to *file*, all of it."""
    data = pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
    file.write(LENGTH.pack(len(data)))
    file.write(data)
    file.flush()


def read(file: IO[bytes]) -> Any:
    """Return the next value.

    Raises:
        EOFError: there is none, or not all of it.
    """
    (length,) = LENGTH.unpack(_exactly(file, LENGTH.size))
    return pickle.loads(_exactly(file, length))


def _exactly(file: IO[bytes], size: int) -> bytes:
    data = file.read(size)
    if len(data) < size:
        raise EOFError(f"the other end is gone: {len(data)} of {size} bytes came")
    return data
