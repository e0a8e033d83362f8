"""The memory: an index of what was forwarded, as RocksDB tables or as dictionaries.

`protocol` is what the rest of the program knows. `open_index` opens, creates or refuses a
directory; `RocksIndex` and `MemoryIndex` keep the protocol; `errors` is what can go wrong.
"""

from streamfilter.index.errors import (
    DiskFull,
    FormatError,
    IndexDamaged,
    IndexFault,
    IndexLocked,
    IndexMismatch,
    IndexRefused,
    IndexUnavailable,
)
from streamfilter.index.identity import Identity, decode_identity, differences
from streamfilter.index.memory import MemoryIndex
from streamfilter.index.opening import open_index, read_identity, wipe_index
from streamfilter.index.options import Memory
from streamfilter.index.rocks import RocksIndex

__all__ = [
    "DiskFull",
    "FormatError",
    "Identity",
    "IndexDamaged",
    "IndexFault",
    "IndexLocked",
    "IndexMismatch",
    "IndexRefused",
    "IndexUnavailable",
    "Memory",
    "MemoryIndex",
    "RocksIndex",
    "decode_identity",
    "differences",
    "open_index",
    "read_identity",
    "wipe_index",
]
