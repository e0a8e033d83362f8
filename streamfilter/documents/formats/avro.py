"""Format ``avro``: values of Avro's binary encoding, framed by a registry or bare."""

from __future__ import annotations

from typing import Any

from streamfilter.documents.codecs.avro_values import AvroReader, AvroValues
from streamfilter.documents.codecs.outline import Outline
from streamfilter.documents.codecs.schemas import BROKEN_VALUE, Compiled, Schema, framed, why_broken
from streamfilter.documents.decoding import Decoder, Wanted
from streamfilter.documents.fields.pointers import Unreadable
from streamfilter.model import ErrorCode, Headers

KIND = "AVRO"


def decoder(wanted: Wanted) -> Decoder:
    def make(schema: Schema) -> AvroReader:
        values = _values(schema)
        paths = wanted.paths
        return values.reader([*values.outline().paths()] if paths is None else paths)

    readers = Compiled(wanted.the_schemas(), KIND, make)

    def decode(value: bytes, headers: Headers) -> Any:
        reader, at = readers.of_frame(value, headers) if wanted.framed else (readers(None), 0)
        try:
            root, end = reader.value(value, at)
        except BROKEN_VALUE as error:
            why = why_broken(error)
        except RecursionError:
            raise Unreadable(ErrorCode.TOO_DEEP, "nested deeper than can be read") from None
        else:
            if end == len(value):
                return root
            why = f"{len(value) - end} bytes are left behind it"
        by = f" of schema {framed(value, headers)[0]}" if wanted.framed else ""
        raise Unreadable(ErrorCode.SCHEMA_DECODE, f"the bytes are no value{by}: {why}")

    return decode


def outlines(schema: Schema) -> list[Outline]:
    """Return what pointers can lead to in values of a *schema*, or raise `Broken`."""
    return [_values(schema).outline()]


def _values(schema: Schema) -> AvroValues:
    return AvroValues(schema.text, [text for _, text in schema.references])
