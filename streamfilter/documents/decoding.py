"""Formats: each makes a value of bytes, and knows nothing of what becomes of it.

A format is a file in `documents/formats`, called as `input.format` calls it, with a function
``decoder`` that is given what is wanted of a record and returns a `Decoder`. Only the file of the
format that is read is ever imported, so its libraries may be extras.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, cast

from streamfilter.documents import formats
from streamfilter.documents.outline import Outline
from streamfilter.documents.pointers import Path, Unreadable
from streamfilter.documents.schemas import Broken, Schema, Schemas
from streamfilter.model import ErrorCode, Headers
from streamfilter.stops import ConfigError, Problem

Decoder = Callable[[bytes, Headers], Any]
"""From a record's value and headers to objects, arrays, strings and numbers.

Raises `Unreadable` for what is no such value, `SchemasAway` for what nobody can say now.
"""

NAMES = tuple(sorted(module.name for module in pkgutil.iter_modules(formats.__path__)))


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a format needs to know."""

    paths: Sequence[Path] | None
    """What pointers name: a format may leave out everything else. None: all that there is."""
    depth: int
    """How deep objects and arrays may be nested."""
    schemas: Schemas | None = None
    framed: bool = True
    """Whether values bear a registry's frame."""
    message: str | None = None
    """Which of the schema's messages bare values are, by its full name; None: the first one."""

    def the_schemas(self) -> Schemas:
        """Return where schemas come from.

        Raises:
            ConfigError: nowhere.
        """
        if self.schemas is None:
            cure = "name its file, such as article.avsc or article.proto, or a registry"
            raise ConfigError([Problem("input.schema_file", "this format needs schemas", cure)])
        return self.schemas


def decoder_for(format: str, wanted: Wanted) -> Decoder:
    """Return what decodes *format*.

    Raises:
        ValueError: there is none of that name.
        ConfigError: it needs what is not there; names the cure.
    """
    if format not in NAMES:
        raise ValueError(f"input.format is {format!r}; use one of {', '.join(NAMES)}")
    module = import_module(f"{formats.__name__}.{format}")
    try:
        return cast(Decoder, module.decoder(wanted))
    except Unreadable as trouble:  # of the only schema, which is read at once
        cure = f"name a file with a schema of format {format}"
        problem = Problem("input.schema_file", trouble.reading.message, cure)
        raise ConfigError([problem]) from None


def outlines_of(format: str, schema: Schema) -> list[Outline]:
    """Return what pointers can lead to in values of a *schema* of *format*, of each kind of value.

    Raises:
        Unreadable: it is no such schema.
    """
    if schema.kind != format.upper():
        message = f"it is of kind {schema.kind}, not {format.upper()}"
        raise Unreadable(ErrorCode.SCHEMA_DECODE, message)
    try:
        return cast(list[Outline], import_module(f"{formats.__name__}.{format}").outlines(schema))
    except Broken as error:
        raise Unreadable(ErrorCode.SCHEMA_DECODE, str(error)) from None
