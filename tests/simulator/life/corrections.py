"""People who correct the filter: `release` and `replay`, at any moment, killed, two at once.

What runs is production's `engine.corrections` with its verbs. The cause of some dead letters is
mended once, while all processes are down. Then each letter must come back once, and be judged as
the new record that it is.
"""

from __future__ import annotations

import json
import random
from bisect import insort
from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from streamfilter.engine.correction_verbs import LetterReplay, Surroundings, WithheldRelease
from streamfilter.engine.corrections import Bounds, Correction, Verb
from streamfilter.engine.ports import Layout, LogError, Outgoing, Retriable
from streamfilter.matching.verdict.side_records import (
    ATTEMPTS,
    RELEASED,
    SideRecord,
    read_back,
    released_from,
)
from streamfilter.model import Record, Source
from streamfilter.stops import Stop, Temporary
from tests.simulator.cluster.log import INPUT, SimSink
from tests.simulator.cluster.membership import SimClock
from tests.simulator.process import reader
from tests.simulator.texts import pool, scheme
from tests.simulator.world import OUTPUTS, SOCKET_SECONDS, Crash, Life, World
from tests.support.values import replace
from tests.truth.changelog import Failure
from tests.truth.history import DEAD, DUPLICATES, UNIQUE, Input

if TYPE_CHECKING:
    from tests.simulator.story import Story

CORRECTIONS = 1 << 54
ATTEMPTS_MAX = 2
WAITS_MAX = 400
"""Turns of the others that a reader waits for an open transaction."""
TID = "group.corrections"


def mendable(rng: random.Random, one: Input) -> Input:
    """Return *one*, or a letter with a text that only the mended configuration reads."""
    if one.kind != "missing_text" and (one.kind != "document" or rng.random() < 0.8):
        return one
    text = rng.choice(rng.choice(pool()))
    value = json.dumps({"id": one.id, "body": text}).encode()
    record = replace(one.record, value=value)
    return replace(one, record=record, kind="missing_text", text=text)


def recorded(place: Source, sent: Outgoing) -> Record:
    """Return a record of a topic, as a reader of that topic gets it."""
    return Record(place, sent.key, sent.value, sent.headers, sent.timestamp)


class SimSideTopic:
    """`corrections.SideLog`: a side topic, while all the others go on."""

    def __init__(self, world: World, life: Life, topic: str, rng: random.Random) -> None:
        self._world, self._life, self._topic, self._rng = world, life, topic, rng

    def bounds(self) -> Bounds:
        self._world.query(self._life, "ends")
        partitions = self._world.broker.topics[self._topic]
        return {p: (partition.start, partition.end) for p, partition in enumerate(partitions)}

    def records(self, bounds: Bounds) -> Iterator[Record]:
        for p, (start, end) in bounds.items():
            self._world.port(self._life, "read")
            partition = self._world.broker.topics[self._topic][p]
            for _ in range(WAITS_MAX):
                if partition.stable >= end:
                    break
                self._world.others(1)
                self._world.advance(0.1)
            else:
                raise Temporary(f"{self._topic}/{p}: a transaction stays open")
            for offset, sent in partition.committed(start, end):
                if not self._world.calm and self._rng.random() < 0.05:
                    self._world.others(1)
                yield recorded(Source(self._topic, p, offset), sent)

    def original_of(self, side: SideRecord) -> Record | None:
        raise AssertionError("a side topic holds the originals here")


