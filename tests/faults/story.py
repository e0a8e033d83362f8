"""What flows in while things go wrong: stories that come back, soon or late, and broken records.

Edits keep families around the threshold, so that whether B is a duplicate depends on whether A
or A' was judged first: a wrong order, or a memory that lost something, shows as a wrong verdict.
"""

import json
import random
import time
from dataclasses import dataclass, field
from math import inf

from streamfilter.matching.blocking.retention import Retention
from streamfilter.model import Headers
from tests.support.topics import Input

RECENT = 60
FORGOTTEN_WITHIN = 150
"""Records: most come while the one to forget is in the same batch or a recent one."""
FORGED_EVERY = 7
ODD_EVERY, ODD = 400, (100, 101, 130)
"""Of so many records these: two that a broker names together, and one that it does not name."""
EARLY = 200
"""Stories that come back for as long as the run lives."""


def reach_of(retention: Retention, rate: float, speed: int = 0) -> int:
    """Return of how many records stories come back, so that every second one was forgotten."""
    if not retention.limited:
        return RECENT
    by_time = inf if retention.time is None else retention.time / (speed or 1) / 1_000 * rate
    return round(2 * min(by_time, retention.documents or inf))


@dataclass(slots=True)
class Story:
    """An endless stream of records, the same for the same seed but for its timestamps."""

    rng: random.Random
    partitions: int
    odd: bool = False
    """True: now and then timestamps are in microseconds, which outputs refuse."""
    forgets: bool = False
    """True: tombstones ask to forget documents that came a while ago, one in twenty records."""
    reach: int = RECENT
    """Of so many records the stories come back soon."""
    length: int = 1
    """So many times as many words as others have, and as many edits."""
    pace: int = 0
    """Milliseconds from one record's timestamp to the next one's; 0: they are of the present."""
    begun: int = field(default_factory=lambda: time.time_ns() // 1_000_000)
    count: int = 0
    _early: list[list[str]] = field(default_factory=list)
    _recent: list[list[str]] = field(default_factory=list)
    _forgotten: set[int] = field(default_factory=set)

    def take(self, count: int) -> list[Input]:
        """Return the next *count* records."""
        return [self._next() for _ in range(count)]

    def _next(self) -> Input:
        number, self.count = self.count, self.count + 1
        value = self._value(number)
        return Input(
            value,
            key=self._key(number, value),
            partition=self.rng.randrange(self.partitions),
            headers=(("h", b"1"), ("h", None), ("n", str(number).encode()), *self._forged(number)),
            timestamp=self._timestamp(number),
        )

    def _timestamp(self, number: int) -> int:
        now = self.begun + number * self.pace if self.pace else time.time_ns() // 1_000_000
        return now * 1_000 if self._is_odd(number) else now

    def _key(self, number: int, value: bytes | None) -> bytes:
        """Return a key that no other record has: its own, or an id that is to be forgotten once."""
        if self.forgets and value is None and number:
            target = number - self.rng.randint(1, min(number, FORGOTTEN_WITHIN))
            if target not in self._forgotten:
                self._forgotten.add(target)
                return f"d{target}".encode()
        return f"k{number}".encode()

    def _is_odd(self, number: int) -> bool:
        return self.odd and number % ODD_EVERY in ODD

    def _forged(self, number: int) -> Headers:
        """Return, for some, headers that claim to be the filter's."""
        if number % FORGED_EVERY:
            return ()
        claims = {"verdict": "near_duplicate", "match.id": "d0", "error.code": "internal"}
        return tuple((f"__streamfilter.{name}", text.encode()) for name, text in claims.items())

    def _value(self, number: int) -> bytes | None:
        kind, id_ = self.rng.random(), f"d{number}"
        if kind < (0.91 if self.forgets else 0.95):
            return json.dumps({"id": id_, "text": self._text()}).encode()
        if kind < 0.96:
            return None
        if kind < 0.97:
            return json.dumps({"id": id_, "text": " "}).encode()
        if kind < 0.98:
            return json.dumps({"id": id_, "text": "two words"}).encode()
        if kind < 0.99:
            return json.dumps({"id": id_, "body": self._text()}).encode()
        return b"{" + id_.encode()

    def _text(self) -> str:
        rng, kind = self.rng, self.rng.random()
        if self._recent and kind < 0.6:
            words = list(rng.choice(self._early if kind < 0.1 else self._recent))
            for _ in range(self.length if kind < 0.4 else 0):
                words[rng.randrange(len(words))] = f"x{rng.randrange(10_000)}"
        else:
            count = rng.randrange(12, 50) * self.length
            words = [f"w{rng.randrange(100_000)}" for _ in range(count)]
        if len(self._early) < EARLY:
            self._early.append(words)
        self._recent.append(words)
        del self._recent[: -self.reach - 1]
        return " ".join(words)
