"""Format ``json``: values are JSON, decoded strictly; this defines the shortcut's result."""

from __future__ import annotations

from typing import Any

from streamfilter.documents.decoding import Decoder, Wanted
from streamfilter.documents.fields.strict_json import check_depth, parse_json
from streamfilter.model import Headers


def decoder(wanted: Wanted) -> Decoder:
    def decode(value: bytes, _: Headers) -> Any:
        check_depth(value, wanted.depth)
        return parse_json(value)

    return decode
