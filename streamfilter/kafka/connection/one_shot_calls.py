"""Asks brokers for their topics, and ends a one-shot command that gets no answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from confluent_kafka import KafkaError
from confluent_kafka.admin import AdminClient

from streamfilter.config.configuration import Config
from streamfilter.engine.ports import LogError, Retriable
from streamfilter.kafka.connection import unreachable
from streamfilter.kafka.connection.clients import refusal
from streamfilter.kafka.connection.errors import kafka_errors, stops
from streamfilter.process.broker_wait import Waiting
from streamfilter.stops import Refused, Stop, Temporary

T = TypeVar("T")

CALL_SECONDS = 10.0
LOOK_SECONDS_MIN = 0.2


def listed(config: Config, admin: AdminClient, *, seconds: float = CALL_SECONDS) -> dict[str, Any]:
    """Return all topics that the brokers show us.

    It requests all topics: a request by name creates the topic on brokers that allow that. Raises
    `LogError`: the cluster does not answer, or refuses us.
    """
    try:
        with kafka_errors("asking the brokers for their topics"):
            return admin.list_topics(timeout=seconds).topics
    except Retriable as error:
        said = str(error)
    admin.poll(0)  # runs the error callback, which records the reason
    raise Retriable(f"{said}; {unreachable.explained(config)}")


def brokers_of(admin: AdminClient) -> int:
    """Return how many brokers there are. Raises `LogError`: they do not answer."""
    with kafka_errors("asking for the brokers"):
        return len(admin.list_topics(timeout=CALL_SECONDS).brokers)


@contextmanager
def asked_once(*, cure: str | None = None) -> Iterator[None]:
    """Turn a `LogError` into a `Stop`; without a *cure*, with that for unreachable brokers."""
    with stops():
        try:
            with unreachable.Listening.only():
                yield
        except Retriable as error:
            if cure is not None:
                raise Temporary(f"{error}\n    cure: {cure}") from error
            raise unanswered(error, str(error)) from error


def awaited(config: Config, call: Callable[[float], T]) -> T:
    """Return what *call* returns; repeat it for ``kafka.start_timeout``, as `run` does.

    *call* gets the seconds that it may take. Wrong credentials end the wait at once. Raises `Stop`:
    no broker answers (`Temporary`), or they refuse us.
    """
    patience = Waiting(config.kafka.start_timeout.total_seconds())

    def look() -> T:
        return call(min(CALL_SECONDS, max(patience.left, LOOK_SECONDS_MIN)))

    with asked_once():
        return patience.awaited(look, Retriable, hopeless=lambda _: refusal() is not None)


def unanswered(error: LogError, message: str) -> Stop:
    """Return the `Stop` for brokers that did not answer: *message*, with the reason if known.

    The operator must correct a wrong password. A refused certificate may be the broker's own and
    is replaced there, so a later retry can succeed.
    """
    refused = refusal()
    if refused is None:
        return Temporary(f"{message}\n    cure: {unreachable.cure()}")
    if refused.code() == KafkaError._AUTHENTICATION:
        cure = unreachable.cure_of(refused.str(), "mend the credentials")
        return Refused(f"no broker let us in: {refused.str()} ({error}); {cure}")
    return Temporary(f"no broker could be trusted: {refused.str()} ({error})")
