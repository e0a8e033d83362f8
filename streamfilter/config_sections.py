"""The settings, one section a class: name, type, default, bounds, and why one would change it.

The descriptions are the manual: `config/reference.yaml` is generated from them. Attribute
names are the keys of the YAML. Everything is frozen.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, SecretStr

from streamfilter.config_types import Duration, Pointer, Properties, Ratio, Size, Topic
from streamfilter.config_types import parse_duration as duration
from streamfilter.config_types import parse_size as size


class Section(BaseModel):
    """Frozen, unknown keys refused, and no value ever quoted in an error by pydantic itself."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", hide_input_in_errors=True, validate_default=True
    )


class Input(Section):
    """What is read, and how a record becomes a document."""

    topic: Topic = Field(default="documents", description="Topic to read.")
    format: Literal["json", "text"] = Field(
        default="json",
        description="json: text and id by JSON Pointer; text: the whole value is the text.",
    )
    text: Pointer = Field(
        default="/text", description="JSON Pointer to the text, through objects only."
    )
    id: Pointer | None = Field(
        default="/id",
        description="JSON Pointer to the document's id. null: its source position is its id; "
        "so it is with format text.",
    )
    start: Literal["earliest", "latest"] | AwareDatetime = Field(
        default="earliest",
        description="Where a new group begins: earliest, latest, or a time with its zone "
        "(2026-01-31T00:00:00Z). Later starts go on where the last transaction ended.",
    )
    tombstones: Literal["forward", "drop"] = Field(
        default="forward",
        description="Records with a null value: forward or drop. forget (delete the id from the "
        "index) is not built yet.",
    )
    empty_text: Literal["forward", "exact_only", "drop"] = Field(
        default="forward",
        description="Nothing is left of the text: forward it unjudged, judge it (all empty texts "
        "are equal), or drop it.",
    )
    short_text: Literal["exact_only", "forward", "drop"] = Field(
        default="exact_only",
        description="A text shorter than one shingle: only an equal text makes it a duplicate, "
        "for one shared word is no evidence.",
    )


class Output(Section):
    """Where records go. Topics must exist: a typing mistake must not create one."""

    unique: Topic = Field(
        default="documents.unique",
        description="Topic of the records that are forwarded, byte for byte. "
        "Left out: <input.topic>.unique.",
    )
    duplicates: Topic = Field(
        default="documents.duplicates",
        description="Topic of the duplicates with their evidence. "
        "Left out: <input.topic>.duplicates.",
    )
    dead_letter: Topic | None = Field(
        default="documents.dead-letter",
        description="Topic of records that cannot be read. Left out: <input.topic>.dead-letter. "
        "null: the first such record stops the process; none is ever dropped.",
    )
    mode: Literal["divert", "shadow"] = Field(
        default="divert",
        description="shadow: everything goes to the unique topic, duplicates annotated, "
        "so that people can watch before they trust.",
    )
    duplicates_mode: Literal["annotate", "envelope", "reference"] = Field(
        default="annotate",
        description="annotate: the original record plus headers; envelope: one JSON record with "
        "evidence and payload; reference: the envelope without the payload.",
    )


class Shingle(Section):
    """How a text becomes a set."""

    kind: Literal["word", "char"] = Field(
        default="word",
        description="word: runs of words; char: runs of characters (short or noisy text).",
    )
    size: int = Field(default=3, ge=1, le=32, description="Words or characters in one shingle.")


class Normalise(Section):
    """Which differences between two texts do not count."""

    unicode: Literal["NFKC", "NFC", "none"] = Field(
        default="NFKC",
        description="Unicode normalisation; NFKC makes full-width and ligatures equal.",
    )
    casefold: bool = Field(default=True, description="Ignore upper and lower case.")
    whitespace: bool = Field(default=True, description="Runs of white space count as one space.")
    digits: bool = Field(
        default=False,
        description="Every digit becomes 0: for logs and forms that differ in numbers only.",
    )
    invisible: bool = Field(
        default=True, description="Ignore soft hyphens, zero-width and bidi marks."
    )


class Similarity(Section):
    """What "similar" means and how surely it is found. Shapes the index: fixed once it exists."""

    threshold: Ratio = Field(
        default=0.8, description="Jaccard similarity from which on two texts are the same story."
    )
    shingle: Shingle = Shingle()
    slots: int = Field(
        default=128,
        ge=1,
        le=1024,
        description="Signature slots: more find more surely and cost more.",
    )
    recall: Annotated[float, Field(gt=0, lt=1)] = Field(
        default=0.99,
        description="Share of the pairs at the threshold that the bands must find; plans bands "
        "and rows.",
    )
    bands: int | None = Field(
        default=None, ge=1, le=255, description="Bands by hand. null: planned from recall."
    )
    rows: int | None = Field(
        default=None, ge=1, le=255, description="Slots per band by hand. null: planned from recall."
    )
    normalise: Normalise = Normalise()


