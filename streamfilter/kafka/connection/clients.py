"""Creates librdkafka's clients, with the properties that exactly-once delivery depends on.

Besides the admin client there are four kinds:

- the ownership consumer: a group member that holds the changelog's partitions paused;
- the data consumer: it has the same group id and never subscribes;
- the private changelog reader;
- the transactional producer.

Our properties override the operator's. `config.checks.REFUSED_PROPERTIES` lists those that an
operator may not set.
"""

import logging
import time
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from msgspec import Struct

from streamfilter.config.configuration import Config
from streamfilter.kafka.connection import unreachable
from streamfilter.kafka.connection.bearer_tokens import TokenFailure, tokens_of
from streamfilter.kafka.connection.client_problems import problem_of
from streamfilter.process.health import instance
from streamfilter.stops import ConfigError, Problem, Temporary

C = TypeVar("C", AdminClient, Consumer, Producer)

logger = logging.getLogger("streamfilter.kafka")
_librdkafka = logging.getLogger("streamfilter.librdkafka")
unreachable.Listening.to(_librdkafka)

RETRY_BACKOFF_MS = 5  # default: 100, which send_offsets would sleep after nearly every commit
POLL_INTERVAL_MS = 60_000
"""Longest time between two polls of a member (default: 300,000). A group also waits so long for a
member that does not join again, and a member for the reply when it joins. An index of 100 million
documents opens in half of it."""
FETCH_BACKOFF_MS = 20  # default: 1000, so a full local queue would stop fetching for a second
FETCH_WAIT_MS = 50
"""Fetch wait of a changelog reader (default: 500). A partition's end is reported in the response
after the last record's, and a transaction waits for it. A standby sends its broker 20 requests a
second."""
READ_TIMEOUT_MS = 30_000
"""How long a consumer waits for a reply (default: 60,000). A leader that is frozen stops the
reading for so long."""
ASK_TIMEOUT_MS = 10_000
"""The same of the admin client, whose calls last as long. With a longer time, a start asked in vain
on a connection whose replies were lost, until its own time was up."""
FETCH_BYTES_MAX = 1024 * 1024
"""Maximum of one fetch response (default: 50 MiB). At 50 kB/s, 50 MiB would time out and be
requested again forever; 1 MiB takes 21 s."""
REFRESH_MS = 5_000
"""Metadata interval of the admin client (default: 300,000). A response that names no broker makes
it forget the controller. It asks again only at the next refresh, and until then every request
times out. So a start would wait for minutes."""
QUEUE_KBYTES_MIN = 16 * 1024
TASK_QUEUE_KBYTES_MIN = 1024
CAREFUL: dict[str, Any] = {"max.in.flight.requests.per.connection": 1}
"""For a producer whose deliveries are watched: if brokers refused two batches at once, it would
be unknown which reports belong to which batch."""
COOPERATIVE = "cooperative-sticky"
_CLASSIC_ONLY = ("session.timeout.ms", "heartbeat.interval.ms", "partition.assignment.strategy")
_OF_THE_MEMBER = (*_CLASSIC_ONLY, "group.protocol", "group.instance.id", "group.remote.assignor")

Properties = dict[str, Any]


class Sizes(Struct, frozen=True):
    """Bounds on what is produced, in bytes."""

    message: int  # largest record that the producer must accept
    batch: int  # largest batch of records that every topic accepts


_refusals: deque[KafkaError] = deque(maxlen=1)


def refusal() -> KafkaError | None:
    """Return the last authentication or TLS error; the failed calls only say "timed out"."""
    return _refusals[-1] if _refusals else None


def _noticed(error: KafkaError) -> None:
    """Log librdkafka's error callback. Errors that matter are also returned by the calls."""
    if error.code() in (KafkaError._AUTHENTICATION, KafkaError._SSL):
        _refusals.append(error)
    if error.code() != KafkaError._ALL_BROKERS_DOWN:  # it names none of them
        unreachable.hear(error.str())
    _librdkafka.warning("%s: %s", error.name(), error.str())


