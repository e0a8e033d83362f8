"""Which of three nodes has a role now: the ones whose loss is felt differently.

| role                    | who has it                                                        |
|-------------------------|-------------------------------------------------------------------|
| leader of the input     | the leader of its first partition                                 |
| group coordinator       | the leader of the partition of `__consumer_offsets` of the group  |
| transaction coordinator | the leader of that of `__transaction_state` of the id             |
| controller              | the leader of the quorum, as the nodes' own files have it         |
"""

from __future__ import annotations

import json

from confluent_kafka.admin import AdminClient

from deploy.local.node import Node
from deploy.local.real import RealKafka
from tests.support.stage import Stage

ROLES = ("leader of the input", "group coordinator", "transaction coordinator", "controller")
ASK_SECONDS = 20


def node_with(role: str, kafka: RealKafka, stage: Stage) -> Node:
    """Return the node that has *role* for the filters of *stage* now."""
    return next(node for node in kafka.nodes if node.number == _number(role, kafka, stage))


def _number(role: str, kafka: RealKafka, stage: Stage) -> int:
    if role == "controller":
        return _controller(kafka)
    if role == "leader of the input":
        return _leader(kafka, stage.input, 0)
    group = role == "group coordinator"
    topic = "__consumer_offsets" if group else "__transaction_state"
    return _leader(kafka, topic, _hash(stage.group if group else f"{stage.group}.0"))


def _leader(kafka: RealKafka, topic: str, number: int) -> int:
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap, "log_level": 2})
    partitions = admin.list_topics(topic, timeout=ASK_SECONDS).topics[topic].partitions
    leader: int = partitions[number % len(partitions)].leader
    return leader


def _hash(text: str) -> int:
    """Return what Java's `Utils.abs(text.hashCode())` is."""
    value = 0
    for character in text:
        value = (31 * value + ord(character)) & 0xFFFFFFFF
    return value & 0x7FFFFFFF if value != 0x80000000 else 0


def _controller(kafka: RealKafka) -> int:
    """Return the leader in the youngest epoch that any node has written down."""
    found = []
    for node in kafka.nodes:
        path = node.directory / "data" / "__cluster_metadata-0" / "quorum-state"
        if path.exists():
            state = json.loads(path.read_text())
            found.append((state["leaderEpoch"], state["leaderId"]))
    leader: int = max(found)[1]
    return leader
