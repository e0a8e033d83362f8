"""The input: the topic or file, its format, and the treatment of records without a text."""

from collections.abc import Iterable
from datetime import timedelta
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BeforeValidator,
    Field,
    PlainSerializer,
    SecretStr,
    WithJsonSchema,
    model_validator,
)

from streamfilter.config.settings.types import (
    Duration,
    IdPlace,
    Pointer,
    Secret,
    Section,
    Texts,
    Topic,
    TopicNames,
    check_pointer,
)
from streamfilter.entities.joined import pointers_of
from streamfilter.entities.kinds import FIELD_KINDS


def _check_place(field: str) -> str:
    for pointer in pointers_of(field):
        check_pointer(pointer)
    return field


FieldPlace = Annotated[
    str, AfterValidator(_check_place), WithJsonSchema({"type": "string", "pattern": "^(/.*)$"})
]
"""JSON Pointer of a field, or several of them: ``/last_name + /first_name``."""

WEIGHTS = (0.1, 10.0)
"""Least and highest weight of a field."""


def _field(value: object) -> object:
    """Return the kind and the weight of a field.

    Raises `ValueError`: *value* is neither a kind nor a mapping of these two.
    """
    given = {"kind": value} if isinstance(value, str) else value
    if isinstance(given, dict) and set(given) <= {"kind", "weight"}:
        kind, weight = given.get("kind"), given.get("weight", 1)
        known = isinstance(kind, str) and kind in FIELD_KINDS
        number = isinstance(weight, int | float) and not isinstance(weight, bool)
        if known and number and WEIGHTS[0] <= weight <= WEIGHTS[1]:
            return kind, float(weight)
    elif isinstance(value, tuple | list) and len(value) == 2:
        return tuple(value)
    raise ValueError(
        f"expected {', '.join(FIELD_KINDS)}, or {{kind: name, weight: 2}} (weights: 0.1 to 10)"
    )


def _written(field: tuple[str, float]) -> object:
    kind, weight = field
    return kind if weight == 1 else {"kind": kind, "weight": weight}


_KIND = {"enum": [*FIELD_KINDS]}
FieldOfRecord = Annotated[
    tuple[str, float],
    BeforeValidator(_field),
    PlainSerializer(_written),
    WithJsonSchema({
        "anyOf": [
            _KIND,
            {
                "type": "object",
                "required": ["kind"],
                "additionalProperties": False,
                "properties": {
                    "kind": _KIND,
                    "weight": {"type": "number", "minimum": WEIGHTS[0], "maximum": WEIGHTS[1]},
                },
            },
        ]
    }),
]  # fmt: skip
"""How a field is compared: its kind, and its weight in the score."""


def _word(value: str) -> str:
    if not value.isascii() or not value.isprintable() or " " in value or not value:
        raise ValueError("expected one word of ASCII")
    return value


Word = Annotated[str, AfterValidator(_word)]
"""A value of an HTTP header."""


class RegistryOAuthSection(Section):
    """OAuth tokens for the registry, by the grant of client credentials, renewed in time."""

    token_url: str | None = None
    """Token endpoint of the identity provider, such as https://id.example.com/oauth2/token. null:
    no OAuth."""
    client_id: str | None = None
    """The client, as the identity provider knows it."""
    client_secret: Secret | None = None
    """The client's secret."""
    scope: str | None = None
    """What the token is for, such as schema_registry; several are parted by blanks."""
    ca_file: Path | None = None
    """File of the certificates (CA) that the token endpoint is checked with. null: the system's."""


