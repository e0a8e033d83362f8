"""Builds the parts from the settings in one place: `run`, `filter` and `evaluate` cannot differ."""

from __future__ import annotations

import json
import logging
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct, to_builtins

from streamfilter.config.configuration import Config
from streamfilter.documents.codecs.schemas import OneSchema, Schema, Schemas, subject_of
from streamfilter.documents.decoding import Decoder, Wanted, decoder_for
from streamfilter.documents.fields.selecting import Limits
from streamfilter.documents.reader import Reader
from streamfilter.index.directory.identity import Identity, decode_identity
from streamfilter.index.directory.opening import open_index, read_identity, wipe_index
from streamfilter.index.protocol import Index
from streamfilter.index.rocks.options import MIB, RUN_KEYS_MAX, Memory
from streamfilter.matching.blocking.retention import Retention
from streamfilter.matching.verdict.policy import MatchPolicy
from streamfilter.process.limits import usable_cores
from streamfilter.similarity.scheme import Scheme, pointers_of, scheme_of
from streamfilter.similarity.sketch import Sketcher
from streamfilter.similarity.statistics.shape import Shape
from streamfilter.stops import ConfigError, Problem, of_extra
from streamfilter.workers.crew import Crew

if TYPE_CHECKING:
    from streamfilter.backup.index_target import IndexTarget
    from streamfilter.config.settings.types import Secret
    from streamfilter.documents.codecs.registry import Registry
    from streamfilter.documents.codecs.registry_calls import Access
    from streamfilter.documents.codecs.registry_tokens import Client
    from streamfilter.monitoring.metrics import Metrics

_POLICY_FACT, _TEXTS_FACT = "policy", "texts"
TASK_MEMORY_MIN = 4 * MIB  # least cache, and least write buffers, of an index
WINDOW_DOCUMENTS = 4_000
"""Least documents of a window. The index's CPU time (probe and write) for 2,000 documents is
76 ms with windows of 2,000 documents, 57 with 4,000, 46 with 8,000, 45 with 16,000."""

logger = logging.getLogger("streamfilter.assembly")


def reader_for(config: Config, *, settle: bool = False) -> Reader:
    """Return the reader of records for *config*; raise `ConfigError` if the format needs more.

    With *settle*, a schema id that the registry does not know is retried for a while.
    """
    return Reader(
        config.input.format,
        text=config.input.text,
        id=config.input.id,
        fields=tuple(config.input.fields),
        values=pointers_of(config.digests),
        scoped=config.index.scope_field is not None,
        held_out=config.input.held_out,
        limits=Limits(
            document_bytes=config.limits.document,
            text_characters=config.limits.text_characters,
            depth=config.limits.depth,
        ),
        empty_text="exact_only" if config.judges_empty else config.input.empty_text,
        tombstones=config.input.tombstones,
        updates=config.input.updates,
        schemas=_schemas_for(config, settle=settle),
        framed=config.input.framing == "registry",
        message=config.input.message,
    )


def decoder_of_all(config: Config) -> Decoder:
    """Return the decoder of whole values for *config*, to inspect them.

    Raises `ConfigError`: the format needs something that is not there; the message names the cure.
    """
    given = config.input
    framed = given.framing == "registry"
    wanted = Wanted(None, config.limits.depth, _schemas_for(config), framed, given.message)
    return decoder_for("json" if given.format == "fields" else given.format, wanted)


def _schemas_for(config: Config, *, settle: bool = False) -> Schemas | None:
    """Return the source of schemas: a registry, or a file instead."""
    path = config.input.schema_file
    if path is None:
        return registry_for(config, settle=settle)
    try:
        return OneSchema(Schema(config.input.format.upper(), path.read_text("utf-8-sig")))
    except (OSError, UnicodeDecodeError) as error:
        raise _no_file("schema_file", path, error) from None


def registry_for(config: Config, *, settle: bool = False) -> Registry | None:
    """Return the schema registry that *config* names; all readers of this process share it.

    Raises `ConfigError`: a file of certificates cannot be used.
    """
    given = config.input.registry
    if given.url is None:
        return None
    # HTTP and TLS take 8 ms to import
    from streamfilter.documents.codecs.registry_calls import Access, WrongFile
    from streamfilter.documents.codecs.registry_tokens import Client

    headers = {
        "target-sr-cluster": given.logical_cluster,
        "Confluent-Identity-Pool-Id": given.identity_pool,
    }
    access = Access(
        given.url,
        user=given.user,
        password=_plain(given.password),
        token=_plain(given.token),
        ca_file=_path(given.ca_file),
        certificate_file=_path(given.certificate_file),
        key_file=_path(given.key_file),
        key_password=_plain(given.key_password),
        headers=tuple((name, value) for name, value in headers.items() if value is not None),
        seconds=given.timeout.total_seconds(),
    )
    oauth = given.oauth
    client = Client(
        oauth.token_url or "",
        id=oauth.client_id or "",
        secret=_plain(oauth.client_secret) or "",
        scope=oauth.scope,
        ca_file=_path(oauth.ca_file),
        seconds=access.seconds,
    )
    try:
        return _registry(access, client if oauth.token_url else None, settle)
    except WrongFile as error:
        section = "registry.oauth" if error.path == client.ca_file != access.ca_file else "registry"
        raise _no_file(f"{section}.{error.key}", error.path, error.error) from None


