"""Cutting off the beginning of a partition. The brokers are asked, and never waited for.

A broker answers only once every replica that is not down has cut as well: while one of them
catches up each request times out, though the leader has cut long since. Who waited for the answer
would stand still for as long.
"""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from streamfilter.kafka.errors import kafka_errors
from streamfilter.kafka.questions import CALL_SECONDS


class Cut:
    """Lets one partition begin later."""

    def __init__(self, admin: AdminClient, topic: str, partition: int) -> None:
        self._admin, self._topic, self._partition = admin, topic, partition
        self._asked: tuple[int, Future[Any]] | None = None

    def reached(self, before: int) -> bool:
        """Return whether the partition is known to begin at *before*; ask for it if it is not.

        One request is out at a time: while an earlier one is, its answer comes first.

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
