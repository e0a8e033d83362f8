"""Formats: each one decodes bytes to a value.

A format is a file in `documents/formats` with the name that `input.format` has. Its function
``decoder`` takes a `Wanted` (the parts of a record that are needed) and returns a `Decoder`. Only
the file of the format in use is imported, so its libraries may be extras.
"""

import pkgutil
from collections.abc import Callable, Sequence
from importlib import import_module
from types import ModuleType
from typing import Any, cast

from msgspec import Struct

from streamfilter.documents import formats
from streamfilter.documents.codecs.outline import Outline
from streamfilter.documents.codecs.schemas import Broken, Schema, Schemas
from streamfilter.documents.fields.pointers import Path, Unreadable
from streamfilter.model import ErrorCode, Headers
from streamfilter.stops import ConfigError, Problem, of_extra

Decoder = Callable[[bytes, Headers], Any]
"""Decodes a record's value and headers to objects, arrays, strings and numbers.

Raises `Unreadable` for bytes that are not such a value, `SchemasAway` if a schema is not available.
"""

NAMES = tuple(sorted(module.name for module in pkgutil.iter_modules(formats.__path__)))


class Wanted(Struct, frozen=True):
    """The input of a format's ``decoder``."""

    paths: Sequence[Path] | None  # of the pointers: the rest may be left out. None: decode all
    depth: int  # how deep objects and arrays may be nested at most
    schemas: Schemas | None = None
    framed: bool = True  # whether values carry a registry's frame
    message: str | None = None  # full name of the message in bare values; None: the first one

    def the_schemas(self) -> Schemas:
        """Return the source of schemas, or raise `ConfigError`."""
        if self.schemas is None:
            cure = "name its file, such as article.avsc or article.proto, or a registry"
            raise ConfigError([Problem("input.schema_file", "this format needs schemas", cure)])
        return self.schemas


def decoder_for(format: str, wanted: Wanted) -> Decoder:
    """Return the decoder of *format*, one of `NAMES`.

    Raises `ConfigError` for something else that it needs, and `MissingExtra` for its library.
    """
    if format not in NAMES:
        raise ValueError(f"input.format is {format!r}; use one of {', '.join(NAMES)}")
    try:
        return cast(Decoder, _module(format).decoder(wanted))
    except Unreadable as trouble:  # the only schema, which is compiled at once
        cure = f"name a file with a schema of format {format}"
        problem = Problem("input.schema_file", trouble.reading.message, cure)
        raise ConfigError([problem]) from None


def outlines_of(format: str, schema: Schema) -> list[Outline]:
    """Return an outline for each kind of value of *schema*, or raise `Unreadable`."""
    if schema.kind != format.upper():
        message = f"it is of kind {schema.kind}, not {format.upper()}"
        raise Unreadable(ErrorCode.SCHEMA_DECODE, message)
    try:
        return cast(list[Outline], _module(format).outlines(schema))
    except Broken as error:
        raise Unreadable(ErrorCode.SCHEMA_DECODE, str(error)) from None


def _module(format: str) -> ModuleType:
    with of_extra(format, f"input.format {format}", needs=format):
        return import_module(f"{formats.__name__}.{format}")
