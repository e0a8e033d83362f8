"""Format ``avro``: values of Avro's binary encoding, framed by a registry or bare."""

from __future__ import annotations

from typing import Any

from streamfilter.documents.avro_schema import AvroReader, compile_avro, outline_of_avro
from streamfilter.documents.decoding import Decoder, Wanted
from streamfilter.documents.outline import Outline
from streamfilter.documents.pointers import Unreadable
from streamfilter.documents.schemas import (
    BROKEN_VALUE,
    Compiled,
    Schema,
    framed,
    why_broken,
)
from streamfilter.model import ErrorCode, Headers

KIND = "AVRO"


def decoder(wanted: Wanted) -> Decoder:
    """Return the decoder of Avro for the fields of *wanted*."""

    def make(schema: Schema) -> AvroReader:
        named = [text for _, text in schema.references]
        paths = wanted.paths
        if paths is None:
            paths = [*outline_of_avro(schema.text, named).paths()]
        return compile_avro(schema.text, paths, named)

    readers = Compiled(wanted.the_schemas(), KIND, make)

    def decode(value: bytes, headers: Headers) -> Any:
        reader, at = readers.of_frame(value, headers) if wanted.framed else (readers(None), 0)
        if len(value) > reader.longest:
            message = f"by its schema, a value may have {reader.longest:,} bytes at most"
            raise Unreadable(ErrorCode.TOO_LARGE, message)
        try:
            root, end = reader.read(value, at)
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
    """Return what pointers can lead to in values of a *schema*.

    Raises:
        Broken: it is not a schema of this format.
    """
    return [outline_of_avro(schema.text, [text for _, text in schema.references])]