def _plain(secret: Secret | None) -> str | None:
    return None if secret is None else secret.get_secret_value()


def _path(given: Path | None) -> str | None:
    return None if given is None else str(given)


@lru_cache(maxsize=2)
def _registry(access: Access, client: Client | None, settle: bool) -> Registry:
    from streamfilter.documents.codecs.registry import SETTLE_SECONDS, Registry

    return Registry(access, settle=SETTLE_SECONDS if settle else 0.0, client=client)


def _no_file(key: str, path: object, error: Exception) -> ConfigError:
    cure = "name the file"
    if key.endswith("certificate_file"):
        cure = "name the certificate, its key (key_file), and the key's password if it has one"
    return ConfigError([Problem(f"input.{key}", f"cannot read {path}: {error}", cure)])


def newest_schema(config: Config) -> tuple[str, Schema | None]:
    """Return where the newest schema of the input's values is, and the schema if it is there.

    Raises `ConfigError`: a file cannot be read; `SchemasAway`: the registry does not answer.
    """
    if config.input.schema_file is None and (registry := registry_for(config)) is not None:
        subject = subject_of(config.input.first)
        return f"the newest schema of subject {subject}", registry.newest(subject)
    schemas = _schemas_for(config)
    only = None if schemas is None else schemas.schema(None)
    return str(config.input.schema_file), only


def policy_for(config: Config) -> MatchPolicy:
    """Return the policy of *config* for what counts as a duplicate.

    Raises `MissingExtra`: *config* compares records, and the library for that is not installed.
    """
    if config.input.records:
        from streamfilter.entities.scoring import require_library

        require_library()
    names = {*MatchPolicy.__struct_fields__}
    verify = {name: value for name, value in config.verify if name in names}
    return MatchPolicy(**verify | {
        "threshold": config.similarity.threshold,
        "method": "fields" if config.input.records else config.verify.method,
        "short_text": config.input.short_text,
        "sample_modulus": config.similarity.shingle.sample_modulus,
        "fields": config.scheme().field_kinds,
        "known_id": config.input.known_id,
        "weights": config.input.weights if config.input.records else (),
        "agree_on": config.scheme().agree_on,
        "also_same": config.scheme().also_same,
        "within": _milliseconds(config.verify.within),
    })  # fmt: skip


def sketcher_for(scheme: Scheme, *, seed: bytes) -> Sketcher:
    """Return the sketcher of texts, or of records where the *scheme* names their fields."""
    if not scheme.fields:
        return Sketcher(scheme, seed=seed)
    from streamfilter.entities.sketching import RecordSketcher

    records = RecordSketcher(scheme.field_kinds, seed=seed)
    return Sketcher(scheme, seed=seed, contents_of=records.contents)


def crew_for(config: Config) -> Crew:
    """Return the crew of worker processes that sketch; none of them is started yet."""
    wanted = config.batch.workers
    if wanted != "auto":
        return Crew(wanted)
    cores = usable_cores()
    return Crew(cores if cores > 1 else 0, reluctant=True)


def retention_for(config: Config) -> Retention:
    """Return the retention of *config*: which documents are remembered."""
    return Retention(
        documents=config.index.documents_max,
        least=WINDOW_DOCUMENTS,
        time=_milliseconds(config.index.retention),
        within=_milliseconds(config.verify.within),
    )


def _milliseconds(time: timedelta | None) -> int | None:
    return None if time is None else round(time.total_seconds() * 1_000)


class IndexDirectory(Struct, frozen=True):
    """An index in a directory of its own, with the settings that open it."""

    path: Path
    seed: bytes | None  # the seed in ``index.seed_file``; None without one
    bucket_cap: int
    ids: bool  # whether it finds documents by their ids
    memory: Memory
    policy: MatchPolicy
    """The rules for which documents enter the index; a change is logged as a warning."""
    temporary: bool = False  # whether it is removed with its process, and never opened again
    texts: str = ""  # where a service finds its texts; a change is logged, too

    @property
    def where(self) -> str:
        return str(self.path)

    def identity(self) -> Identity | None:
        """Return the identity of the index in the directory; None if there is no index."""
        return read_identity(self.path, seed=self.seed)

    def decode(self, encoded: bytes) -> Identity:
        """Return the identity in a changelog's header."""
        return decode_identity(encoded, seed=self.seed)

    def open(self, identity: Identity) -> Index:
        """Open the index, made new if there is none."""
        index = open_index(
            self.path, identity, bucket_cap=self.bucket_cap, memory=self.memory, ids=self.ids,
            temporary=self.temporary,
        )  # fmt: skip
        note_policy(index, self.policy, Shape.of(scheme_of(identity.scheme)))
        note_texts(index, self.texts)
        return index

    def wipe(self) -> None:
        """Delete the index; the directory stays."""
        wipe_index(self.path)


