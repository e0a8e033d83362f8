"""`release` and `replay` on scripted ports: each record once, at every call that may be the last.

The log has transactions and a fence, as Kafka has them (`tests/kafka/test_corrections.py`).
"""

from collections.abc import Callable, Collection, Iterator, Sequence

import pytest

from streamfilter.engine import corrections
from streamfilter.engine.correction_verbs import LetterReplay, Surroundings, WithheldRelease
from streamfilter.engine.corrections import Bounds, Correction
from streamfilter.engine.messages.forwarding import Destinations, Forwarder
from streamfilter.engine.ports import (
    Abortable,
    Blame,
    Layout,
    Outgoing,
    ProducerFenced,
    RecordsRefused,
    Retriable,
)
from streamfilter.matching.verdict.side_records import SideRecord
from streamfilter.model import (
    Decision,
    Document,
    ErrorCode,
    Headers,
    Malformed,
    Match,
    Reading,
    Record,
    Source,
    Verdict,
)
from tests.engine.scripted import FakeClock
from tests.engine.world import STYLE
from tests.support.cases import cases
from tests.support.values import replace

COUNT = 7
BAD = Malformed(ErrorCode.MISSING_TEXT, "no text")
HEADERS: Headers = (("h", None), ("__streamfilter.released", b"forged"), ("h", b"2"))
LAYOUT = Layout(2, {"unique": 2, "duplicates": 2, "dead": 2})
SIDE = {"release": "duplicates", "replay": "dead"}


class Killed(BaseException):
    """What comes instead of the next call."""


class Broker:
    """Committed records by topic and partition; every second offset of a side topic is a marker."""

    def __init__(self) -> None:
        self.topics: dict[tuple[str, int], list[Record]] = {}
        self.epoch = 0

    def put(self, out: Outgoing) -> None:
        spot = self.topics.setdefault((out.topic, out.partition), [])
        place = Source(out.topic, out.partition, 2 * len(spot))
        spot.append(Record(place, out.key, out.value, out.headers, out.timestamp))

    def of(self, topic: str) -> list[Record]:
        return [each for (name, _), all_ in self.topics.items() if name == topic for each in all_]


class Port:
    """One process's sink and side log; *before* is called with the number of each call."""

    def __init__(self, broker: Broker, topic: str, before: Callable[[int], None]) -> None:
        self.broker, self.topic, self.before = broker, topic, before
        self.calls = self.epoch = 0
        self.refuses: set[int] = set()
        self.names_each = True
        self.delivers = COUNT * 9  # records of a transaction; more are too slow
        self.fails_at = 0  # the call to commit that must be repeated

    def _call(self) -> None:
        self.calls += 1
        self.before(self.calls)

    def open(self, *, watched: bool = False) -> None:
        self._call()
        self.broker.epoch += 1
        self.epoch = self.broker.epoch

    def begin(self) -> None:
        self._call()
        self.outs: list[Outgoing] = []

    def produce(self, records: Sequence[Outgoing]) -> None:
        self._call()
        self.outs += records

    def flush(self) -> int:
        self._call()
        if len(self.outs) > self.delivers:
            raise Abortable(f"{len(self.outs)} records were not delivered")
        bad = [n for n, out in enumerate(self.outs) if out.timestamp in self.refuses]
        if bad:
            blame = Blame(
                tuple(bad) if self.names_each else (0, 1), self.names_each, f"TOO_NEW: {self.calls}"
            )
            raise RecordsRefused(f"TOO_NEW at call {self.calls}", blame)
        return -1

    def commit(self) -> None:
        self._call()
        if self.calls == self.fails_at:
            raise Retriable("no answer yet")
        if self.epoch != self.broker.epoch:
            raise ProducerFenced("fenced")
        for out in self.outs:
            self.broker.put(out)
        self._call()  # killed after the commit

    def bounds(self) -> Bounds:
        self._call()
        found = {p: len(all_) for (name, p), all_ in self.broker.topics.items()
                 if name == self.topic}  # fmt: skip
        return {partition: (0, 2 * count) for partition, count in found.items()}

    def records(self, bounds: Bounds) -> Iterator[Record]:
        for partition, (start, end) in bounds.items():
            for each in self.broker.topics[self.topic, partition]:
                if start <= each.source.offset < end:
                    yield each

    def original_of(self, side: SideRecord) -> Record | None:
        return given()[side.source.offset] if side.source.offset % 2 else None


