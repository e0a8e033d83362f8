"""Checks across settings: impossible shapes, topics that collide, broken promises.

Each check names the settings that it reads. It is skipped if one of them is itself invalid, because
a second problem that only follows from the first does not help.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import timedelta
from math import inf
from operator import attrgetter
from pathlib import Path
from urllib.parse import unquote

from streamfilter.config import boilerplate, schema_places, shapes, values
from streamfilter.config.configuration import Config
from streamfilter.config.schema_places import ADDRESS, NO_ADDRESS
from streamfilter.config.settings.process import OAUTHBEARER, TIMEOUT_SECONDS_MAX
from streamfilter.config.settings.types import TOPIC, format_duration
from streamfilter.config.values import overlap
from streamfilter.stops import Problem

Check = Callable[[Config], Iterable[Problem]]
CheckOf = tuple[tuple[str, ...], Check]  # the settings that a check reads, and the check

_REFUSED = {
    "offsets belong to the transaction; remove it":
        "enable.auto.commit enable.auto.offset.store auto.commit.interval.ms auto.commit.enable "
        "offset.store.method",
    "aborted records must never be judged; remove it": "isolation.level",
    "it follows from kafka.group and the task; remove it": "transactional.id",
    "transactions need it enabled; remove it": "enable.idempotence",
    "a silent jump would lose records; use input.start for a new group": "auto.offset.reset",
    "a silent jump would lose records; use input.start": "topic.auto.offset.reset",
    "set kafka.group instead": "group.id",
    "set kafka.session_timeout instead": "session.timeout.ms",
    "set kafka.transaction_timeout instead": "transaction.timeout.ms",
    "streamfilter sets it; remove it":
        "enable.partition.eof dr_cb dr_msg_cb on_delivery error_cb stats_cb throttle_cb logger",
    "a transaction needs all acknowledgements; remove it": "acks request.required.acks",
    "more than five break the order; remove it":
        "max.in.flight max.in.flight.requests.per.connection",
    "it turns a retry into a fatal error; remove it": "enable.gapless.guarantee",
    "a typing mistake must not create a topic; remove it": "allow.auto.create.topics",
    "the changelog's offset comes with the report; remove it": "delivery.report.only.error",
    "set kafka.oauth.command instead": "oauth_cb",
}  # fmt: skip
REFUSED_PROPERTIES = {name: why for why, names in _REFUSED.items() for name in names.split()}
"""librdkafka properties that would break a promise → why, and what to do instead."""

_BROKER = re.compile(
    r"((plaintext|ssl|sasl_plaintext|sasl_ssl)://)?"
    r"(\[[^]]*\]|[^/:\s]*|[^/\s]*:[^/\s]*:[^/\s]*)(:(?P<port>\d+))?(/.*)?",
    re.IGNORECASE,
)
"""One of bootstrap.servers as librdkafka takes it: of others it makes another host or port."""


def check_meaning(config: Config, broken: Iterable[str] = ()) -> list[Problem]:
    """Return the problems of settings that are each valid alone."""
    return [
        problem
        for reads, check in _CHECKS
        if not any(_touches(each, setting) for each in broken for setting in reads)
        for problem in check(config)
    ]


def announced(config: Config) -> list[Problem]:
    """Return a warning for each setting in use that a later version will not have."""
    if config.similarity.shingle.sample_modulus == 1:
        return []
    return [
        Problem(
            "similarity.shingle.sample_modulus",
            "will go: verdicts on a part of the shingles are estimates that no audit can check",
            "leave it out: larger sets are sampled to 1,024 shingles anyway. It is another "
            "scheme, which needs a new index",
            warning=True,
        )
    ]


def _touches(broken: str, setting: str) -> bool:
    return f"{broken}.".startswith(f"{setting}.") or f"{setting}.".startswith(f"{broken}.")


def _topics(config: Config) -> Iterator[Problem]:
    """Two roles on one topic: a loop, or records that cannot be distinguished."""
    first: dict[str, str] = {}
    for key, topic in config.topics.items():
        other = first.setdefault(topic, key)
        read = other.startswith("input.topic")
        if other != key and not (read and key.startswith("input.topic")):
            why = "its own output would be read again" if read else "the two mix"
            yield Problem(key, f"{topic!r} is also {other}: {why}", "give each its own topic")
    if config.input.topics:
        yield from _several(config)
    for topic in sorted(config.made_topics):
        if not TOPIC.fullmatch(topic):
            got = f"{topic!r} is named after it, and is no topic name"
            cure = "use letters, digits, '.', '_' and '-' only, and at most 249 with the ending"
            yield Problem("kafka.group", got, cure)


def _cluster(config: Config) -> Iterator[Problem]:
    """Edges and a judge share one index over one topic."""
    if not config.cluster.enabled:
        return
    if config.index.scope == "partition":
        yield Problem(
            "cluster.enabled",
            "index.scope partition has an index for each partition, and needs no judge",
            "set index.scope: topic, or cluster.enabled: false",
        )
    if config.input.topics:
        got = "it works with one input.topic, and input.topics is set"
        yield Problem("cluster.enabled", got, "set input.topic, or cluster.enabled: false")


def _take_over(config: Config) -> Iterator[Problem]:
    """One group with one index takes over from another one."""
    key, then = "input.take_over", "once it has taken over, remove input.take_over, and set it back"
    if config.input.take_over is None:
        return
    old = config.input.take_over
    if not old.strip() or not old.isprintable():  # the client cuts or refuses such a name
        yield Problem(key, f"got {old!r}", "name the old group (its kafka.group)")
    if old == config.kafka.group:
        cure = "name the old group; the new one needs a kafka.group of its own"
        yield Problem(key, "it is kafka.group itself", cure)
    if config.index.scope == "partition":
        yield Problem(key, "index.scope is partition", "set index.scope: topic, or remove it")
    if config.cluster.enabled:
        yield Problem(key, "cluster.enabled is true", f"set it to false; {then}")


def _backup(config: Config) -> Iterator[Problem]:
    """Return a problem if backups would go into the directory of the index."""
    target = config.index.backup.target or ""
    if target.startswith("file://"):
        directory = Path(unquote(target.removeprefix("file://"))).resolve()
        if directory.is_relative_to(config.index.path.resolve()):
            got = f"{directory} lies in index.path, which may hold nothing else"
            yield Problem("index.backup.target", got, "name a directory on another disk")


def _query(config: Config) -> Iterator[Problem]:
    """No program asks without a token."""
    if config.http.query and config.http.query_token_file is None:
        cure = "(umask 077; head -c 32 /dev/urandom | base64 > token), and name that file"
        yield Problem("http.query_token_file", "http.query is true, and it names no file", cure)


def _otel(config: Config) -> Iterator[Problem]:
    """An address without a user: it is shown in logs."""
    if (url := config.otel.endpoint) is not None and not ADDRESS.fullmatch(url):
        cure = "write it like http://collector:4318; a token goes into OTEL_EXPORTER_OTLP_HEADERS"
        yield Problem("otel.endpoint", NO_ADDRESS, cure)


def _several(config: Config) -> Iterator[Problem]:
    """A list of topics: no output fits it, and every output is named."""
    given, output = config.input, config.output
    if "topic" in given.model_fields_set:
        yield Problem("input.topics", "input.topic is set, too", "remove one of them")
    if config.index.scope == "partition":
        yield Problem(
            "input.topics",
            "index.scope partition has an index for each partition of one topic",
            "set index.scope: topic, or run a service with a kafka.group of its own for each topic",
        )
    if len(set(given.topics)) < len(given.topics):
        yield Problem("input.topics", "it has a topic twice", "name each once")
    unnamed = {"unique", "duplicates", "dead_letter"} - output.model_fields_set
    for name in sorted(unnamed):
        cure = f"set output.{name}; several topics have no default for it"
        yield Problem(f"output.{name}", "it is not set", cure)
    for key, topic in {**output.topics, "index.changelog": config.changelog_topic}.items():
        if given.fits(topic):
            got = f"{topic!r} fits input.topics: its own output would be read again"
            yield Problem(key, got, "give it a name that does not fit, or write the topics out")


def _format(config: Config) -> Iterator[Problem]:
    if config.input.format not in ("text", "fields"):
        yield from _overlaps(config)
    yield from schema_places.check(config)
    yield from _records(config)


def _known_ids(config: Config) -> Iterator[Problem]:
    """Return a problem if ids are asked about that records do not have."""
    given = config.input
    if given.known_id != "judge" and not given.has_ids:
        got = f"it is {given.known_id}, but ids are positions and never repeat"
        cure = "name the id with input.id, such as /id or key, or set judge"
        yield Problem("input.known_id", got, cure)
    if given.known_id == "duplicate" and given.empty_text != given.short_text:
        got = "with input.known_id: duplicate an empty text is a short one"
        yield Problem("input.empty_text", got, f"set it to {given.short_text}, as input.short_text")


def _overlaps(config: Config) -> Iterator[Problem]:
    """A pointer that leads through another one: only one of them can be a string."""
    texts, id_ = config.input.text, config.input.id
    for at, text in enumerate(texts):
        if any(overlap(text, other) for other in texts[:at]):
            yield Problem("input.text", f"{text} is within another text, or holds one",
                          "name different fields")  # fmt: skip
        if id_ is None or not id_.startswith("/"):
            continue
        if text == "value":
            yield Problem("input.id", f"the whole value is the text, and has no field {id_}",
                          "use key, header:NAME, or null: the source position")  # fmt: skip
        elif overlap(text, id_):
            how = "also" if text == id_ else f"within, or holds, {text}, which is"
            cure = "point to a field of its own, or use null: the source position"
            yield Problem("input.id", f"{id_} is {how} input.text", cure)


def _records(config: Config) -> Iterator[Problem]:
    """Records have fields, and nothing that is for texts alone."""
    given, records = config.input, config.input.records
    if records and not given.fields:
        yield Problem("input.fields", "format fields has no fields to compare",
                      "name at least one, such as /name: words")  # fmt: skip
    if not records and (given.fields or given.held_out):
        key = "fields" if given.fields else "held_out"
        yield Problem(f"input.{key}", f"does not apply to input.format {given.format}",
                      "set input.format: fields, or remove this setting")  # fmt: skip
    if given.held_out in given.field_pointers:
        yield Problem("input.held_out", f"{given.held_out} is also one of input.fields",
                      "name a field that is not compared, or remove input.held_out")  # fmt: skip
    verify = config.verify
    if verify.minimum_fields is not None and not 0 < verify.minimum_fields <= len(given.fields):
        yield Problem("verify.minimum_fields", f"{verify.minimum_fields} of "
                      f"{len(given.fields)} fields: no two records have so many",
                      "use at most the number of input.fields, or null")  # fmt: skip
    if records and (verify.method != "exact" or verify.containment or verify.short_threshold):
        yield Problem("verify", "records are compared field by field, not by sets of shingles",
                      "remove verify.method, containment and short_threshold")  # fmt: skip


def _properties(config: Config) -> Iterator[Problem]:
    maps = {"common": config.kafka.common, "consumer": config.kafka.consumer,
            "producer": config.kafka.producer}  # fmt: skip
    for name, properties in maps.items():
        for key in sorted(properties.keys() & REFUSED_PROPERTIES):
            yield Problem(f"kafka.{name}.{key}", "refused: it would break a promise",
                          REFUSED_PROPERTIES[key])  # fmt: skip
        yield from _brokers(f"kafka.{name}.bootstrap.servers", properties)
    yield from _oauth(config)


def _oauth(config: Config) -> Iterator[Problem]:
    """Say if OAUTHBEARER has no source of tokens, or a source has no OAUTHBEARER."""
    given, oauth = config.kafka.properties("common"), config.kafka.oauth
    sasl = given.get("security.protocol", "").lower().startswith("sasl_")
    bearer = sasl and config.kafka.mechanism == OAUTHBEARER
    oidc = given.get("sasl.oauthbearer.method", "").lower() == "oidc"
    unsecured = given.get("enable.sasl.oauthbearer.unsecure.jwt", "").lower() == "true"
    if bearer and not (oidc or unsecured or oauth.command):
        yield Problem("kafka.common.sasl.mechanism", "OAUTHBEARER has no source of tokens",
                      "set kafka.oauth.command, or sasl.oauthbearer.method: oidc with "
                      "sasl.oauthbearer.token.endpoint.url, client.id and client.secret"
                      )  # fmt: skip
    if oauth.command and oidc:
        yield Problem("kafka.oauth.command", "sasl.oauthbearer.method: oidc gets tokens, too",
                      "remove one of the two")  # fmt: skip
    elif oauth.command and not bearer:
        yield Problem("kafka.oauth.command", "a token needs the SASL mechanism OAUTHBEARER",
                      "set kafka.common.security.protocol: sasl_ssl and sasl.mechanism: "
                      "OAUTHBEARER, or leave it out")  # fmt: skip


def _brokers(key: str, properties: Mapping[str, object]) -> Iterator[Problem]:
    # Not quoted: it may come from a file, as secrets do.
    brokers = str(properties.get("bootstrap.servers", "")).split(",")
    for number, broker in enumerate(brokers, 1):
        match = _BROKER.fullmatch(broker.strip())
        if match is None or not 0 < int(match["port"] or 1) < 1 << 16:
            yield Problem(key, f"number {number} of {len(brokers)} is no HOST:PORT",
                          "write it like kafka:9092, with TLS too: TLS is set by security.protocol"
                          )  # fmt: skip


def _timeouts(config: Config) -> Iterator[Problem]:
    for key, value in (("session_timeout", config.kafka.session_timeout),
                       ("transaction_timeout", config.kafka.transaction_timeout)):  # fmt: skip
        if not 1 <= value.total_seconds() <= 900:
            got = f"got {format_duration(value)}; expected 1s to 15m"
            cure = (
                "set it to 10s, the default: brokers refuse more, and less loses the task at "
                "each pause"
            )
            yield Problem(f"kafka.{key}", got, cure)
    stalled, call = config.http.stalled_after, config.kafka.transaction_timeout
    if stalled.total_seconds() >= 1 and stalled <= call:
        got = (
            f"got {format_duration(stalled)}; one call may take as long as "
            f"kafka.transaction_timeout, {format_duration(call)}"
        )
        cure = "set http.stalled_after to several times kafka.transaction_timeout"
        yield Problem("http.stalled_after", got, cure)


def _latency(config: Config) -> Iterator[Problem]:
    if config.batch.latency.total_seconds() > 60:
        yield Problem("batch.latency", f"got {format_duration(config.batch.latency)}; "
                      "expected at most 60s", "set batch.latency: 20ms, the default")  # fmt: skip


def _within(key: str, least: float, most: float, expected: str, default: str) -> CheckOf:
    """Return the check of one number, or of a duration in seconds."""

    def check(config: Config) -> Iterator[Problem]:
        value = attrgetter(key)(config)
        number = value.total_seconds() if isinstance(value, timedelta) else value
        if not least <= number <= most:
            yield Problem(key, f"expected {expected}", f"set {key}: {default}, the default")

    return (key,), check


_CHECKS: tuple[CheckOf, ...] = (
    (("input.topic", "output", "index.changelog", "kafka.group"), _topics),
    (("input.take_over", "index.scope", "cluster.enabled", "kafka.group"), _take_over),
    (("cluster", "index.scope", "input.topics"), _cluster),
    *shapes.CHECKS,
    boilerplate.CHECK,
    (("input.format", "input.text", "input.id", "input.fields", "input.held_out",
      "input.schema_file", "input.registry", "input.framing", "input.message", "verify"), _format),
    (("input.known_id", "input.id", "input.format", "input.empty_text",
      "input.short_text"), _known_ids),
    values.CHECK,
    (("index.backup.target", "index.path"), _backup),
    (("http.query", "http.query_token_file"), _query),
    (("otel.endpoint",), _otel),
    (("kafka.common", "kafka.consumer", "kafka.producer", "kafka.oauth"), _properties),
    _within("kafka.oauth.timeout", 0.1, TIMEOUT_SECONDS_MAX, "100ms to 60s", "10s"),
    _within("kafka.oauth.lifetime", 1, inf, "at least 1s", "5m"),
    (("kafka.session_timeout", "kafka.transaction_timeout", "http.stalled_after"), _timeouts),
    _within("http.stalled_after", 1, inf, "at least 1s", "60s"),
    _within("http.stuck_after", 1, inf, "at least 1s", "5m"),
    (("batch.latency",), _latency),
    _within("limits.document", 0, 1 << 30, "at most 1Gi", "10Mi"),
    _within("batch.bytes", 0, 1 << 30, "at most 1Gi", "8Mi"),
)  # fmt: skip
