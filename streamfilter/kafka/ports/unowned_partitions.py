"""Finds partitions that the group gives to no member, after a static member died in a rebalance.

A cooperative rebalance moves a partition in two steps: its owner revokes it and joins again, and
the next assignment gives it away. A static member that dies between the two and returns within its
session gets the assignment of the first step again, without a rebalance (KIP-345). So the partition
has no owner until the next rebalance, whatever its reason.

Example: a owns 0 and 1, and b joins. Step 1 assigns 0 to a, and nothing to b. Then a dies and
returns: it owns 0, and 1 has no owner.

The same happens without a death: a member without a coordinator for its whole session gives its
partitions up, and the coordinator returns without having missed it.

So each static member looks after it has joined, and after it has lost a partition. If a partition
has no owner, it leaves the group and joins again.

The group is asked with `list_groups`. librdkafka's newer call aborts the process if the connection
to the coordinator is cut meanwhile (librdkafka#4605).
"""

import struct
from collections.abc import Callable, Iterable
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from streamfilter.engine.clock_and_worker import Aside
from streamfilter.engine.ports import Clock, NotReady
from streamfilter.kafka.connection.clients import logger

LOOK_SECONDS = 2.0
"""Between two looks. An owner that lives joins again meanwhile, and the group is not stable."""
ANSWER_SECONDS = 5.0
STABLE = "Stable"
Partitions = frozenset[int]
NONE: Partitions = frozenset()


class UnownedPartitions:
    """Looks at a group until all partitions have owners, or some have none twice in a row."""

    def __init__(
        self, admin: AdminClient, clock: Clock, group: str, topic: str, partitions: int
    ) -> None:
        """Look at *group*, which assigns the *partitions* of *topic*."""
        self._admin, self._clock, self._group, self._topic = admin, clock, group, topic
        self._all, self._before = frozenset(range(partitions)), NONE
        self._answer: Callable[[], Partitions | None] | None = None
        self._aside, self._next_at, self._done = Aside(), 0.0, False

    def again(self) -> None:
        """Look again: who owns which partition has changed."""
        self._before, self._done = NONE, False

    def look(self) -> Partitions:
        """Return the partitions that have no owner, once that is certain. It never waits."""
        if self._done or self._clock.monotonic() < self._next_at:
            return NONE
        if self._answer is None:
            self._answer = self._aside.begin(self._ask)
            return NONE
        try:
            unowned = self._answer()
        except NotReady:
            return NONE
        self._answer, self._next_at = None, self._clock.monotonic() + LOOK_SECONDS
        before, self._before = self._before, unowned or NONE
        self._done = unowned is not None and unowned in (NONE, before)
        return before & self._before if self._done else NONE

    def _ask(self) -> Partitions | None:
        """Return the partitions without an owner; None: not known, or there is a rebalance."""
        try:
            groups = self._admin.list_groups(self._group, timeout=ANSWER_SECONDS)
            return next((self._unowned(each) for each in groups if each.state == STABLE), None)
        except (KafkaException, struct.error, UnicodeDecodeError) as error:
            logger.debug("asking for the group %s: %s", self._group, error)
            return None

    def _unowned(self, group: Any) -> Partitions:
        owned = (assigned(member.assignment, self._topic) for member in group.members)
        return self._all.difference(*owned)


def assigned(assignment: bytes, topic: str) -> Iterable[int]:
    """Return the partitions of *topic* in an *assignment* as the group's leader has encoded it.

    It is a version, the number of topics, and for each its name and its partitions; then user data.
    """
    if not assignment:
        return
    (topics,) = struct.unpack_from(">i", assignment, 2)
    at = 6
    for _ in range(topics):
        (length,) = struct.unpack_from(">h", assignment, at)
        name = assignment[at + 2 : at + 2 + length].decode()
        (count,) = struct.unpack_from(">i", assignment, at + 2 + length)
        at += 6 + length
        if name == topic:
            yield from struct.unpack_from(f">{count}i", assignment, at)
        at += 4 * count
