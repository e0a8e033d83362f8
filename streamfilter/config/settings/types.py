"""The values people write in a configuration, as types: ``20ms``, ``8Mi``, ``/text``, secrets.

Each type reads one spelling, and its error says clearly what was expected. It writes the same
spelling back, so that a printed configuration can be read again.
"""

import re
from datetime import timedelta
from typing import Annotated, Literal
from urllib.parse import unquote

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    SecretStr,
    WithJsonSchema,
)

from streamfilter.model import S3

_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)", re.ASCII)
_MILLISECONDS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kKMGT]i?)?B?", re.ASCII)
_BYTES = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12} | {
    f"{letter}i": 1024**power for power, letters in enumerate(("kK", "M", "G", "T"), 1)
    for letter in letters
}  # fmt: skip
BYTES_MAX = 2**50  # a pebibyte: more is a typing mistake

WORKERS_MAX = 64
UNLIMITED = "unlimited"
RETENTION_MIN, RETENTION_MAX = timedelta(seconds=1), timedelta(days=36_500)
"""A window begins with every quarter of it, which takes a tenth of a second; and a century is
for ever."""

TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}", re.ASCII)
WILDCARD = re.compile("[a-zA-Z0-9._*-]{1,249}")
NAMES_MAX = 1_000
"""Most names in a list of topics."""
TARGET = re.compile(
    r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[A-Za-z0-9!_.*'()=/-]{0,900})?|file:///[^\x00-\x1f]{1,4000}",
    re.ASCII,
)
"""Where backups go."""
_ARRAY_INDEX = re.compile(r"0|[1-9][0-9]*|-", re.ASCII)
_NAME = re.compile(r"[^\W\d][\w -]{0,60}")
"""A field's or a column's, written as such and not as the way to it."""

SECRET_PROPERTY = re.compile(
    r"password|passphrase|secret|token|jaas|\.pem$|_key$|oauthbearer\.config|assertion|userinfo"
    r"|credential|principal|ssl_engine",
    re.IGNORECASE,
)
"""Names of librdkafka properties whose values are never shown. Too wide rather than too narrow."""


def parse_duration(value: object) -> timedelta:
    """Return the duration written as ``500ms``, ``30s``, ``5m``, ``2h`` or ``7d``.

    Raises `ValueError` if it has no unit (only 0 needs none) or is not a number.
    """
    if isinstance(value, timedelta):
        return value
    if str(value) == "0" and not isinstance(value, bool):
        return timedelta(0)
    match = _DURATION.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        raise ValueError("expected a duration with its unit, such as 500ms, 30s, 5m or 7d")
    try:
        return timedelta(milliseconds=float(match[1]) * _MILLISECONDS[match[2]])
    except OverflowError:
        raise ValueError("expected a duration below a billion days") from None


def format_duration(value: timedelta) -> str:
    """Return the shortest exact spelling: ``20ms``, ``90s``, ``7d``."""
    milliseconds = value / timedelta(milliseconds=1)
    for unit, length in _MILLISECONDS.items():
        if milliseconds and milliseconds % length == 0:
            return f"{milliseconds / length:.0f}{unit}"
    return f"{milliseconds:g}ms"


def parse_retention(value: object) -> timedelta | None:
    """Return how long is remembered; None, written as ``unlimited``: for ever.

    Raises `ValueError` if it is no duration, or so short or long that it is a mistake.
    """
    if value is None or value == UNLIMITED:
        return None
    kept = parse_duration(value)
    if not RETENTION_MIN <= kept <= RETENTION_MAX:
        raise ValueError("expected unlimited, or a duration between 1s and 36500d, such as 30d")
    return kept


def parse_size(value: object) -> int:
    """Return the bytes written as ``8Mi`` (2^20), ``1GB`` (10^9), ``512`` or ``64k``.

    Raises `ValueError` if it is not a number with one of those units.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        size = value
    else:
        match = _SIZE.fullmatch(value.strip()) if isinstance(value, str) else None
        if match is None:
            raise ValueError("expected a size in bytes, such as 65536, 64Mi, 8Mi or 1GB")
        size = int(float(match[1]) * _BYTES[match[2] or ""])
    if not 0 <= size <= BYTES_MAX:
        raise ValueError("expected a size between 0 and 1024 Ti")
    return size


def format_size(value: int) -> str:
    """Return the shortest exact binary spelling: ``8Mi``, ``1Gi``, ``1000``."""
    for unit in ("Ti", "Gi", "Mi", "Ki"):
        if value and value % _BYTES[unit] == 0:
            return f"{value // _BYTES[unit]}{unit}"
    return str(value)


def parse_workers(value: object) -> object:
    """Return the number of processes that *value* spells, or ``auto``.

    Raises `ValueError`: it is neither.
    """
    if isinstance(value, str) and value.isdecimal():
        value = int(value)
    if value == "auto" or (type(value) is int and 0 <= value <= WORKERS_MAX):
        return value
    raise ValueError(f"expected auto, or a number from 0 to {WORKERS_MAX}")


def check_target(value: str) -> str:
    """Return *value* if it is a place of backups; it may hold no credentials."""
    if "@" in value and not value.startswith("file:"):
        raise ValueError("expected no credentials in it; set AWS_ACCESS_KEY_ID and its like")
    plain = unquote(value)
    if not TARGET.fullmatch(value) or ".." in plain.split("/") or "\0" in plain:
        raise ValueError("expected s3://BUCKET/PREFIX or file:///DIRECTORY")
    return value.rstrip("/") if value.startswith(S3) else value


def _topic(pattern: re.Pattern[str], more: str = "") -> AfterValidator:
    """Return the check that Kafka takes a topic's name, or that it is a pattern of names."""

    def check(value: str) -> str:
        if not pattern.fullmatch(value) or value in (".", ".."):
            wanted = "a topic name: 1 to 249 letters, digits, '.', '_' or '-'"
            raise ValueError(f"expected {wanted}{more}")
        return value

    return AfterValidator(check)


_ANY = "; '*' in it stands for any text, as in news.*"


def check_pointer(value: str) -> str:
    """Return *value* if it is a JSON Pointer through objects, and through strings that hold JSON.

    An array index would make the text depend on an order that producers change freely; and
    ``/0`` may as well be a key called "0". So both are refused rather than guessed. ``*`` means
    every element of an array.
    """
    if not value.startswith("/"):
        like = f"/{value}" if _NAME.fullmatch(value) else "/text or /article/body"
        raise ValueError(f"expected a JSON Pointer, such as {like}")
    if re.search(r"~(?![012])", value):
        raise ValueError("expected '~0' for '~', '~1' for '/', '~2' for '#' inside a JSON Pointer")
    *outer, last = value.split("/")[1:]
    if any(map(_ARRAY_INDEX.fullmatch, (*(step.removesuffix("#") for step in outer), last))):
        raise ValueError("expected a JSON Pointer without array indexes; /items/*/text means all")
    return value


def check_field(value: str) -> str:
    """Return *value* if it is a JSON Pointer to one field."""
    if not {"*", "*#"}.isdisjoint(value.split("/")):
        raise ValueError("expected one field, not one for each element of an array")
    return check_pointer(value)


def check_subject(value: str) -> str:
    """Return *value* if it is ``numbers``, ``urls``, or a JSON Pointer to one field."""
    if value in ("numbers", "urls"):
        return value
    if not value.startswith("/"):
        raise ValueError("expected numbers, urls, or a JSON Pointer to a field, such as /date")
    return check_field(value)


def check_text(value: str) -> str:
    """Return *value* if it says where a text is: a pointer, or ``value``."""
    return value if value == "value" else check_pointer(value)


def check_id(value: str) -> str:
    """Return *value* if it says where an id is: in the value, the key or a header."""
    if value.startswith("key#/"):
        return f"key#{check_id(value.removeprefix('key#'))}"
    if value == "key" or (value.startswith("header:") and value != "header:"):
        return value
    if not value.startswith("/"):
        like = f"/{value}" if _NAME.fullmatch(value) else "/id"
        raise ValueError(
            f"expected a JSON Pointer such as {like}, key, key#/id, header:NAME, or null"
        )
    return check_field(value)


def _as_list(value: object) -> object:
    if value == []:
        raise ValueError("expected at least one JSON Pointer")
    return [value] if isinstance(value, str) else value


def as_text(value: object) -> str:
    """Return a plain *value* of YAML as it is written there: a password may read ``true``."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def hide_secrets(value: object) -> object:
    """Wrap the values of secret librdkafka properties, so that nothing prints them by accident."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        return value
    return {
        name: SecretStr(as_text(plain))
        if SECRET_PROPERTY.search(str(name)) and isinstance(plain, str | int | float)
        else plain
        for name, plain in value.items()
    }


def _spelled(pattern: re.Pattern[str], *others: dict[str, object]) -> WithJsonSchema:
    """Say to an editor how a value is written: what the loader reads is not what it makes of it."""
    text = {"type": "string", "pattern": f"^({pattern.pattern})$"}
    return WithJsonSchema({"anyOf": [text, *others]} if others else text)


Duration = Annotated[
    timedelta,
    BeforeValidator(parse_duration),
    PlainSerializer(format_duration, return_type=str),
    _spelled(_DURATION, {"enum": [0, "0"]}),
]
Retention = Annotated[
    timedelta | None,
    BeforeValidator(parse_retention),
    PlainSerializer(
        lambda value: UNLIMITED if value is None else format_duration(value), return_type=str
    ),
    _spelled(_DURATION, {"enum": [UNLIMITED, None]}),
]
Size = Annotated[
    int,
    BeforeValidator(parse_size),
    PlainSerializer(format_size, return_type=str),
    _spelled(_SIZE, {"type": "integer", "minimum": 0}),
]
Workers = Annotated[
    Annotated[int, Field(ge=0, le=WORKERS_MAX)] | Literal["auto"], BeforeValidator(parse_workers)
]
Ratio = Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)]
Topic = Annotated[str, _topic(TOPIC), _spelled(TOPIC)]
BackupTarget = Annotated[str, AfterValidator(check_target), _spelled(TARGET)]
TopicNames = Annotated[
    tuple[Annotated[str, _topic(WILDCARD, _ANY), _spelled(WILDCARD)], ...],
    Field(max_length=NAMES_MAX),
]
"""Topics of the input, some of them by a pattern."""
Pointer = Annotated[str, AfterValidator(check_pointer), _spelled(re.compile("/.*"))]
FieldPlace = Annotated[str, AfterValidator(check_field), _spelled(re.compile("/.*"))]
Subject = Annotated[str, AfterValidator(check_subject), _spelled(re.compile("numbers|urls|/.*"))]
"""What a match must agree in."""
_TEXT = {"type": "string", "pattern": "^(/.*|value)$"}
Texts = Annotated[
    tuple[Annotated[str, AfterValidator(check_text)], ...],
    BeforeValidator(_as_list),
    PlainSerializer(lambda texts: texts[0] if len(texts) == 1 else list(texts)),
    WithJsonSchema({"anyOf": [_TEXT, {"type": "array", "items": _TEXT, "minItems": 1}]}),
]
"""One place of a text, or a list of them."""
IdPlace = Annotated[str, AfterValidator(check_id), _spelled(re.compile("/.*|key(#/.*)?|header:.+"))]
Secret = Annotated[
    SecretStr,
    BeforeValidator(lambda value: as_text(value) if isinstance(value, int | float) else value),
]
Property = bool | int | float | str | SecretStr
Properties = Annotated[
    dict[str, Property],
    BeforeValidator(hide_secrets),
    PlainSerializer(
        lambda value: {n: str(v) if isinstance(v, SecretStr) else v for n, v in value.items()}
    ),
    WithJsonSchema(
        {"type": "object", "additionalProperties": {"type": ["string", "number", "boolean"]}}
    ),
]
"""A raw librdkafka map. Plain values come from `Kafka.properties` only."""


class Section(BaseModel):
    """Frozen, unknown keys refused, and no value ever quoted in an error by pydantic itself."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", hide_input_in_errors=True, validate_default=True
    )
