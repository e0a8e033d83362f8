"""Stories as the values of records: JSON, or Avro in a schema registry's frame."""

from __future__ import annotations

import json
from collections.abc import Callable

from streamfilter.documents.codecs.varints import as_string

Encode = Callable[[str, str], bytes]  # from id and text to a record's value

AVRO_SCHEMA = json.dumps(
    {
        "type": "record",
        "name": "Story",
        "fields": [{"name": "id", "type": "string"}, {"name": "text", "type": "string"}],
    }
)


def as_json(id: str, text: str) -> bytes:
    return json.dumps({"id": id, "text": text}, ensure_ascii=False).encode()


def as_avro(schema_id: int) -> Encode:
    """Return an encoder of `AVRO_SCHEMA`, which has that id in the registry."""
    frame = b"\0" + schema_id.to_bytes(4, "big")

    def encode(id: str, text: str) -> bytes:
        return frame + as_string(id) + as_string(text)

    return encode