class RegistrySection(Section):
    """The schema registry that the values' schemas are in, by Confluent's API."""

    url: str | None = None
    """Address, such as https://registry:8081. Each schema is fetched once. The task pauses while
    the registry does not answer."""
    user: str | None = None
    """For basic authentication."""
    password: Secret | None = None
    """The user's password."""
    token: Secret | None = None
    """For bearer authentication."""
    ca_file: Path | None = None
    """File of the certificates (CA) that an https registry is checked with. null: the system's."""
    certificate_file: Path | None = None
    """For a registry that knows its clients by certificate (mutual TLS): PEM file of ours. It is
    read again for each connection, so a renewed one needs no restart."""
    key_file: Path | None = None
    """PEM file of the certificate's key. null: it is in certificate_file."""
    key_password: Secret | None = None
    """Password of an encrypted key."""
    oauth: RegistryOAuthSection = RegistryOAuthSection()
    logical_cluster: Word | None = None
    """With tokens for Confluent Cloud: the registry's id, such as lsrc-abc123."""
    identity_pool: Word | None = None
    """With tokens for Confluent Cloud: the identity pool, such as pool-abc1."""
    timeout: Duration = timedelta(seconds=5)
    """How long to wait for an answer of the registry."""

    @property
    def secrets(self) -> tuple[SecretStr | None, ...]:
        return self.password, self.token, self.key_password, self.oauth.client_secret


