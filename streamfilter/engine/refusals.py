"""Records that a broker refuses for good: which they are, and what becomes of them.

A record with a timestamp that a topic does not take, or without the key that a compacted topic
wants, fails its transaction, and would fail it again for ever. That is a verdict on the record:
it goes to the dead letters, and the rest of its batch is judged without it, for a document that
was not forwarded may withhold no other.

Which records they are costs a few transactions. The first one only shows that there are some.
The next ones are watched: each delivery is looked at, and a destination is waited for before the
next one gets its records. The reports name the refused ones, or blame a whole batch for one in
it; the suspects are then sent in ever smaller pieces, at last each alone. What was learned is
kept until the records are committed, whatever producers come and go meanwhile; after a crash it
is learned again.

Two refusals are no verdict on a record. A topic that became compacted while we work refuses every
record without a key: the brokers are asked, once, and from then on it is treated as if it had been
so at the start; found one by one, thousands would cost as many transactions. And a record that
bears our own clock's time, of the changelog or a letter of the present, tells of that clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby

from streamfilter.engine.ports import Blame, Outgoing
from streamfilter.model import Positions, Record, Source, noun
from streamfilter.stops import ExitCode, Stop, Temporary

PIECES = 16
"""Into so many the suspects are cut: each is a round trip, each cut a transaction."""
WATCHED_BATCHES = 20
"""Deliveries are watched until so many batches in a row had no refused record: refusals come in
swarms, and a look costs far less than an aborted transaction."""

Place = tuple[int, int]
"""Partition and offset of an input record."""


@noun()
class Item:
    """Something to produce, and the input record that it is made of."""

    out: Outgoing | bytes
    """An output's record, or a changelog's value."""
    place: Place | None
    """None: it is of the whole batch."""

    @property
    def destination(self) -> tuple[str, int]:
        """Return topic and partition; the changelog is empty, and last."""
        return (self.out.topic, self.out.partition) if isinstance(self.out, Outgoing) else ("", 0)

    @property
    def bears_our_time(self) -> bool:
        """Return whether our own clock gives its timestamp, and no input record."""
        # librdkafka takes 0 for none.
        return isinstance(self.out, bytes) or self.out.timestamp <= 0


def place_of(source: Source | None) -> Place | None:
    """Return where *source* stands in the input."""
    return None if source is None else (source.partition, source.offset)


class Refusals:
    """What is known of one task's refused records."""

    def __init__(self, compacted: set[str] | None = None) -> None:
        """Know of none; *compacted* topics take nothing without a key, and are added to."""
        self._compacted = set[str]() if compacted is None else compacted
        self._known: dict[Place, str] = {}
        self._suspects: frozenset[Place] = frozenset()
        self._calm = 0
        self.watching = False
        """True while a producer is to be used whose deliveries are watched."""

    @property
    def known(self) -> Mapping[Place, str]:
        """Return why, by the place of each refused record that is not yet committed."""
        return self._known

    def pieces(self, items: Sequence[Item]) -> Iterator[list[Item]]:
        """Yield *items* in pieces, each to be delivered before the next one is sent.

        Each destination is a piece of its own, its records in their order; of suspects there are
        at most a few in one, and nobody else.
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
        """Take in which topics of records without a key became compacted; return what to say.

        *ask* returns which of the topics that it is given are.
        """
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
        """Take in whom a broker blames among *items*, as produced; return what to say of it.

        Raises:
            Stop: nothing more can be done about one of them.
        """
        self._calm, before = 0, self.watching
        self.watching = True
        if blame is None:
            return "" if before else "deliveries are watched from here on, to find the records"
        blamed = [items[number] for number in blame.numbers]
        if blame.each:
            letters = frozenset(self._known)  # a record that was refused left as one, if at all
            for item in blamed:
                self._refuse(item, blame, letter=item.place in letters)
            self._suspects = frozenset()
            return f"{len(blamed)} records go to the dead letters: {blame.reason}"
        places = frozenset(item.place for item in blamed if item.place is not None)
        narrowed = places & self._suspects
        self._suspects = narrowed if narrowed and len(narrowed) < len(self._suspects) else places
        return f"one record of {len(self._suspects)} is to blame: {blame.reason}"

    def _refuse(self, item: Item, blame: Blame, *, letter: bool) -> None:
        topic, place, reason = item.destination[0] or "the changelog", item.place, blame.reason
        if blame.for_time and item.bears_our_time:
            raise Temporary(
                f"{topic} refuses the present time of this host: {reason}\n"
                "    ways out: mend this host's clock, if it differs from the brokers'; or look at "
                "the topic's message.timestamp.*.max.ms; or give it the brokers' time, with "
                "kafka-configs.sh: message.timestamp.type=LogAppendTime"
            )
        if place is None:
            raise Stop(f"{topic} refuses what belongs to no record: {reason}")
        if letter:
            raise Stop(
                f"topic {topic} refuses the dead letter of {place[0]} at {place[1]}: {reason}; "
                "it must take any record: look at its max.message.bytes and message.timestamp.*",
                exit_code=ExitCode.CONFIG,
            )
        self._known[place] = f"{topic}: {reason}"

    def begin_at(self, positions: Positions) -> None:
        """Forget what is committed: the letter of a refused record too, whose commit had no answer.

        Nobody would take it from the list any more, and deliveries would be watched for ever.
        """

        def waits(place: Place) -> bool:
            return place[1] >= positions.get(place[0], 0)

        self._known = {place: why for place, why in self._known.items() if waits(place)}
        self._suspects = frozenset(filter(waits, self._suspects))

    def committed(self, records: Sequence[Record]) -> bool:
        """Forget what is done with; return True if deliveries need be watched no more."""
        if not self.watching:
            return False
        places = {(record.source.partition, record.source.offset) for record in records}
        refused = self._known.keys() & places
        for place in refused:
            del self._known[place]
        self._suspects -= places
        self._calm = 0 if refused else self._calm + 1
        self.watching = self._calm < WATCHED_BATCHES or bool(self._known)
        return not self.watching
