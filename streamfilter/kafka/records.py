"""A consumed message as a `Record`: byte for byte, whatever is in it."""

from __future__ import annotations

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Message

from streamfilter.model import Headers, Record, Source


def record_of(message: Message) -> Record:
    """Return *message* as a record. A header name that is no UTF-8 is an error inside it."""
    headers, trouble = _headers(message)
    kind, timestamp = message.timestamp()
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    if topic is None or partition is None or offset is None:
        raise ValueError("a message without a source")
    return Record(
        source=Source(topic, partition, offset),
        key=_bytes(message.key()),
        value=_bytes(message.value()),
        headers=headers,
        timestamp=-1 if kind == TIMESTAMP_NOT_AVAILABLE else timestamp,
        headers_error=trouble,
    )


def _headers(message: Message) -> tuple[Headers, str | None]:
    """Read the headers, once: a second call after an error returns a name that is NULL."""
    try:
        headers = message.headers()
    except (SystemError, UnicodeDecodeError):
        return (), "a header's name is not UTF-8"
    if not headers:
        return (), None
    pairs: list[tuple[str, str | bytes | None]] = list(headers)  # type: ignore[arg-type]  # never a dict here
    return tuple((name, _bytes(value)) for name, value in pairs), None


def _bytes(value: bytes | str | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value
