"""Finds the records that a broker refuses for good, and sends them to the dead-letter topic.

A topic may refuse a record for its timestamp, or a compacted topic for a missing key. Such a
record fails its transaction, and every retry of it. So the record goes to the dead-letter topic,
and its batch is judged without it. A document that was not forwarded must not withhold another.

Finding these records takes a few transactions. The first one only shows that there are some. The
next ones are watched: every delivery is checked, and each destination is flushed before the next
one gets its records. A delivery report names the refused records, or blames a whole producer
batch for one of them. The suspects are then sent in smaller and smaller pieces, down to one
record. The findings survive a new producer, until the records are committed. After a crash they
are found again.

Two refusals are no fault of the record:

- A topic became compacted during the run, and refuses every record without a key. The brokers
  are asked once, and the topic then counts as compacted. Found one by one, thousands of records
  would cost thousands of transactions.
- The refused timestamp is from our own clock (changelog records, dead letters stamped now). Then
  the clock is wrong, and the process stops.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby

from msgspec import Struct

from streamfilter.engine.ports import Blame, Outgoing
from streamfilter.model import Positions, Record, Source
from streamfilter.stops import ExitCode, Stop, Temporary

PIECES = 16
"""The suspects are cut into so many pieces. Each piece costs a round trip, each cut a
transaction."""
WATCHED_BATCHES = 20
"""Deliveries are watched until so many batches in a row had no refused record: refusals come in
swarms, and a look costs far less than an aborted transaction."""

Place = tuple[int, int]  # number and offset of an input record


class Item(Struct, frozen=True):
    """Something to produce, and the input record that it is made of."""

    out: Outgoing | bytes  # an output's record, or a changelog's value
    place: Place | None  # None: it belongs to the whole batch

    @property
    def destination(self) -> tuple[str, int]:
        """Return topic and partition; the changelog has an empty name, and is sent last."""
        return (self.out.topic, self.out.partition) if isinstance(self.out, Outgoing) else ("", 0)


def place_of(source: Source | None) -> Place | None:
    return None if source is None else (source.number, source.offset)


class Refusals:
    """The refused records of one task, and the suspects."""

    def __init__(self, compacted: set[str] | None = None) -> None:
        """Begin without refused records; *compacted* topics need keys, and the set may grow."""
        self._compacted = set[str]() if compacted is None else compacted
        self.known: dict[Place, str] = {}
        """The reason by place, for each refused record that is not yet committed."""
        self._suspects: frozenset[Place] = frozenset()
        self._calm = 0
        self.watching = False  # whether transactions need a producer that is watched

    def pieces(self, items: Sequence[Item]) -> Iterator[list[Item]]:
        """Yield *items* in pieces, each to be delivered before the next one is sent.

        A piece has one destination and keeps the order of its records. Suspects are in pieces of
        their own, a few in each: of 32 suspects, 2 in a piece (`PIECES`).
        """
        outputs = sorted(items, key=lambda item: (not item.destination[0], item.destination))
        size = max(1, len(self._suspects) // PIECES)
        for _, group in groupby(outputs, key=lambda item: item.destination):
            for suspicious, run in groupby(group, key=lambda item: item.place in self._suspects):
                left = list(run)
                cut = size if suspicious else len(left)
                yield from (left[at : at + cut] for at in range(0, len(left), cut))

    def learn_compacted(
        self, items: Sequence[Item], ask: Callable[[Iterable[str]], list[str]]
    ) -> str:
        """*ask* for compacted topics of records without a key; return a log message."""
        outs = (item.out for item in items)
        keyless = {out.topic for out in outs if isinstance(out, Outgoing) and out.key is None}
        topics = sorted(keyless - self._compacted)
        found = ask(topics) if topics else []
        self._compacted.update(found)
        return (
            f"{', '.join(found)} became compacted: no record without a key goes there any more"
            if found
            else ""
        )

    def learn(self, items: Sequence[Item], blame: Blame | None) -> str:
        """Note which of *items* a broker blames; return a log message, or raise `Stop`."""
        self._calm, before = 0, self.watching
        self.watching = True
        if blame is None:
            return "" if before else "deliveries are watched from here on, to find the records"
        blamed = [items[number] for number in blame.numbers]
        if blame.each:
            letters = frozenset(self.known)  # a record refused before was now sent as a letter
            for item in blamed:
                self._refuse(item, blame, letter=item.place in letters)
            self._suspects = frozenset()
            return f"{len(blamed)} records go to the dead letters: {blame.reason}"
        places = frozenset(item.place for item in blamed if item.place is not None)
        if not places:
            self._refuse(blamed[0], blame, letter=False)
        narrowed = places & self._suspects
        self._suspects = narrowed if narrowed and len(narrowed) < len(self._suspects) else places
        return f"one record of {len(self._suspects)} is to blame: {blame.reason}"

    def _refuse(self, item: Item, blame: Blame, *, letter: bool) -> None:
        topic, place, reason = item.destination[0] or "the changelog", item.place, blame.reason
        # Our own clock's time: librdkafka reads 0 as "no timestamp".
        ours = isinstance(item.out, bytes) or item.out.timestamp <= 0
        if blame.for_time and ours:
            raise Temporary(
                f"{topic} refuses the present time of this host: {reason}\n"
                "    ways out: mend this host's clock, if it differs from the brokers'; or look at "
                "the topic's message.timestamp.*.max.ms; or give it the brokers' time, with "
                "kafka-configs.sh: message.timestamp.type=LogAppendTime"
            )
        if place is None:
            raise Temporary(
                f"{topic} refuses what belongs to no single record: {reason}\n    cure: raise the "
                "topic's max.message.bytes; or start again, since a start reads the limit"
            )
        if letter:
            raise Stop(
                f"topic {topic} refuses the dead letter of {place[0]} at {place[1]}: {reason}; "
                "it must take any record: look at its max.message.bytes and message.timestamp.*",
                exit_code=ExitCode.CONFIG,
            )
        self.known[place] = f"{topic}: {reason}"

    def begin_at(self, positions: Positions) -> None:
        """Drop records before *positions*: committed, even if a commit had no answer."""

        def waits(place: Place) -> bool:
            return place[1] >= positions.get(place[0], 0)

        self.known = {place: why for place, why in self.known.items() if waits(place)}
        self._suspects = frozenset(filter(waits, self._suspects))

    def committed(self, records: Sequence[Record]) -> bool:
        """Drop the committed *records*; return True if deliveries need no watching any more."""
        if not self.watching:
            return False
        places = {(record.source.number, record.source.offset) for record in records}
        refused = self.known.keys() & places
        for place in refused:
            del self.known[place]
        self._suspects -= places
        self._calm = 0 if refused else self._calm + 1
        self.watching = self._calm < WATCHED_BATCHES or bool(self.known)
        return not self.watching
