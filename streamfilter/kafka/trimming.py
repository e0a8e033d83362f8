"""Deletes the beginning of a partition (DeleteRecords), without waiting for the brokers.

A broker answers only once every replica that is up has deleted the records too. While a replica
catches up, each request times out, although the leader has deleted them. A caller that waited for
the answer would be blocked as long.
"""

from __future__ import annotations

import time
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

from confluent_kafka import KafkaException, TopicCollection, TopicPartition
from confluent_kafka import admin as _admin
from confluent_kafka.admin import AdminClient

from streamfilter.config.configuration import Config
from streamfilter.engine.ports import Watermarks
from streamfilter.kafka.broker_queries import CALL_SECONDS, OffsetSpec, bounds_of
from streamfilter.kafka.errors import kafka_errors
from streamfilter.kafka.one_shot_calls import asked_once
from streamfilter.stops import Problem

ASK_SECONDS = 5.0
AclOperation: Any = _admin.AclOperation  # type: ignore[attr-defined]  # exported without types


def changelog_bounds(config: Config, admin: AdminClient, tasks: int) -> list[Watermarks]:
    """Return the first offset and the end of each changelog partition.

    Raises:
        Stop: the cluster does not answer (`Temporary`), or refuses us.
    """
    spots = [TopicPartition(config.changelog_topic, task) for task in range(tasks)]
    with asked_once():
        return [bounds_of(admin, spot) for spot in spots]


def warnings_of_rights(config: Config, admin: AdminClient) -> list[Problem]:
    """Return a warning if the right to delete changelog records is missing.

    If the brokers do not report our rights, there is no warning.
    """
    name = config.changelog_topic
    with asked_once(), kafka_errors(f"asking for the rights to topic {name}"):
        answers = admin.describe_topics(
            TopicCollection([name]),
            include_authorized_operations=True,
            request_timeout=CALL_SECONDS,
        )
        rights = answers[name].result().authorized_operations
    if not rights or AclOperation.DELETE in rights:
        return []
    got = f"topic {name!r} grows for ever: DELETE is missing, and what is forgotten stays in it"
    cure = f"kafka-acls.sh --add --allow-principal User:... --operation Delete --topic {name}"
    return [Problem("index.changelog", got, cure, warning=True)]


class FirstOffset:
    """The first offset of a partition, requested every `ASK_SECONDS` without waiting."""

    def __init__(self, admin: AdminClient, topic: str, partition: int) -> None:
        self._admin, self._spot = admin, TopicPartition(topic, partition)
        self._known, self._ask_at = -1, time.monotonic() + ASK_SECONDS
        self._answer: Future[Any] | None = None

    def known(self) -> int:
        """Return the first offset of the last answer; -1: no answer yet."""
        if self._answer is None and time.monotonic() >= self._ask_at:
            self._ask_at = time.monotonic() + ASK_SECONDS
            (self._answer,) = self._admin.list_offsets(
                {self._spot: OffsetSpec.earliest()}, request_timeout=CALL_SECONDS
            ).values()
        if self._answer is not None and self._answer.done():
            with suppress(KafkaException):
                self._known = self._answer.result().offset
            self._answer = None
        return self._known


class Cut:
    """Deletes the first records of one partition."""

    def __init__(self, admin: AdminClient, topic: str, partition: int) -> None:
        self._admin, self._topic, self._partition = admin, topic, partition
        self._asked: tuple[int, Future[Any]] | None = None

    def reached(self, before: int) -> bool:
        """Return True if a broker confirmed the deletion up to *before*; if not, request it.

        Only one request is open at a time: the answer to an earlier one comes first.

        Raises:
            LogError: the brokers did not answer the last request, or refused it.
        """
        with kafka_errors(
            f"deleting the records of {self._topic}/{self._partition} before {before}"
        ):
            offset, answer = self._asked = self._asked or (before, self._ask(before))
            if not answer.done():
                return False
            self._asked = None
            answer.result()
        return offset >= before

    def _ask(self, before: int) -> Future[Any]:
        spot = TopicPartition(self._topic, self._partition, before)
        answers: dict[TopicPartition, Future[Any]] = self._admin.delete_records(
            [spot], request_timeout=CALL_SECONDS, operation_timeout=CALL_SECONDS
        )
        (answer,) = answers.values()
        return answer