def given() -> list[Record]:
    return [
        Record(Source("in", n % 2, n), b"k%d" % n, b"v%d" % n, HEADERS, 1_000 + n)
        for n in range(COUNT)
    ]


def forwarder(mode: str = "annotate") -> Forwarder:
    to = Destinations("unique", "duplicates", "dead", dict.fromkeys(LAYOUT.outputs, 10_000))
    return Forwarder(to, replace(STYLE, duplicates_mode=mode), LAYOUT)


def stage(verb: str, mode: str = "annotate") -> Broker:
    """Return the side topic of the verb; a record of others is behind each of ours."""
    broker = Broker()
    match = Match("original", 0.9, 3, Source("in", 0, 99), 0)
    near = Decision(Verdict.NEAR_DUPLICATE, matches=(match,))
    outcome = near if verb == "release" else BAD
    for record in given():
        out = forwarder(mode).output(record, outcome, f"d{record.source.offset}")
        assert out is not None
        broker.put(out)
        broker.put(replace(out, headers=(), value=b"another's"))
    return broker


def reading(record: Record) -> Reading:
    return Document(f"d{record.source.offset}", "text")


def correction(
    verb: str,
    port: Port,
    read: Callable[[Record], Reading] = reading,
    compacted: Collection[str] = (),
) -> Correction:
    limits = dict.fromkeys(("unique", "in"), 10_000)
    around = Surroundings(LAYOUT, limits, {"in": 2}, compacted, read)
    made = LetterReplay(around, (), 3)
    release = WithheldRelease(around, "unique", "now", matched="original")
    done = Correction(port, release if verb == "release" else made)
    done._most = 2  # several transactions
    return done


def send(verb: str, broker: Broker, before: Callable[[int], None] = lambda _: None) -> Correction:
    port = Port(broker, SIDE[verb], before)
    done = correction(verb, port)
    done.run(port, port.open, FakeClock(), 9)  # type: ignore[arg-type]  # it has the calls that are made
    return done


def came(verb: str, broker: Broker) -> list[tuple[int, bytes | None, bytes | None, Headers, int]]:
    found = broker.of("unique" if verb == "release" else "in")
    return sorted((each.source.partition, each.key, each.value, each.headers[:-1], each.timestamp)
                  for each in found)  # fmt: skip


def wanted() -> list[tuple[int, bytes | None, bytes | None, Headers, int]]:
    return sorted((each.source.partition, each.key, each.value, each.headers, each.timestamp)
                  for each in given())  # fmt: skip


@pytest.mark.parametrize("verb", SIDE)
def test_a_kill_at_any_call_and_a_second_run_send_each_record_once(verb: str) -> None:
    last = 0
    for at in range(1, 100):
        broker = stage(verb)

        def before(call: int, at: int = at) -> None:
            if call == at:
                raise Killed

        try:
            send(verb, broker, before)
            last = at
            break
        except Killed:
            pass
        again = send(verb, broker)
        assert came(verb, broker) == wanted()
        assert again.tally.sent.total() + again.tally.before == COUNT
        assert (again.tally.noted, again.tally.foreign) == (again.tally.before, COUNT)
    assert last > 20, "it did not come to its end"


@pytest.mark.parametrize("verb", SIDE)
def test_two_at_once_send_each_record_once_and_the_first_is_fenced(verb: str) -> None:
    fenced = 0
    for at in range(1, 30):
        broker = stage(verb)

        def before(call: int, at: int = at, broker: Broker = broker) -> None:
            if call == at:
                send(verb, broker)

        try:
            send(verb, broker, before)
        except ProducerFenced:
            fenced += 1
        assert came(verb, broker) == wanted()
    assert fenced > 10


@cases("names_each", [True, False])
@cases("between", [0, 1, 2])
def test_a_refused_record_stays_and_the_others_are_sent_once(
    names_each: bool, between: int
) -> None:
    """A new producer fences again. A release that came between has sent the rest by then."""
    broker, refuses, opened = stage("release"), {1_003, 1_004}, 0

    def release(fenced: Callable[[], None]) -> Correction:
        port = Port(broker, "duplicates", lambda _: None)
        port.refuses, port.names_each = refuses, names_each
        done = correction("release", port)

        def fence() -> None:
            fenced()
            port.open()

        done.run(port, fence, FakeClock(), 9)  # type: ignore[arg-type]
        return done

    def another() -> None:
        nonlocal opened
        opened += 1
        if between and opened == between:
            release(lambda: None)

    done = release(another)
    assert opened > 1
    assert done.tally.stays == {"near_duplicate: the output refuses it: TOO_NEW": 2}
    assert came("release", broker) == [each for each in wanted() if each[-1] not in refuses]