class InputSection(Section):
    """What is read, and how a record becomes a document."""

    topic: Topic = "documents"
    """Topic to read."""
    topics: TopicNames = ()
    """Several topics to read into one index, instead of input.topic, such as [blogs, news.*]. *
    stands for any text, and never for a name that begins with __. New topics that fit are read from
    their beginning. Output topics must be named, and must not fit. Needs index.scope: topic."""
    format: Literal["avro", "json", "json_schema", "protobuf", "text", "fields"] = "json"
    """json, avro, protobuf, json_schema (JSON in a schema registry's frame): text and id are found
    by JSON Pointer. text: the whole value is the text. fields: JSON records such as customers,
    compared field by field. avro needs the extra of that name."""
    file_format: Literal["auto", "lines", "csv", "avro", "parquet"] = "auto"
    """Format of files (--format). lines: a record a line; csv: the first row names the columns;
    avro: container files; parquet. The last two need the extra of that name. auto: by the file's
    name, such as news.csv, else lines."""
    schema_file: Path | None = None
    """With format avro or protobuf: the file of the schema that all records were written with, such
    as article.avsc or article.proto. It replaces a registry."""
    registry: RegistrySection = RegistrySection()
    framing: Literal["registry", "none"] = "registry"
    """With format avro or protobuf. registry: values begin with a byte 0 and a schema's id in four
    bytes, or the header __value_schema_id holds the id. none: values have no frame."""
    message: str | None = None
    """With format protobuf and framing none: the full name of the records' message, such as
    news.Article. null: the first message of the file. A registry's frame names the message
    itself."""

    fields: dict[FieldPlace, FieldOfRecord] = Field(default={})
    """With format fields, avro, protobuf or json_schema: JSON Pointer of each field, or of several
    (/last + /first), and its kind, or {kind: name, weight: 2}. name, address, phone, date, email,
    number: as people write them. words: spelling and order may differ a little. digits: one digit
    or the area code may differ. exact: keys. Records are compared if a field is equal; with one of
    the first six kinds, also if parts of two fields are."""
    held_out: Pointer | None = None
    """With format fields: a number or date that is not compared, and is closer for records of one
    entity, such as /created. The share of true matches is estimated from it."""
    text: Texts = ("/text",)
    """JSON Pointer to the text. A list such as [/title, /body] joins the fields that exist, one a
    line. /paragraphs/*/text takes the field of each element of an array. value: the whole value is
    the text."""
    id: IdPlace | None = "/id"
    """JSON Pointer to the document's id; or key (the record's key); or key#/id (a pointer into the
    key: JSON, or in a registry's frame); or header:NAME (the last header of that name). null: the
    source position is the id. With format text a pointer means null, too."""
    start: Literal["earliest", "latest"] | AwareDatetime = "earliest"
    """Where a new group begins: earliest, latest, or a time with its zone (2026-01-31T00:00:00Z).
    Later starts continue where the last transaction ended."""
    take_over: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    """A stopped group with other settings: the first start goes on where it ended, and not at
    input.start. Each record is judged by one of the two groups. The setting may stay afterwards."""
    tombstones: Literal["forward", "drop", "forget"] = "forward"
    """What happens to tombstones: records with a null value, or null on the way to every text.
    forward and drop: as they say. forget: the documents whose id equals the record's key are
    forgotten, and the record is forwarded. If input.id names a header or a part of the key, that is
    used. Forgetting needs an index that was made, or restored, with forget."""
    known_id: Literal["judge", "update", "duplicate"] = "judge"
    """What a record means whose id is remembered. judge: nothing; it is judged like any other.
    update: it replaces the earlier version of its document. That version is forgotten, and the
    record is judged without it, so an update comes out even if its text is as it was. duplicate:
    the id alone makes it a duplicate. The last two need an index that was made, or restored, with
    one of them."""
    empty_text: Literal["forward", "exact_only", "drop"] = "forward"
    """The text is empty, null or shows nothing. forward: without a verdict; exact_only: judge it
    (all empty texts are equal); drop: do not forward it."""
    short_text: Literal["forward", "exact_only", "drop"] = "forward"
    """A text shorter than one shingle is too little to be a story. forward: without a verdict;
    exact_only: only an equal text makes it a duplicate, the default with empty_text: exact_only;
    drop: do not forward it."""

    @model_validator(mode="before")
    @classmethod
    def equal_empty_texts_are_equal_short_texts(cls, data: Any) -> Any:
        """Judge short texts by default if empty ones are judged: they are the shortest."""
        if isinstance(data, dict) and data.get("empty_text") == "exact_only":
            return {"short_text": "exact_only", **data}
        return data

    @property
    def several(self) -> bool:
        """Return whether a table numbers the partitions of several topics."""
        return bool(self.topics)

    @property
    def name(self) -> str:
        """Return the input's topics as messages name them."""
        return ", ".join(self.topics) or self.topic

    @property
    def exact(self) -> tuple[str, ...]:
        """Return the topics that are named exactly: these must exist."""
        return tuple(each for each in self.topics if "*" not in each) or (self.topic,) * (
            not self.topics
        )

    @property
    def first(self) -> str:
        """Return the topic that commands write to, and whose subject the registry has."""
        return (self.exact or self.topics)[0]

    @property
    def wildcards(self) -> tuple[str, ...]:
        """Return the patterns of topics that may come and go."""
        return tuple(each for each in self.topics if "*" in each)

    def fits(self, topic: str) -> bool:
        return not topic.startswith("__") and any(fnmatchcase(topic, w) for w in self.wildcards)

    def entry_of(self, topic: str) -> str:
        """Return the entry of ``topics`` that reads *topic*: its name, or the first pattern."""
        if topic in self.topics:
            return topic
        return next(each for each in self.wildcards if fnmatchcase(topic, each))

    def among(self, topics: Iterable[str]) -> list[str]:
        return sorted(each for each in topics if each in self.exact or self.fits(each))

    @property
    def forgets(self) -> bool:
        """Return whether a tombstone forgets the documents of its id."""
        return self.tombstones == "forget"

    @property
    def updates(self) -> bool:
        """Return whether a record replaces the earlier version of its document."""
        return self.known_id == "update"

    @property
    def finds_ids(self) -> bool:
        """Return whether an index must find documents by their ids."""
        return self.forgets or self.known_id != "judge"

    @property
    def has_ids(self) -> bool:
        """Return whether two records can have the same id: a position occurs only once."""
        pointer = self.id is not None and self.id.startswith("/")
        return self.id is not None and not (pointer and self.format == "text")

    @property
    def kinds(self) -> tuple[str, ...]:
        """Return the kind of each field, as the scheme names it."""
        return tuple(FIELD_KINDS[kind] for kind, _ in self.fields.values())

    @property
    def field_pointers(self) -> list[str]:
        return [pointer for field in self.fields for pointer in pointers_of(field)]

    @property
    def weights(self) -> tuple[float, ...]:
        """Return the weight of each field; empty if all weigh the same."""
        weights = tuple(weight for _, weight in self.fields.values())
        return weights if len({*weights}) > 1 else ()

    @property
    def records(self) -> bool:
        """Return whether a document is a record with fields, and no text."""
        return self.format == "fields" or bool(self.fields and not self.has_lines)

    @property
    def has_lines(self) -> bool:
        """Return whether a value may be a line of a file: no byte of it means anything else."""
        return self.format in ("json", "text", "fields")

    @property
    def has_schema(self) -> bool:
        """Return whether values mean nothing without a schema."""
        return self.format in ("avro", "protobuf")
