"""Format ``json_schema``: JSON in a registry's frame. JSON says all by itself: nobody is asked."""

from __future__ import annotations

from typing import Any

from streamfilter.documents.decoding import Decoder, Wanted
from streamfilter.documents.schemas import framed
from streamfilter.documents.strict_json import check_depth, parse_json
from streamfilter.model import Headers


def decoder(wanted: Wanted) -> Decoder:
    """Return what parses the JSON behind the frame."""

    def decode(value: bytes, headers: Headers) -> Any:
        content = value[framed(value, headers)[1] :]
        check_depth(content, wanted.depth)
        return parse_json(content)

    return decode
