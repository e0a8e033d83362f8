"""Client quotas, which confluent-kafka's admin client does not know: one request by hand."""

import socket
import struct

ALTER_CLIENT_QUOTAS, VERSION, CORRELATION = 49, 0, 7
TIMEOUT_SECONDS = 30
PRODUCER = "producer_byte_rate"


def _text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def set_quota(address: str, key: str, rate: float | None, *, client: str = "") -> None:
    """Let a client have *rate* bytes a second at each broker; None: as much as it likes.

    Without *client* it is for all that have none of their own.
    """
    head = struct.pack(">hhi", ALTER_CLIENT_QUOTAS, VERSION, CORRELATION) + _text("tests")
    name = _text(client) if client else struct.pack(">h", -1)
    entity = struct.pack(">i", 1) + _text("client-id") + name
    change = struct.pack(">i", 1) + _text(key) + struct.pack(">d?", rate or 0.0, rate is None)
    body = head + struct.pack(">i", 1) + entity + change + struct.pack(">?", False)
    host, _, port = address.partition(",")[0].rpartition(":")
    with socket.create_connection((host, int(port)), TIMEOUT_SECONDS) as connection:
        connection.settimeout(TIMEOUT_SECONDS)
        connection.sendall(struct.pack(">i", len(body)) + body)
        answer = connection.makefile("rb")
        (size,) = struct.unpack(">i", answer.read(4))
        told = answer.read(size)
    _, _, count, code = struct.unpack_from(">iiih", told)
    assert (count, code) == (1, 0), told
