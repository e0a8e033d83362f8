"""Task ownership: a process owns a task while the group assigns it the task's changelog partition.

The consumer subscribes to the changelog topic for its assignment only, and pauses all assigned
partitions. Callbacks run inside `poll` only, and only take notes. The binding then assigns by
itself, with the protocol that the group agreed on. A callback must never raise, so it contains no
code that could.
"""

import struct
from contextlib import suppress

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from streamfilter.engine.ports import InputLost, Member, Moves, Retriable
from streamfilter.kafka.connection.clients import logger
from streamfilter.kafka.connection.errors import kafka_errors, translated
from streamfilter.kafka.ports.unowned_partitions import UnownedPartitions
from streamfilter.killpoints import kill_point

MAGIC = b"CGMDv2:"


def parse_member(metadata: bytes) -> Member:
    """Return generation and member id; raise `ValueError` for an unknown librdkafka's layout."""
    fixed = len(MAGIC) + 4
    fields = metadata[fixed:].split(b"\0")
    if not metadata.startswith(MAGIC) or len(fields) < 3:
        raise ValueError("consumer group metadata has an unknown layout; use another librdkafka")
    (generation,) = struct.unpack_from("<i", metadata, len(MAGIC))
    return Member(generation, fields[1].decode(errors="replace"), metadata)


_HARMLESS = frozenset(
    {
        KafkaError._PARTITION_EOF,
        KafkaError._MAX_POLL_EXCEEDED,  # the same poll has called on_lost
        KafkaError._AUTO_OFFSET_RESET,
    }
)


class GroupMembership:
    """`streamfilter.engine.ports.Membership` on the ownership consumer."""

    def __init__(
        self, consumer: Consumer, changelog: str, unowned: UnownedPartitions | None = None
    ) -> None:
        """Join; *unowned*, of a static member, finds what a rebalance has left without an owner."""
        self._consumer, self._unowned = consumer, unowned
        self._what = f"keeping ownership by {changelog}"
        self._gained: set[int] = set()
        self._gone: set[int] = set()
        self._lost = self._joined = False
        self._topic = changelog
        self._subscribe()

    def _subscribe(self) -> None:
        with kafka_errors(self._what):
            self._consumer.subscribe(
                [self._topic],
                on_assign=self._on_assign,
                on_revoke=self._on_revoke,
                on_lost=self._on_lost,
            )

    def _on_assign(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self._gained |= {partition.partition for partition in partitions}
        self._joined = True
        kill_point("start.given")

    def _on_revoke(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        gone = {partition.partition for partition in partitions}
        self._gone |= gone
        self._gained -= gone
        if self._unowned is not None:
            self._unowned.again()
        kill_point("close.revoked")

    def _on_lost(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._on_revoke(consumer, partitions)
        self._lost = True

    def poll(self, timeout: float) -> Moves:
        self._serve(timeout)
        if self._joined and self._unowned and (unowned := self._unowned.look()):
            self._join_again(sorted(unowned))
        while self._gained or self._gone or self._lost:
            moves = Moves(frozenset(self._gained), frozenset(self._gone), self._lost)
            # A partition may have been revoked again by now; then there is nothing to pause.
            with suppress(KafkaException):
                self._consumer.pause(self._consumer.assignment())
            self._serve(0)  # an assign often follows a revoke at once
            if moves == Moves(frozenset(self._gained), frozenset(self._gone), self._lost):
                self._gained, self._gone, self._lost = set(), set(), False
                return moves
        return Moves()

    def _join_again(self, unowned: list[int]) -> None:
        """Leave the group and join it: the rebalance gives the *unowned* partitions to members."""
        logger.warning(
            "%s: partitions %s have no owner after a rebalance that was cut short; this process "
            "leaves the group and joins again",
            self._topic,
            unowned,
        )
        with kafka_errors(self._what):
            self._consumer.unsubscribe()  # a static member leaves only so
        self._subscribe()

    def _serve(self, timeout: float) -> None:
        with kafka_errors(self._what):
            message = self._consumer.poll(timeout)
        error = message.error() if message is not None else None
        if error is None or error.code() in _HARMLESS:
            return
        trouble = translated(error, self._what)
        # For a moment, some brokers do not know a changelog that was just created. If one is
        # deleted, `topic_watch.TopicsWatch` reports it.
        if isinstance(trouble, Retriable | InputLost):
            logger.debug("%s", trouble)
            return
        raise trouble

    def member(self) -> Member:
        with kafka_errors(self._what):
            return parse_member(self._consumer.consumer_group_metadata())

    def close(self) -> None:
        with kafka_errors(self._what):
            self._consumer.close()
