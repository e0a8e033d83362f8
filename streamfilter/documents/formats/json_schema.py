"""Format ``json_schema``: JSON in a registry's frame. JSON needs no schema, so none is fetched."""

from __future__ import annotations

from typing import Any

from streamfilter.documents.codecs.schemas import unframed
from streamfilter.documents.decoding import Decoder, Wanted
from streamfilter.documents.formats import json
from streamfilter.model import Headers


def decoder(wanted: Wanted) -> Decoder:
    parse = json.decoder(wanted)

    def decode(value: bytes, headers: Headers) -> Any:
        return parse(unframed(value, headers), headers)

    return decode
