"""How the process runs: kafka, http, batch, limits, memory, log; one section a class.

As in `sections`, the texts under the settings are the manual.
"""

import shlex
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, PlainSerializer, SecretStr, WithJsonSchema

from streamfilter.config.settings.types import (
    Duration,
    Properties,
    Property,
    Ratio,
    Section,
    Size,
    Workers,
    as_text,
)
from streamfilter.config.settings.types import parse_duration as duration
from streamfilter.config.settings.types import parse_size as size

_BROKERS: dict[str, Property] = {"bootstrap.servers": "localhost:9092"}


def _with_brokers(value: object) -> object:
    """Lay *value* over the default brokers, unless it names brokers in librdkafka's other way."""
    if isinstance(value, dict) and "metadata.broker.list" not in value:
        return _BROKERS | value
    return value


OAUTHBEARER = "OAUTHBEARER"
MASK = "********"
TIMEOUT_SECONDS_MAX = 60.0


def _arguments(value: object) -> object:
    """Return the words of a text as a shell would split it, and a list as it is."""
    return shlex.split(value) if isinstance(value, str) else value


def _shown(value: tuple[str, ...] | None) -> list[str] | None:
    """Return the program with its arguments masked: one of them may be a secret."""
    return None if value is None else [*value[:1], *([MASK] * len(value[1:]))]


Command = Annotated[
    tuple[Annotated[str, Field(min_length=1)], ...],
    BeforeValidator(_arguments),
    PlainSerializer(_shown),
    Field(min_length=1),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}),
]


class OAuthSection(Section):
    """Tokens for SASL OAUTHBEARER by a program, such as a signer for MSK's IAM."""

    command: Command | None = None
    """Program and arguments that print a token; no shell is used. It prints the token alone, or
    JSON: {"access_token": …, "expires_in": seconds}, and perhaps "principal". null: no program.
    sasl.oauthbearer.method: oidc needs none."""
    timeout: Duration = duration("10s")
    """The command is killed after this."""
    lifetime: Duration = duration("5m")
    """Lifetime of a token that states none, neither in the JSON nor as a JWT in its exp."""


class KafkaSection(Section):
    """The clients. The three maps are librdkafka's own properties, passed through."""

    group: Annotated[str, Field(min_length=1, max_length=200)] = "streamfilter"
    """Consumer group. The transactional ids and the changelog topic are named after it, too."""
    common: Annotated[Properties, BeforeValidator(_with_brokers)] = _BROKERS
    """Properties of every client: brokers, TLS, SASL."""
    consumer: Properties = Field(default={})
    """Properties of consumers only."""
    producer: Properties = Field(default={})
    """Properties of producers only."""
    oauth: OAuthSection = OAuthSection()
    session_timeout: Duration = duration("10s")
    """A process that sends no heartbeat for this long loses its task."""
    transaction_timeout: Duration = duration("10s")
    """The broker aborts an abandoned transaction after this."""
    start_timeout: Duration = duration("60s")
    """How long a start waits for a broker. Then it ends with exit 75 (try again later)."""

    def properties(self, client: Literal["common", "consumer", "producer"]) -> dict[str, str]:
        """Return the librdkafka map of *client* (common included) with its secrets in plain."""
        merged = self.common if client == "common" else self.common | getattr(self, client)
        return {name: _librdkafka(value) for name, value in merged.items()}

    @property
    def mechanism(self) -> str:
        """Return SASL's mechanism of all clients, in capitals; empty if none is set."""
        given = self.properties("common")
        return (given.get("sasl.mechanism") or given.get("sasl.mechanisms") or "").upper()


def _librdkafka(value: Property) -> str:
    return value.get_secret_value() if isinstance(value, SecretStr) else as_text(value)


