"""Format ``text``: the value is the text."""

from streamfilter.documents.decoding import Decoder, Wanted
from streamfilter.documents.fields.strict_json import decode_utf8


def decoder(wanted: Wanted) -> Decoder:
    return lambda value, headers: decode_utf8(value)
