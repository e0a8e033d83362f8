"""The input: the topic or file, its format, and the treatment of records without a text."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Literal

from pydantic import AwareDatetime, Field

from streamfilter.config.types import Duration, IdPlace, Pointer, Secret, Section, Texts, Topic


class RegistrySection(Section):
    """The schema registry that the values' schemas are in, by Confluent's API."""

    url: str | None = Field(
        default=None,
        description="Such as https://registry:8081. It is asked once for each schema; while it "
        "does not answer, the task pauses.",
    )
    user: str | None = Field(default=None, description="For basic authentication.")
    password: Secret | None = Field(default=None, description="Of that user.")
    token: Secret | None = Field(default=None, description="For bearer authentication.")
    ca_file: Path | None = Field(
        default=None, description="Certificates that an https url is trusted by; else the system's."
    )
    timeout: Duration = Field(
        default=timedelta(seconds=5), description="The longest that an answer is waited for."
    )


class InputSection(Section):
    """What is read, and how a record becomes a document."""

    topic: Topic = Field(default="documents", description="Topic to read.")
    format: Literal["avro", "json", "json_schema", "protobuf", "text", "fields"] = Field(
        default="json",
        description="json, avro, protobuf, json_schema (JSON in a schema registry's frame): text "
        "and id by JSON Pointer; text: the whole value is the text; "
        "fields: JSON records such as customers, compared field by field. avro needs the extra "
        "of that name.",
    )
    file_format: Literal["auto", "lines", "csv", "avro", "parquet"] = Field(
        default="auto",
        description="Over files (--format): lines; csv, whose first row names the columns; avro: "
        "container files; parquet. The last two need the extra of that name. auto: as a file's "
        "name says, such as news.csv, else lines.",
    )
    schema_file: Path | None = Field(
        default=None,
        description="With format avro or protobuf: the file of the schema that all records were "
        "written by, such as article.avsc or article.proto, instead of a registry.",
    )
    registry: RegistrySection = RegistrySection()
    framing: Literal["registry", "none"] = Field(
        default="registry",
        description="With format avro or protobuf. registry: values begin with a byte 0 and a "
        "schema's id in four bytes, or the header __value_schema_id holds it; none: values are "
        "bare.",
    )
    message: str | None = Field(
        default=None,
        description="With format protobuf and framing none: the full name of the message that all "
        "records are, such as news.Article. null: the first one of the file. A registry's frame "
        "says it by itself.",
    )

    fields: dict[Pointer, Literal["words", "digits", "exact"]] = Field(
        default={},
        description="With format fields, avro, protobuf or json_schema: JSON Pointer of each "
        "field, and how it is compared. "
        "words: names, addresses (spelling and order may differ a little); digits: phone numbers "
        "(another area code, a digit off); exact: keys. Records that agree in one field meet.",
    )
    held_out: Pointer | None = Field(
        default=None,
        description="With format fields: a number or date that takes no part and is closer for "
        "records of one entity, such as /created. The share of true matches is estimated by it.",
    )
    text: Texts = Field(
        default=("/text",),
        description="JSON Pointer to the text; a list such as [/title, /body] makes a line of "
        "each that is there. /paragraphs/*/text: of each element of an array. value: the whole "
        "value.",
    )
    id: IdPlace | None = Field(
        default="/id",
        description="JSON Pointer to the document's id, key (the record's), or header:NAME (the "
        "last of that name). null: its source position is its id; so it is with format text "
        "where a pointer is given.",
    )
    start: Literal["earliest", "latest"] | AwareDatetime = Field(
        default="earliest",
        description="Where a new group begins: earliest, latest, or a time with its zone "
        "(2026-01-31T00:00:00Z). Later starts go on where the last transaction ended.",
    )
    tombstones: Literal["forward", "drop", "forget"] = Field(
        default="forward",
        description="Records with a null value, or null before the end of the way to every "
        "text. forget: the "
        "documents whose id equals the record's key as text (or its header, where input.id names "
        "one) are forgotten, and the record is forwarded. An index finds documents by ids only if "
        "it was made, or restored, with forget.",
    )
    empty_text: Literal["forward", "exact_only", "drop"] = Field(
        default="forward",
        description="The text is empty, null or shows nothing: forward it unjudged, judge it (all "
        "empty texts are equal), or drop it.",
    )
    short_text: Literal["forward", "exact_only", "drop"] = Field(
        default="forward",
        description="A text shorter than one shingle, too little to be a story: forward it "
        "unjudged, let only an equal text make it a duplicate, or drop it.",
    )

    @property
    def forgets(self) -> bool:
        """Return whether documents are forgotten by their ids, so that an index must find them."""
        return self.tombstones == "forget"

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