class HttpSection(Section):
    """Metrics, health and status. Plain HTTP without passwords: keep it on a private network."""

    host: str = "127.0.0.1"
    """Address to listen on; 0.0.0.0 inside a container."""
    port: int = Field(default=9464, ge=0, le=65_535)
    """Port; 0 takes any free one."""
    allowed_hosts: tuple[str, ...] = ()
    """Host names under which / and /status may be requested, such as filter.example.com. Addresses,
    names without a dot and those that end in .local, .internal, .svc or .localhost are always
    allowed. "*" allows every name, and with it a page on the Internet that rebinds its name to this
    host."""
    show_payloads: bool = False
    """Show the texts of the latest near-duplicates on the page and in /status. Anyone that reaches
    the port can read them."""
    query: bool = False
    """Programs may ask POST /query for the near-duplicates of a text or record. It needs
    `http.query_token_file`."""
    query_token_file: Path | None = None
    """File with the token that they send, as `Authorization: Bearer TOKEN`: 16 characters or more,
    which other users cannot read (mode 600). A new token needs no restart."""
    stalled_after: Duration = duration("60s")
    """If the loop does nothing for this long, /livez fails."""
    stuck_after: Duration = duration("5m")
    """If nothing is committed for this long, although another consumer reads records after our
    positions, /livez fails."""
    exit_after: Duration = duration("60s")
    """This long after /livez began to fail, the process ends with exit 70, so that a supervisor
    restarts it. 0: it stays."""


class OtelSection(Section):
    """OpenTelemetry: the metrics, and a span for each batch. It needs `streamfilter[otel]`."""

    endpoint: str | None = None
    """Base address of an OTLP receiver over HTTP, such as http://collector:4318; null: nothing is
    sent. An endpoint that is down or slow changes nothing. Headers and certificates are
    OpenTelemetry's own variables, such as OTEL_EXPORTER_OTLP_HEADERS."""


class BatchSection(Section):
    """A micro-batch: one consume, one transaction. Whatever bound is reached first closes it."""

    documents: int = Field(default=4_000, ge=1, le=10_000)
    """Most records of a batch."""
    bytes: Size = Field(default=size("8Mi"), ge=1_024)
    """Most bytes of keys, values and headers of a batch. The tasks of `index.scope: partition`
    share it, and their fetch queues share twice that or 16Mi."""
    latency: Duration = duration("20ms")
    """How long to wait until a batch is full. 0: take what has arrived."""
    workers: Workers = 0
    """Worker processes that read and sketch full batches, some 60 MB each: 0 to 64. auto: one a
    core and up to 4, once there was much to do. It starts one for texts below 512 characters, and
    none on one core or for texts of a few words. No output depends on it."""
    kernel: Literal["auto", "off"] = "auto"
    """What signs texts. auto: the compiled kernel, or numpy where it cannot be loaded or compiled;
    `check` says which, and why. off: numpy. No output depends on it."""


class ClusterSection(Section):
    """One index over many processes: edges read, sketch and forward; one judge decides."""

    enabled: bool = False
    """Each process then has a role: `streamfilter run --role edge`, as many as wanted, and `--role
    judge`: one works, and the others stand by. Needs `index.scope: topic`, one input topic,
    and the topics `<kafka.group>.sketches` and `<kafka.group>.verdicts`, which `run` creates."""
    pending: int = Field(default=20_000, ge=100, le=1_000_000)
    """Most records of an edge that wait for their verdicts. Their bytes are bounded, too: by
    `memory.index_cache` and `memtable` together. A full edge stops reading."""


class LimitsSection(Section):
    """Bounds on hostile input; what exceeds them is a dead letter."""

    document: Size = Field(default=size("10Mi"), ge=1)
    """Most bytes of a record's value."""
    text_characters: int = Field(default=2_000_000, ge=1, le=100_000_000)
    """Most characters of a text, before and after it is normalised."""
    depth: int = Field(default=64, ge=1, le=512)
    """Deepest nesting of a JSON value."""
    dead_letter_share: Ratio = 0.5
    """If a larger share of the records is rejected, the dead-letter breaker pauses the service."""


class MemorySection(Section):
    """Bounds on the index's memory, whatever its size on disk."""

    index_cache: Size = Field(default=size("128Mi"), ge=1 << 20)
    """RocksDB's block cache."""
    memtable: Size = Field(default=size("64Mi"), ge=1 << 20)
    """RocksDB's write buffers. Recent keys take up to two thirds as much in addition."""
    miss_filter: Size = size("768Mi")
    """Filters in RAM that recognise new keys without reading RocksDB. They grow with the index, 36
    bytes a document, up to this bound; a merge of large runs takes up to half more for a while. The
    default is enough for 20 million documents. `plan --documents N` prints what N need."""


class LogSection(Section):
    """Logging to standard error. Payloads and secrets are never logged."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """Least important level of messages that is written."""
    format: Literal["auto", "json", "text"] = "auto"
    """json: one object a line; text: for people; auto: text on a terminal, json otherwise."""
    summary: bool = True
    """Write a line of totals once a minute: read, unique, duplicates, dead letters, lag."""