def test_each_refused_record_is_progress_however_many_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(corrections, "ROUNDS_MAX", 2)
    broker = stage("release")
    port = Port(broker, "duplicates", lambda _: None)
    port.refuses, port.names_each = {*range(1_000, 1_005)}, False
    done = correction("release", port)
    done.run(port, port.open, FakeClock(), 9)  # type: ignore[arg-type]
    assert done.tally.stays == {"near_duplicate: the output refuses it: TOO_NEW": 5}
    assert [each[-1] for each in came("release", broker)] == [1_006, 1_005]


def test_a_record_without_a_key_stays_before_a_compacted_topic_refuses_it() -> None:
    broker = stage("release")
    for spot, records in broker.topics.items():
        broker.topics[spot] = [replace(each, key=None) for each in records]
    done = correction("release", Port(broker, "duplicates", lambda _: None), reading, {"unique"})
    done.preview()
    reason = "near_duplicate: it has no key, and unique is compacted (cleanup.policy)"
    assert (done.tally.stays, done.tally.sent) == ({reason: COUNT}, {})


def test_after_a_commit_that_was_repeated_a_new_producer_sends_the_rest_once() -> None:
    """A request of the repeated commit may be in flight, and end a later transaction."""
    broker, opened = stage("release"), [0]
    port = Port(broker, "duplicates", lambda _: None)
    port.fails_at = 7

    def fence() -> None:
        opened[0] += 1
        port.open()

    done = correction("release", port)
    done.run(port, fence, FakeClock(), 9)  # type: ignore[arg-type]
    assert (came("release", broker), opened, done.tally.before) == (wanted(), [2], 0)


@pytest.mark.parametrize("verb", SIDE)
def test_what_is_not_delivered_in_time_is_sent_in_smaller_transactions(verb: str) -> None:
    broker = stage(verb)
    port = Port(broker, SIDE[verb], lambda _: None)
    port.delivers = 2  # a record and its note
    done = correction(verb, port)
    done._most = COUNT
    done.run(port, port.open, FakeClock(), 9)  # type: ignore[arg-type]
    assert (came(verb, broker), done.tally.sent.total()) == (wanted(), COUNT)
    port.broker, port.delivers = stage(verb), 1
    with pytest.raises(Abortable, match="2 records were not delivered"):
        correction(verb, port).run(port, port.open, FakeClock(), 9)  # type: ignore[arg-type]


def test_a_reference_is_read_at_its_source_and_stays_if_that_is_gone_or_another() -> None:
    broker = stage("release", "reference")
    done = send("release", broker)
    assert [each[-1] for each in came("release", broker)] == [1_001, 1_003, 1_005]
    assert done.tally.stays.total() == 4
    broker = stage("release", "reference")
    port = Port(broker, "duplicates", lambda _: None)
    done = correction("release", port, lambda _: Document("of a topic made anew", "text"))
    done.run(port, port.open, FakeClock(), 9)  # type: ignore[arg-type]
    assert not came("release", broker)
    assert done.tally.stays["near_duplicate: the input has another record in its place"] == 3


def test_a_letter_that_would_fail_again_stays_and_attempts_are_counted_to_their_bound() -> None:
    broker = stage("replay")
    port = Port(broker, "dead", lambda _: None)
    deep = Malformed(ErrorCode.TOO_DEEP, "deep")
    done = correction("replay", port, lambda _: deep)
    done.run(port, port.open, FakeClock(), 9)  # type: ignore[arg-type]
    assert done.tally.stays == {"missing_text: it would fail again: too_deep": COUNT}
    for attempts in (1, 2, 3):
        send("replay", broker)
        back = broker.topics.pop(("in", 0))[0]
        assert back.headers == (*HEADERS, ("__streamfilter.attempts", b"%d" % attempts))
        out = forwarder().output(replace(back, source=Source("in", 0, 0)), BAD)
        assert out is not None
        broker.put(out)
    assert send("replay", broker).tally.stays == {
        "missing_text: sent back 3 times already (--attempts)": 1
    }
