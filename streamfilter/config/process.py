"""How the process runs: kafka, http, batch, limits, memory, log; one section a class.

As in `sections`, the descriptions are the manual.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, SecretStr

from streamfilter.config.oauth import OAuthSection
from streamfilter.config.types import (
    Duration,
    Properties,
    Property,
    Ratio,
    Section,
    Size,
    Workers,
)
from streamfilter.config.types import parse_duration as duration
from streamfilter.config.types import parse_size as size

_BROKERS: dict[str, Property] = {"bootstrap.servers": "localhost:9092"}


def _with_brokers(value: object) -> object:
    """Lay *value* over the default brokers, unless it names brokers in librdkafka's other way."""
    if isinstance(value, dict) and "metadata.broker.list" not in value:
        return _BROKERS | value
    return value


class KafkaSection(Section):
    """The clients. The three maps are librdkafka's own properties, passed through."""

    group: Annotated[str, Field(min_length=1, max_length=200)] = Field(
        default="streamfilter",
        description="Consumer group; also names transactions and the changelog.",
    )
    common: Annotated[Properties, BeforeValidator(_with_brokers)] = Field(
        default=_BROKERS, description="For every client: brokers, TLS, SASL."
    )
    consumer: Properties = Field(default={}, description="For consumers only.")
    producer: Properties = Field(default={}, description="For producers only.")
    oauth: OAuthSection = OAuthSection()
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


def _librdkafka(value: Property) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.get_secret_value() if isinstance(value, SecretStr) else str(value)


class HttpSection(Section):
    """Metrics, health and status. Plain HTTP without passwords: keep it on a private network."""

    host: str = Field(
        default="127.0.0.1", description="Address to listen on; 0.0.0.0 inside a container."
    )
    port: int = Field(default=9464, ge=0, le=65_535, description="Port; 0 takes any free one.")
    allowed_hosts: tuple[str, ...] = Field(
        default=(),
        description="Names under which / and /status are asked for, such as "
        "filter.example.com. Addresses, names without a dot and those that end in .local, "
        '.internal, .svc or .localhost are allowed anyway; "*" allows all, also a page on the '
        "Internet that rebinds its name to this host.",
    )
    show_payloads: bool = Field(
        default=False,
        description="Show the texts of the latest near-duplicates on the page and in /status: "
        "whoever reaches the port reads them.",
    )
    stalled_after: Duration = Field(
        default=duration("60s"), description="The loop was silent for this long: /livez fails."
    )
    stuck_after: Duration = Field(
        default=duration("5m"),
        description="Nothing was committed for this long although another consumer reads records "
        "from our positions on: /livez fails.",
    )
    exit_after: Duration = Field(
        default=duration("60s"),
        description="So long after /livez began to fail the process ends with 70, so that a "
        "supervisor starts it again; 0: it stays.",
    )


class BatchSection(Section):
    """A micro-batch: one consume, one transaction. Whatever bound is reached first closes it."""

    documents: int = Field(
        default=4_000, ge=1, le=10_000, description="Records in a batch at most."
    )
    bytes: Size = Field(
        default=size("8Mi"),
        ge=1_024,
        description="Bytes of keys, values and headers in a batch at most. The tasks of "
        "`index.scope: partition` share it, and their fetch queues share twice that or 16Mi.",
    )
    latency: Duration = Field(
        default=duration("20ms"),
        description="How long to wait for a fuller batch; 0 takes what is there.",
    )
    workers: Workers = Field(
        default=0,
        description="Processes that read and sketch full batches beside this one, some 60 MB each: "
        "0 to 64. auto: one a core and up to 4, once there was much to do; a single one for texts "
        "below 512 characters, none on one core, nor for texts of a few words. No output depends "
        "on it.",
    )


class LimitsSection(Section):
    """Bounds on hostile input; what exceeds them is a dead letter."""

    document: Size = Field(default=size("10Mi"), ge=1, description="Bytes of a record's value.")
    text_characters: int = Field(
        default=2_000_000,
        ge=1,
        le=100_000_000,
        description="Characters of a text, as it is and once it is normalised.",
    )
    depth: int = Field(default=64, ge=1, le=512, description="Nesting of a JSON value.")
    dead_letter_share: Ratio = Field(
        default=0.5, description="A larger share of rejected records pauses the service."
    )


class MemorySection(Section):
    """Bounds on the index's memory, whatever its size on disk."""

    index_cache: Size = Field(default=size("128Mi"), ge=1 << 20, description="RocksDB block cache.")
    memtable: Size = Field(default=size("64Mi"), ge=1 << 20, description="RocksDB write buffers.")
    miss_filter: Size = Field(
        default=size("192Mi"),
        description="Front that answers 'never seen' without "
        "RocksDB; `plan --documents N` says how much N want.",
    )


class LogSection(Section):
    """Logging to standard error. Payloads and secrets are never logged."""

    level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="Least important level that is written."
    )
    format: Literal["auto", "json", "text"] = Field(
        default="auto",
        description="json: one object a line; auto: text on a terminal, json otherwise.",
    )