class Verify(Section):
    """How a candidate is confirmed before a document is withheld for it."""

    method: Literal["exact", "signature"] = Field(
        default="exact",
        description="exact: Jaccard on the stored token samples; signature: only the estimate, "
        "wrong for a quarter of the pairs close to the threshold.",
    )
    max_candidates: int = Field(
        default=8,
        ge=1,
        le=1_000,
        description="Candidates compared per document; bounds hostile floods.",
    )


class Index(Section):
    """The memory: a directory that can be rebuilt from the changelog."""

    path: Path = Field(
        default=Path("state"), description="Directory of this process's index; not shared."
    )
    scope: Literal["topic", "partition"] = Field(
        default="topic",
        description="topic: one index over all partitions, a second process stands by; "
        "partition: one index each, processes share them (the key is a deduplication scope).",
    )
    changelog: Topic | None = Field(
        default=None,
        description="Topic that the index is rebuilt from. null: <kafka.group>.changelog.",
    )
    retention: Literal["unlimited"] = Field(
        default="unlimited",
        description="How long a document is remembered. Expiry is not built yet.",
    )
    bucket_cap: int = Field(
        default=8,
        ge=1,
        le=255,
        description="Documents listed per bucket; more are counted, not listed.",
    )
    seed_file: Path | None = Field(
        default=None,
        description="File with the secret that keys the hashes. null: made at random, kept in the "
        "changelog and the state directory.",
    )


class Kafka(Section):
    """The clients. The three maps are librdkafka's own properties, passed through."""

    group: Annotated[str, Field(min_length=1, max_length=200)] = Field(
        default="streamfilter",
        description="Consumer group; also names transactions and the changelog.",
    )
    common: Properties = Field(
        default={"bootstrap.servers": "localhost:9092"},
        description="For every client: brokers, TLS, SASL.",
    )
    consumer: Properties = Field(default={}, description="For consumers only.")
    producer: Properties = Field(default={}, description="For producers only.")
    session_timeout: Duration = Field(
        default=duration("10s"), description="A silent process loses its task after this."
    )
    transaction_timeout: Duration = Field(
        default=duration("10s"),
        description="The broker aborts an abandoned transaction after this.",
    )
    start_timeout: Duration = Field(
        default=duration("60s"),
        description="No broker for this long at start: exit 75, try again later.",
    )

    def properties(self, client: Literal["common", "consumer", "producer"]) -> dict[str, str]:
        """Return the librdkafka map of *client* (common included) with its secrets in plain."""
        merged = self.common if client == "common" else self.common | getattr(self, client)
        return {name: _librdkafka(value) for name, value in merged.items()}


def _librdkafka(value: bool | int | float | str | SecretStr) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.get_secret_value() if isinstance(value, SecretStr) else str(value)


class Http(Section):
    """Metrics, health and status. Plain HTTP without passwords: keep it on a private network."""

    host: str = Field(
        default="127.0.0.1", description="Address to listen on; 0.0.0.0 inside a container."
    )
    port: int = Field(default=9464, ge=0, le=65_535, description="Port; 0 takes any free one.")
    stalled_after: Duration = Field(
        default=duration("60s"), description="The loop was silent for this long: /livez fails."
    )


class Batch(Section):
    """A micro-batch: one consume, one transaction. Whatever bound is reached first closes it."""

    documents: int = Field(
        default=1_000, ge=1, le=10_000, description="Records in a batch at most."
    )
    bytes: Size = Field(
        default=size("8Mi"), ge=1_024, description="Bytes of values in a batch at most."
    )
    latency: Duration = Field(
        default=duration("20ms"),
        description="How long to wait for a fuller batch; 0 takes what is there.",
    )


class Limits(Section):
    """Bounds on hostile input; what exceeds them is a dead letter."""

    document: Size = Field(default=size("10Mi"), ge=1, description="Bytes of a record's value.")
    text_characters: int = Field(
        default=2_000_000, ge=1, le=100_000_000, description="Characters of a text."
    )
    depth: int = Field(default=64, ge=1, le=512, description="Nesting of a JSON value.")
    dead_letter_share: Ratio = Field(
        default=0.5, description="A larger share of rejected records pauses the service."
    )


class Memory(Section):
    """Bounds on the index's memory, whatever its size on disk."""

    index_cache: Size = Field(default=size("128Mi"), ge=1 << 20, description="RocksDB block cache.")
    memtable: Size = Field(default=size("64Mi"), ge=1 << 20, description="RocksDB write buffers.")
    miss_filter: Size = Field(
        default=size("128Mi"), description="Front that answers 'never seen' without RocksDB."
    )


class Log(Section):
    """Logging to standard error. Payloads and secrets are never logged."""

    level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="Least important level that is written."
    )
    format: Literal["auto", "json", "text"] = Field(
        default="auto",
        description="json: one object a line; auto: text on a terminal, json otherwise.",
    )