def index_for(config: Config, path: Path, *, seed: bytes | None, share: int = 1) -> IndexDirectory:
    """Return the index of *config* in the directory *path*; *share* indexes divide the memory."""
    return IndexDirectory(
        path=path,
        seed=seed,
        bucket_cap=config.index.bucket_cap,
        ids=config.finds_ids,
        memory=memory_for(config, share=share),
        policy=policy_for(config),
    )


def backups_for(config: Config, path: Path, name: str) -> IndexTarget | None:
    """Return where the index *name* in the directory *path* has its backups; None: nowhere.

    Raises `MissingExtra`: the library for the target is not installed.
    """
    given = config.index.backup
    if given.target is None:
        return None
    from streamfilter.backup.index_target import IndexTarget
    from streamfilter.backup.targets import store_at

    store_at(given.target)
    every = given.every.total_seconds()
    return IndexTarget(given.target, path, name, config.finds_ids, every, given.keep, given.rate)


def require_telemetry(config: Config) -> None:
    """Raise `MissingExtra` if `otel.endpoint` is set and OpenTelemetry is not installed."""
    if config.otel.endpoint is not None:
        with of_extra("otel", "otel.endpoint"):
            import streamfilter.monitoring.otlp  # noqa: F401


def telemetry_for(config: Config, metrics: Metrics) -> AbstractContextManager[object]:
    """Return what sends *metrics* to `otel.endpoint` while it is entered; nothing without one."""
    if config.otel.endpoint is None:
        return nullcontext()
    require_telemetry(config)
    from streamfilter.monitoring.otlp import Telemetry

    return Telemetry(config.otel.endpoint, metrics, config.kafka.group)


def memory_for(config: Config, *, share: int = 1) -> Memory:
    limits = config.memory
    buffers = max(TASK_MEMORY_MIN, limits.memtable // share)
    return Memory(
        max(TASK_MEMORY_MIN, limits.index_cache // share),
        buffers,
        limits.miss_filter // share,
        share,
        run_keys=min(RUN_KEYS_MAX, buffers >> 7),  # with `RECENT_BYTES`, two thirds of the buffers
    )


def note_policy(index: Index, policy: MatchPolicy, shape: Shape) -> list[str]:
    """Store *policy* in *index*; log a warning for each change, and return the changes.

    The index's keys have *shape* and stay: the warning says what they find at a new threshold.
    A change of scheme is refused, because every signature depends on it. An operator may change the
    policy. It applies from then on, but a record that is read again may get another verdict.
    """
    present = _as_read(policy)
    known = json.loads(index.fact(_POLICY_FACT) or "null")
    if known is not None:
        known = _as_read(MatchPolicy()) | known  # stored before a setting existed: its default
    if known == present:
        return []
    index.remember(_POLICY_FACT, policy.as_fact())
    changes = [
        f"{name}: {known.get(name)} -> {value}"
        for name, value in present.items()
        if known is not None and known.get(name) != value
    ]
    if changes and known["threshold"] != policy.threshold and not policy.fields:
        changes.append(
            f"its keys, {shape}, find {shape.cut(policy.threshold)} of the pairs at "
            f"{policy.threshold:g}"
        )
    if changes:
        logger.warning(
            "the index was filled under another policy (%s): the new one holds from now on, and "
            "a record that is read again may get another verdict than it had",
            "; ".join(changes),
        )
    return changes


def texts_of(config: Config) -> str:
    """Return where *config* finds the texts; empty: in fields, which belong to the scheme."""
    if config.input.format == "fields":
        return ""
    return "value" if config.input.format == "text" else ", ".join(config.input.text)


def note_texts(index: Index, texts: str) -> None:
    """Store in *index* where its texts come from; log a warning if they came from elsewhere."""
    known = (index.fact(_TEXTS_FACT) or b"").decode()
    if not texts or known == texts:
        return
    index.remember(_TEXTS_FACT, texts.encode())
    if known:
        logger.warning(
            "the index was filled with the texts at %s, and input.text is %s now: a copy of an "
            "earlier text counts as new, unless the same words are there; set it back, or take "
            "over with a new index (input.take_over)",
            known,
            texts,
        )


def _as_read(policy: MatchPolicy) -> dict[str, Any]:
    """Return the policy as it is after a round trip through JSON: tuples become lists."""
    read: dict[str, Any] = json.loads(json.dumps(to_builtins(policy)))
    return read