def _base(config: Config, role: str) -> Properties:
    mine: Properties = {
        "client.id": f"streamfilter-{role}-{instance()}",
        "error_cb": _noticed,
        "logger": _librdkafka,
        "allow.auto.create.topics": False,
    }
    if (tokens := tokens_of(config)) is not None:
        mine["oauth_cb"] = tokens
    return mine


def _milliseconds(seconds: float) -> int:
    return round(seconds * 1000)


def ownership_properties(config: Config) -> Properties:
    theirs = config.kafka.properties("consumer")
    session = _milliseconds(config.kafka.session_timeout.total_seconds())
    mine: Properties = {
        "group.id": config.kafka.group,
        "enable.auto.commit": False,
        "auto.offset.reset": "latest",  # this client reads no changelog records
        "queued.min.messages": 1,
    }
    if theirs.get("group.protocol", "classic").lower() == "classic":
        mine["session.timeout.ms"] = session
        theirs.setdefault("heartbeat.interval.ms", str(max(100, min(3_000, session // 4))))
        # With `range`, a joining standby usually takes the task of a healthy owner.
        theirs.setdefault("partition.assignment.strategy", COOPERATIVE)
    else:
        theirs = {name: value for name, value in theirs.items() if name not in _CLASSIC_ONLY}
    theirs.setdefault("max.poll.interval.ms", str(max(POLL_INTERVAL_MS, session)))
    return {**theirs, **_base(config, "owner"), **mine}


def is_static(properties: Properties) -> bool:
    """Return whether a member with *properties* keeps its place in the group while it restarts."""
    classic = properties.get("group.protocol", "classic").lower() == "classic"
    return classic and bool(properties.get("group.instance.id"))


def _reading_properties(config: Config, role: str) -> Properties:
    theirs = config.kafka.properties("consumer")
    for name in _OF_THE_MEMBER:
        theirs.pop(name, None)
    theirs.setdefault("socket.timeout.ms", str(READ_TIMEOUT_MS))
    theirs.setdefault("fetch.queue.backoff.ms", str(FETCH_BACKOFF_MS))
    largest = int(theirs.get("message.max.bytes", 0))  # librdkafka: fetch.max.bytes at least this
    theirs.setdefault("fetch.max.bytes", str(max(FETCH_BYTES_MAX, largest)))
    return {
        **theirs,
        **_base(config, role),
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "isolation.level": "read_committed",
        "auto.offset.reset": "error",  # stop if retention deleted unread records: no silent jump
    }


def data_properties(config: Config, *, share: int = 1) -> Properties:
    """Return the properties of the input's consumer; *share* tasks divide the queue's memory."""
    queue = max(QUEUE_KBYTES_MIN, 2 * config.batch.bytes // 1024)
    queue = max(TASK_QUEUE_KBYTES_MIN, queue // share)
    return {
        "queued.max.messages.kbytes": queue,
        **_reading_properties(config, "data"),
        "group.id": config.kafka.group,
        "enable.partition.eof": True,  # its offset counts transaction markers
    }


def reader_properties(config: Config) -> Properties:
    return {
        "fetch.wait.max.ms": FETCH_WAIT_MS,
        **_reading_properties(config, "restore"),
        # The group is never joined or committed to; another name would need another ACL.
        "group.id": config.kafka.group,
        "enable.partition.eof": True,
    }


def _writing_properties(config: Config, role: str, *, largest: int, timeout: int) -> Properties:
    """Return those of both producers; a message, and a reply, is waited for *timeout* ms."""
    theirs = config.kafka.properties("producer")
    theirs.setdefault("linger.ms", "0")
    theirs.setdefault("message.max.bytes", str(largest))
    theirs.setdefault("message.timeout.ms", str(timeout))
    # librdkafka refuses a socket timeout above the transaction's. With a lower one, a lost EndTxn
    # reply is noticed in time to replace the producer.
    theirs.setdefault("socket.timeout.ms", str(min(60_000, timeout)))
    return {**theirs, **_base(config, role), "enable.idempotence": True}


def producer_properties(config: Config, *, transactional_id: str, sizes: Sizes) -> Properties:
    timeout = _milliseconds(config.kafka.transaction_timeout.total_seconds())
    return {
        "retry.backoff.ms": str(RETRY_BACKOFF_MS),
        "batch.size": str(sizes.batch),
        **_writing_properties(config, "producer", largest=sizes.message, timeout=timeout),
        "transactional.id": transactional_id,
        "transaction.timeout.ms": timeout,
    }


def signer_properties(config: Config, *, size: int) -> Properties:
    """Return the properties of an edge's producer without transactions, for messages of *size*."""
    timeout = _milliseconds(config.kafka.transaction_timeout.total_seconds())
    return _writing_properties(config, "signer", largest=size, timeout=timeout)


def transactional_id(group: str, task: int) -> str:
    """Return the task's transactional id: unique in the *group*, it fences the task's old owner."""
    return f"{group}.{task}"


def admin_properties(config: Config) -> Properties:
    base = _base(config, "admin")
    base.pop("allow.auto.create.topics")
    theirs = config.kafka.properties("common")
    theirs.setdefault("socket.timeout.ms", str(ASK_TIMEOUT_MS))
    theirs.setdefault("topic.metadata.refresh.interval.ms", str(REFRESH_MS))
    return {**theirs, **base}


def admin_client(config: Config, properties: Properties | None = None) -> AdminClient:
    """Return an admin client. Keep a reference until its futures are done."""
    return _made(config, "common", AdminClient, properties or admin_properties(config))


def consumer(config: Config, properties: Properties) -> Consumer:
    """Return a consumer; its log lines go to our log."""
    return _made(config, "consumer", Consumer, properties)


def producer(config: Config, properties: Properties) -> Producer:
    """Return a producer; its log lines go to our log."""
    properties = {k: v for k, v in properties.items() if k != "allow.auto.create.topics"}
    return _made(config, "producer", Producer, properties)


def plain_producer(config: Config, properties: Properties) -> Producer:
    """Return a producer without transactions, and without the operator's producer properties."""
    theirs = config.kafka.properties("common")
    return producer(config, {**theirs, **_base(config, "feed"), **properties})


def _made(config: Config, kind: str, new: Callable[[Properties], C], properties: Properties) -> C:
    """Return a new client; all are made here. Raise `ConfigError`, or `Temporary` for a token."""
    _refuse_without_token(config)
    try:
        return new(properties)
    except (KafkaException, ValueError, TypeError) as error:
        cause = error.args[0] if error.args else error
        said = cause.str() if isinstance(cause, KafkaError) else str(cause)
    raise ConfigError([problem_of(config, kind, said)])


def _refuse_without_token(config: Config) -> None:
    """Request a token first: a client would wait ten seconds for one, and not report the reason."""
    tokens = tokens_of(config)
    if tokens is None:
        return
    try:
        tokens.current()
    except TokenFailure as failure:
        said = str(failure)
    else:
        return
    raise Temporary(
        f"kafka.oauth.command gives no token: {said}\n    cure: run it by hand as this user, until "
        "it prints a token"
    )


def _any_token(_: str) -> tuple[str, float]:
    """Return what is no token, for clients that never send it: they wait for one when made."""
    return "none", time.time() + 3_600


def validate_properties(config: Config) -> list[Problem]:
    """Return the properties that librdkafka refuses: each client is created once, offline.

    No program is run for a token: these clients connect to nothing.
    """
    oauth = config.kafka.oauth.model_copy(update={"command": None})
    kafka = config.kafka.model_copy(update={"oauth": oauth})
    still = config.model_copy(update={"kafka": kafka})
    tokens = {} if config.kafka.oauth.command is None else {"oauth_cb": _any_token}
    sizes = Sizes(message=1_000_000, batch=1_000_000)
    producing = producer_properties(still, transactional_id="check", sizes=sizes)
    attempts: tuple[Callable[[], Consumer | Producer], ...] = (
        lambda: consumer(still, ownership_properties(still) | tokens),
        lambda: consumer(still, data_properties(still) | tokens),
        lambda: producer(still, producing | tokens),
    )
    refused: list[Problem] = []
    for construct in attempts:
        try:
            client = construct()
        except ConfigError as error:
            refused += error.problems
        else:
            client.close()
    return list(dict.fromkeys(refused))
