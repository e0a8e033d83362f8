"""The group generation and member id inside librdkafka's opaque metadata.

The classic coordinator does not fence a transaction that shows generation -1 or no member id
(it takes it for a consumer that is in no group), so we must look before we send. The layout is
``CGMDv2:``, the generation as little-endian int32, group id and member id each ended by NUL, and
a tail that does not concern us.
"""

from __future__ import annotations

import struct

from streamfilter.engine.ports import Member

MAGIC = b"CGMDv2:"


def parse_member(metadata: bytes) -> Member:
    """Return the generation and member id in *metadata*.

    Raises:
        ValueError: if these bytes have another layout (a librdkafka that we do not know).
    """
    fixed = len(MAGIC) + 4
    fields = metadata[fixed:].split(b"\0")
    if not metadata.startswith(MAGIC) or len(fields) < 3:
        raise ValueError("consumer group metadata has an unknown layout; use another librdkafka")
    (generation,) = struct.unpack_from("<i", metadata, len(MAGIC))
    return Member(generation, fields[1].decode(errors="replace"), metadata)
