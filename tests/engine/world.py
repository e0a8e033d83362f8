"""A service on scripted ports, and its outputs where nothing goes wrong."""

import json
import random
from collections.abc import Sequence
from functools import partial

from streamfilter.documents.reader import Reader
from streamfilter.engine.batches.batch_preparation import Incoming
from streamfilter.engine.batches.breaker import Breaker
from streamfilter.engine.batches.pace import Pace
from streamfilter.engine.batches.refusals import Refusals
from streamfilter.engine.clock_and_worker import Inline
from streamfilter.engine.filter_observer import FilterObserver
from streamfilter.engine.messages.forwarding import Destinations, Forwarder, Style
from streamfilter.engine.observer import Observer
from streamfilter.engine.parts import BatchLimits, Parts
from streamfilter.engine.ports import (
    Layout,
    Moves,
    Worker,
)
from streamfilter.engine.start_checks import Names
from streamfilter.engine.trimming import Trimming
from streamfilter.index.directory.identity import Identity, decode_identity
from streamfilter.index.errors import DiskFull, IndexLocked
from streamfilter.index.format import FORMAT
from streamfilter.index.memory import MemoryIndex
from streamfilter.index.protocol import Applied, Changes, Index
from streamfilter.matching.batch import Rules
from streamfilter.matching.blocking.retention import UNLIMITED, Retention
from streamfilter.matching.pipeline import MatchPolicy
from streamfilter.model import InputTopic, Source
from streamfilter.monitoring.metrics import Metrics
from streamfilter.process.health import Health
from streamfilter.quality.live.audit import Rates
from streamfilter.similarity.scheme import Scheme
from streamfilter.tasks.plan import Plan
from streamfilter.tasks.service import Service
from streamfilter.tasks.standby import Standby
from streamfilter.tasks.task import Task
from tests.engine.scripted import FakeClock, FakeMembership, ScriptedLog
from tests.kafka.story import texts

SEED = 20_261_126
SCHEME = Scheme(bands=16, rows=6)
STYLE = Style(False, "annotate", SCHEME.fingerprint, 0.8)
GAINED = Moves(gained=frozenset({0}))
TRANSACTION = ["begin", "produce", "produce", "flush", "send_offsets", "commit"]
STORIES = texts(random.Random(SEED), 40)
VALUES = [json.dumps({"id": f"d{n}", "text": text}).encode() for n, text in enumerate(STORIES)]


class FullIndex(MemoryIndex):
    """An index whose disk is full for some writes."""

    full = 0

    def __init__(self, *args, **kwargs) -> None:
        super().__init__(*args, **kwargs)
        self.tried: list[Changes] = []

    def apply(self, changes: Changes) -> Applied:
        self.tried.append(changes)
        if self.full:
            self.full -= 1
            raise DiskFull("the disk is full")
        return super().apply(changes)


class MemoryStore:
    """A store that survives its tasks."""

    where = "memory"
    full = 0
    """So many times there is no room to open the index."""
    locked = False
    """True: another process has it open."""

    def __init__(self) -> None:
        self.index = FullIndex(SCHEME.widths)
        self._identity: Identity | None = None

    def identity(self) -> Identity | None:
        return self._identity

    def decode(self, encoded: bytes) -> Identity:
        return decode_identity(encoded)

    def open(self, identity: Identity) -> FullIndex:
        if self.full:
            self.full -= 1
            raise DiskFull("the disk is full")
        if self.locked:
            raise IndexLocked("process 7 has this index open")
        self._identity = identity
        return self.index

    def wipe(self) -> None:
        self.index, self._identity = FullIndex(SCHEME.widths), None


