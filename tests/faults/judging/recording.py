"""What a run left behind, as values: its inputs, its outputs, its changelog, and what was seen.

The oracle judges a `Recording` and nothing else, so a recorded run can be spoilt on purpose.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from hashlib import blake2b

from confluent_kafka import Consumer, KafkaError, TopicPartition

from streamfilter.model import Record
from tests.support.stage import Stage
from tests.support.topics import as_record, end_offsets, read_committed, start_offsets

POLL_SECONDS = 0.2
SILENT_SECONDS = 10.0
Where = tuple[str, int]
"""Place (``unique``, ``duplicates``, ``dead_letter``) and partition."""


@dataclass(slots=True)
class Recording:
    """Everything that the oracle looks at."""

    inputs: dict[int, list[Record]]
    """By partition, in order of offset."""
    outputs: dict[str, dict[int, list[Record]]]
    """By place and partition, as a reader of committed records gets them."""
    changelog: dict[int, list[tuple[int, bytes]]]
    """By task: (offset, value), committed; also what was cut off meanwhile."""
    starts: dict[int, int] = field(default_factory=dict)
    """By task: where it was cut off."""
    seen: dict[Where, list[tuple[int, bytes]]] = field(default_factory=dict)
    """What a reader saw while it happened: (offset, digest)."""


def digest(record: Record) -> bytes:
    """Return a hash of everything that a record consists of."""
    parts = (record.key, record.value, record.headers, record.timestamp)
    return blake2b(repr(parts).encode(), digest_size=16).digest()


def by_partition(records: list[Record]) -> dict[int, list[Record]]:
    found: dict[int, list[Record]] = {}
    for record in records:
        found.setdefault(record.source.partition, []).append(record)
    return found


def record_run(stage: Stage, watcher: Watcher | None = None) -> Recording:
    """Read everything of *stage* to its end; fail if a transaction is still open."""
    changelog = watcher.changelog if watcher else {}
    for each in read_committed(stage.bootstrap, stage.changelog):
        source = each.source
        changelog.setdefault(source.partition, {})[source.offset] = each.value or b""
    return Recording(
        inputs=by_partition(read_committed(stage.bootstrap, stage.input)),
        outputs={name: by_partition(found) for name, found in stage.outputs().items()},
        changelog={task: sorted(found.items()) for task, found in changelog.items()},
        starts=start_offsets(stage.bootstrap, stage.changelog),
        seen=watcher.seen if watcher else {},
    )


class Watcher:
    """A read_committed reader of all outputs while things go wrong, in a thread of its own.

    It reads the changelog, too: what an index that forgets has cut off cannot be read later.
    """

    def __init__(self, stage: Stage, bootstrap: str, tasks: int = 0) -> None:
        """Begin to read.

        Args:
            stage: whose outputs.
            bootstrap: brokers that the faults of the network spare.
            tasks: whose changelogs may be cut off while it reads.
        """
        self.seen: dict[Where, list[tuple[int, bytes]]] = {}
        self.changelog: dict[int, dict[int, bytes]] = {}
        """By task, then by offset; written by this thread while it lives."""
        self.count = 0
        """Records seen so far, without the changelog's."""
        self.errors: list[str] = []
        self._names = {
            stage.unique: "unique",
            stage.duplicates: "duplicates",
            stage.dead_letter: "dead_letter",
        }
        self._bootstrap = bootstrap
        self._next = {
            (topic, partition): 0
            for topic in self._names
            for partition in end_offsets(bootstrap, topic)
        }
        # The first filter makes it; until then there is nothing to read.
        self._changelog = stage.changelog
        self._next |= {(stage.changelog, task): 0 for task in range(tasks)}
        self._consumer = self._begin()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _begin(self) -> Consumer:
        """Return a consumer that reads on from what was seen."""
        consumer = Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": "test-watcher",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "log_level": 2,
                "fetch.wait.max.ms": 100,
            }
        )
        consumer.assign([TopicPartition(*where, offset) for where, offset in self._next.items()])
        return consumer

    def _run(self) -> None:
        heard = time.monotonic()
        while not self._ending.is_set():
            for message in self._consumer.consume(500, POLL_SECONDS):
                if (error := message.error()) is None:
                    heard = time.monotonic()
                    self._note(as_record(message))
                elif error.code() == KafkaError._AUTO_OFFSET_RESET:
                    self.errors.append(str(error))
            # A consumer whose broker was frozen may get nothing more, and say nothing of it.
            if time.monotonic() - heard > SILENT_SECONDS:
                self._consumer.close()
                self._consumer, heard = self._begin(), time.monotonic()

    def _note(self, record: Record) -> None:
        source = record.source
        self._next[source.topic, source.partition] = source.offset + 1
        if source.topic == self._changelog:
            log = self.changelog.setdefault(source.partition, {})
            log[source.offset] = record.value or b""
            return
        where = self._names[source.topic], source.partition
        self.seen.setdefault(where, []).append((source.offset, digest(record)))
        self.count += 1

    def close(self) -> None:
        self._ending.set()
        self._thread.join(30)
        self._consumer.close()
