"""Cutting off the beginning of a partition."""

from __future__ import annotations

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from streamfilter.kafka.errors import kafka_errors
from streamfilter.kafka.questions import CALL_SECONDS


def trim(admin: AdminClient, spot: TopicPartition) -> None:
    """Let a partition begin at the offset of *spot*; one that begins later stays as it is.

    Raises:
        LogError: the brokers do not answer, or refuse.
    """
    with kafka_errors(
        f"deleting the records of {spot.topic}/{spot.partition} before {spot.offset}"
    ):
        futures = admin.delete_records(
            [spot], request_timeout=CALL_SECONDS, operation_timeout=CALL_SECONDS
        )
        for future in futures.values():
            future.result()