class People:
    """Those who correct the filter of one story, and what they asked for."""

    def __init__(self, story: Story, seed: int) -> None:
        self._story = story
        self.rng = random.Random(seed ^ CORRECTIONS)
        self._count = self._at_once = 0
        self._asked: dict[str, dict[str, Any]] = {}
        """What was to be released, under its words."""
        self._scanned: dict[int, int] = {}

    @property
    def _world(self) -> World:
        return self._story.world

    def begin_one(self) -> None:
        """Begin a correction; it may be killed, or paused while another one begins."""
        if self._at_once >= 2:
            return
        if self._world.shape.corrections == "both" and self.rng.random() < 0.5:
            self._correct(self._replay(), DEAD)
        elif chosen := self._choice():
            self._asked[str(chosen)] = chosen
            self._correct(self._release(chosen), DUPLICATES)

    def _choice(self) -> dict[str, Any]:
        """Choose what is released: by an id, a match, or a place."""
        found = [
            side
            for p, partition in enumerate(self._world.broker.topics[DUPLICATES])
            for offset, sent in partition.committed(0)
            if isinstance(side := read_back(recorded(Source(DUPLICATES, p, offset), sent)),
                          SideRecord)
        ]  # fmt: skip
        if not found:
            return {}
        side = self.rng.choice(found)
        assert side.evidence is not None
        spot = side.source
        return self.rng.choice(
            [
                {"id": side.evidence.id},
                {"matched": side.evidence.matches[0].id},
                {"place": (INPUT, spot.partition, spot.offset)},
            ]
        )

    def _around(self) -> Surroundings:
        world = self._world
        layout = Layout(world.partitions, dict.fromkeys(OUTPUTS, world.partitions))
        limits = dict.fromkeys((*OUTPUTS, INPUT), 1_000_000)
        shape = world.shape
        read = reader(shape.updates, scheme(shape.digests), world.mended).read
        return Surroundings(layout, limits, {INPUT: world.partitions}, (), read)

    def _release(self, chosen: dict[str, Any]) -> Verb:
        return WithheldRelease(self._around(), UNIQUE, "now", **chosen)

    def _replay(self) -> Verb:
        return LetterReplay(self._around(), (), ATTEMPTS_MAX)

    def _correct(self, verb: Verb, topic: str) -> bool:
        """Run a correction; return whether it came to its end."""
        world, self._count, self._at_once = self._world, self._count + 1, self._at_once + 1
        life = Life(f"P{self._count}")
        what = "releases" if topic == DUPLICATES else "replays"
        others = ", beside another" if self._at_once > 1 else ""
        world.tell(life.name, f"{what}{others}")
        sink = SimSink(world, life, 0, tid=TID)
        correction = Correction(SimSideTopic(world, life, topic, self.rng), verb)
        try:
            correction.run(
                sink, partial(self._fence, life, sink), SimClock(world, life), SOCKET_SECONDS
            )
        except Crash:
            world.tell(life.name, f"is killed while it {what}")
            return False
        except (LogError, Stop) as error:
            world.tell(life.name, f"ends: {error}")
            sink.close()
            return False
        finally:
            self._at_once -= 1
        if sent := correction.tally.sent.total():
            world.tell(life.name, f"has sent {sent} records, as it {what}")
        sink.close()
        return True

    def _fence(self, life: Life, sink: SimSink) -> None:
        for _ in range(20):
            try:
                sink.open(watched=True)
                return
            except Retriable:
                self._world.advance(0.1)
        raise Temporary(f"{life.name}: no fence")

    # What comes of it.

    def take_up(self) -> None:
        """Add the letters that came back to the records of the input."""
        if not self._world.shape.corrections:
            return
        for p, partition in enumerate(self._world.broker.topics[INPUT]):
            at = self._scanned.get(p, 0)
            for offset, sent in partition.committed(at):
                if isinstance(sent, Outgoing):
                    record = recorded(Source(INPUT, p, offset), sent)
                    insort(self._story.inputs[p], self._again(record), key=lambda i: i.place)
            self._scanned[p] = max(at, partition.stable)

    def _again(self, record: Record) -> Input:
        name = (dict(record.headers)["h"] or b"").decode()
        known = (each for each in self._story.inputs[record.source.partition])
        first = next(each for each in known if each.name == name)
        return self.received(replace(first, record=record, name=name_of(record.headers)))

    def received(self, one: Input) -> Input:
        """Return *one* as the configuration of now reads it."""
        mended = one.kind == "missing_text" and self._world.mended
        return replace(one, kind="document") if mended else one

    def mend(self) -> None:
        """The cause of the letters without a text is mended, while all processes are down."""
        if self._world.mended:
            return
        self.take_up()
        self._world.mended = True
        self._world.tell("operator", "mends the cause of dead letters")
        for p, known in self._story.inputs.items():
            at = self._story.position(p)
            known[:] = [self.received(each) if each.place[1] >= at else each for each in known]

    def finish(self) -> bool:
        """Ask for everything once more, in peace; return whether letters came back."""
        before = sum(map(len, self._story.inputs.values()))
        for chosen in self._asked.values():
            self._surely(lambda chosen=chosen: self._release(chosen), DUPLICATES)
        if self._world.shape.corrections == "both":
            self._surely(self._replay, DEAD)
        self._world.advance(0.1)  # the markers of the last commit are written
        self.take_up()
        return sum(map(len, self._story.inputs.values())) > before

    def _surely(self, verb: Any, topic: str) -> None:
        if not any(self._correct(verb(), topic) for _ in range(5)):
            raise Failure("stuck", f"no correction of {topic} comes to its end")

    def judge(self) -> None:
        """Hold what was released and sent back against the side topics."""
        if not self._world.shape.corrections:
            return
        topics, owed = self._world.broker.topics, set[Source]()
        verbs = [self._release(chosen) for chosen in self._asked.values()]
        for side in self._sides(DUPLICATES):
            if any(verb.wanted(side) for verb in verbs):
                owed.add(side.record.source)
        released: Counter[Source] = Counter()
        originals = {each.name: each for known in self._story.inputs.values() for each in known}
        for p, partition in enumerate(topics[UNIQUE]):
            for _, sent in partition.committed(0):
                place = released_from(recorded(Source(UNIQUE, p, 0), sent))
                if place is not None:
                    released[place] += 1
                    plain = tuple(each for each in sent.headers if each[0] != RELEASED)
                    given = originals[name_of(plain)].record
                    if (p, sent.key, sent.value, plain, sent.timestamp) != (
                        given.source.partition, given.key, given.value, given.headers,
                        given.timestamp,
                    ):  # fmt: skip
                        raise Failure("released", f"{place} was changed on its way")
        if twice := [place for place, count in released.items() if count > 1]:
            raise Failure("released", f"{twice} were released twice")
        if released.keys() != owed:
            raise Failure("released", f"{released.keys() ^ owed} were not, or not to be released")
        self._judge_letters()

    def _judge_letters(self) -> None:
        if self._world.shape.corrections != "both":
            return
        reading = self._replay()
        inputs = self._story.inputs.values()
        back = Counter(each.name for known in inputs for each in known if "~" in each.name)
        for side in self._sides(DEAD):
            assert side.original is not None
            sent = isinstance(reading.copy(side, side.original), Outgoing)
            base = name_of(side.original.headers).partition("~")[0]
            count = back.pop(f"{base}~{side.attempts + 1}", 0)
            if count != sent:
                raise Failure("replayed", f"{base} came back {count} times, {sent} wanted")
        if any(back.values()):
            raise Failure("replayed", f"{+back} came back from no letter")

    def _sides(self, topic: str) -> Iterator[SideRecord]:
        for p, partition in enumerate(self._world.broker.topics[topic]):
            for offset, sent in partition.committed(0):
                side = read_back(recorded(Source(topic, p, offset), sent))
                if isinstance(side, SideRecord):
                    yield side


def name_of(headers: Any) -> str:
    """Return the name of an input record, by its headers or those of an output: ``0-3~1``."""
    said = dict(headers)
    attempts = said.get(ATTEMPTS) or said.get("__streamfilter.input.attempts")
    return (said["h"] or b"").decode() + (f"~{attempts.decode()}" if attempts else "")
