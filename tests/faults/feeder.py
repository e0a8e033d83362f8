"""Writes a story into the input at a steady rate, whatever happens to the readers of it."""

import threading
import time
from collections.abc import Callable

from confluent_kafka import KafkaError, Producer

from tests.faults.story import Story

TICK_SECONDS = 0.1
CLIENT = "feeder"
FLUSH_SECONDS = 120


class Feeder:
    """A thread that produces; it can rest, and says whether everything was acknowledged."""

    def __init__(self, bootstrap: str, topic: str, story: Story, *, rate: float) -> None:
        """Begin to write *rate* records a second (0: only what `give` gets)."""
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "client.id": CLIENT,
                "enable.idempotence": True,
                "linger.ms": 5,
                "log_level": 2,
            }
        )
        self._topic, self._story, self.rate = topic, story, rate
        self.failed: list[str] = []
        self._lock = threading.Lock()
        self._resting, self._ending = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def count(self) -> int:
        """Return how many records were given so far."""
        return self._story.count

    def _run(self) -> None:
        owed, last = 0.0, time.monotonic()
        while not self._ending.wait(TICK_SECONDS):
            now = time.monotonic()
            owed, last = owed + self.rate * (now - last), now
            if not self._resting.is_set():
                self.give(int(owed))
            owed %= 1.0

    def give(self, count: int) -> None:
        """Write *count* records now."""
        with self._lock:
            for record in self._story.take(count):
                self._produce(
                    lambda record=record: self._producer.produce(
                        self._topic,
                        value=record.value,
                        key=record.key,
                        partition=record.partition,
                        headers=list(record.headers),
                        timestamp=record.timestamp,
                        on_delivery=self._delivered,
                    )
                )
            self._producer.poll(0)

    def _produce(self, produce: Callable[[], None]) -> None:
        while True:
            try:
                return produce()
            except BufferError:
                self._producer.poll(0.1)

    def _delivered(self, error: KafkaError | None, _: object) -> None:
        if error is not None:
            self.failed.append(error.str())

    def rest(self) -> None:
        """Stop writing, and return when everything is acknowledged."""
        self._resting.set()
        with self._lock:
            left = self._producer.flush(FLUSH_SECONDS)
        assert left == 0, f"{left} records were not acknowledged"
        assert not self.failed, self.failed

    def go_on(self) -> None:
        self._resting.clear()

    def close(self) -> None:
        self._ending.set()
        self._thread.join(30)
