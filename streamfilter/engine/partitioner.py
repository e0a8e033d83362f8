"""Which partition an outgoing record goes to.

As many partitions as the input: the same number, so that whatever was together stays together.
Otherwise by key with murmur2, Java's default, and not librdkafka's own CRC32: a Java producer
and we must agree where a key lives.
"""

from __future__ import annotations

from streamfilter.model import Record

_M = 0x5BD1E995
_MASK = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """Return Kafka's murmur2 of *data* as an unsigned 32-bit number."""
    h = 0x9747B28C ^ len(data)
    whole = len(data) & ~3
    for i in range(0, whole, 4):
        k = int.from_bytes(data[i : i + 4], "little") * _M & _MASK
        k = (k ^ k >> 24) * _M & _MASK
        h = h * _M & _MASK ^ k
    if whole < len(data):
        h = (h ^ int.from_bytes(data[whole:], "little")) * _M & _MASK
    h = (h ^ h >> 13) * _M & _MASK
    return h ^ h >> 15


def partition_for(record: Record, *, inputs: int, outputs: int) -> int:
    """Return the output partition of *record*.

    A record without a key is spread by its source position, so that a replay sends it to the
    same place (Java would choose at random).
    """
    if inputs == outputs:
        return record.source.partition
    if record.key is None:
        return (record.source.partition + record.source.offset) % outputs
    return (murmur2(record.key) & 0x7FFFFFFF) % outputs