class World:
    """A service on scripted ports."""

    def __init__(
        self,
        *,
        batch: int = 10,
        worker: Worker | None = None,
        latency: float = 0.02,
        values: Sequence[bytes] | None = None,
        reader: Reader | None = None,
        style: Style = STYLE,
        dead: str | None = "dead",
        changelog_limit: int | None = None,
        retention: Retention = UNLIMITED,
        trimming: Trimming | None = None,
        fixed: bool = False,
    ) -> None:
        self._retention, self._trimming, self._fixed = retention, trimming, fixed
        self.names = Names("group", "in", "changelog/0", "memory")
        self.index_id, self.bucket_cap = "00" * 16, 8
        self._worker, self._latency, self._style = worker or Inline(), latency, style
        self.clock = FakeClock()
        self.log = ScriptedLog(VALUES if values is None else list(values), self.clock)
        self._reader = reader or Reader()
        self.membership = FakeMembership(self.clock)
        self.membership.moves.append(GAINED)
        self.store = MemoryStore()
        self.health = Health(clock=self.clock.monotonic)
        self.metrics = Metrics(self.health)
        self._batch = batch
        self.topics: tuple[InputTopic, ...] = ()
        self.outputs = outputs = {"unique": 1, "duplicates": 1, "dead": 1}
        limits = dict.fromkeys(outputs, 1_000_000)
        self._to = Destinations(
            "unique", "duplicates", dead, limits, changelog_limit=changelog_limit
        )
        process = Observer(self.metrics, self.health, self.clock)
        self._observer = FilterObserver(process, self._to)
        self.service = Service(
            self.membership, self._task, process, self.clock, latency=latency, look=self._layout
        )

    def _layout(self) -> Layout:
        return Layout(1, self.outputs, topics=self.topics)

    def _task(self, number: int, index: Index | None) -> Task:
        parts = Parts(
            source=self.log,
            sink=self.log,
            changelog=self.log,
            layout=self._layout,
            member=self.membership.member,
            clock=self.clock,
            observer=self._observer,
            incoming=Incoming(
                self._reader, self._to, self._style.shadow, refusals=Refusals(self._to.compacted)
            ),
            forwarder=Forwarder(self._to, self._style, self._layout()),
            rules=Rules(MatchPolicy(), partial(Source, "in")),
            bounds=BatchLimits(self._batch, 1 << 20, self._latency, 10.0, 10.0),
            breaker=Breaker(0.5),
            pace=Pace(self.clock, 10.0, fixed=self._fixed),
            worker=self._worker,
            retention=self._retention,
            rates=Rates(arrivals=1.0),
            trimming=self._trimming,
        )
        return Task(self.plan(number), parts, self.store, index)

    def plan(self, number: int = 0) -> Plan:
        """Return the settings of a task."""
        identity = Identity(
            self.index_id, FORMAT, SCHEME.fingerprint, SCHEME.as_json(), bytes(16), 0, "15"
        )
        return Plan(
            number, self.names, SCHEME, self.bucket_cap, "earliest", False, lambda: identity
        )

    def standby(self) -> Standby:
        """Return what follows the changelog into an index of its own."""
        return Standby(self.plan(), self.log, self.store, self._observer, self.clock)

    def turn(self, times: int = 1) -> None:
        for _ in range(times):
            self.service.turn()

    def until(self, offset: int) -> None:
        """Take turns until *offset* is committed."""
        for _ in range(200):
            if self.log.offsets.get(0) == offset:
                return
            self.turn()
        raise AssertionError(f"{offset} was never committed: {self.log.calls[-20:]}")

    def result(self) -> list[tuple[str, bytes | None]]:
        return [(out.topic, out.value) for out in self.log.outputs]


def undisturbed() -> World:
    world = World()
    world.until(40)
    return world


def assert_as_undisturbed(world: World, *, changelog: bool = True) -> None:
    world.until(40)
    world.turn(3)  # whatever is owed
    calm = undisturbed()
    assert world.result() == calm.result()
    assert not changelog or world.log.changelog[1:] == calm.log.changelog[1:]
    assert world.store.index.progress.positions == {0: 40}
    assert len(world.store.index) == len(calm.store.index)
