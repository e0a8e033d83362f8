"""Variable-length integers of Avro and Protobuf: 7 bits a byte, the lowest first.

A signed number is zigzag-encoded first: 0, -1, 1, -2 become 0, 1, 2, 3.
"""

from streamfilter.documents.codecs.schemas import Broken

_BITS_64 = (1 << 64) - 1


def varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the unsigned number at *at*, and the offset after it; `BROKEN_VALUE` may be raised."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value & _BITS_64, at
        shift += 7
        if shift > 63:
            raise Broken("an integer of more than 64 bits")


def zigzag(number: int) -> int:
    return (number >> 1) ^ -(number & 1)


def as_varint(number: int) -> bytes:
    written = bytearray()
    while number > 127:
        written.append(number & 127 | 128)
        number >>= 7
    written.append(number)
    return bytes(written)


def as_long(size: int) -> bytes:
    """Return Avro's encoding of a count or a length."""
    return as_varint(size << 1)


def as_string(text: str) -> bytes:
    raw = text.encode()
    return as_long(len(raw)) + raw
