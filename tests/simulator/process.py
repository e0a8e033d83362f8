"""One process: production's service on simulated ports, started again as a supervisor would."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any, TypeVar

from streamfilter.documents.reader import Reader
from streamfilter.engine import start_checks
from streamfilter.engine.batches.batch_preparation import Incoming
from streamfilter.engine.batches.breaker import Breaker
from streamfilter.engine.batches.inputs import Inputs
from streamfilter.engine.batches.pace import Pace
from streamfilter.engine.batches.refusals import Refusals
from streamfilter.engine.filter_observer import FilterObserver
from streamfilter.engine.messages.forwarding import Destinations, Forwarder, Style
from streamfilter.engine.observer import Observer
from streamfilter.engine.parts import BatchLimits, Parts
from streamfilter.engine.ports import Layout, Membership
from streamfilter.engine.start_checks import Names
from streamfilter.engine.trimming import Trimming
from streamfilter.index.directory.identity import Identity
from streamfilter.index.format import FORMAT
from streamfilter.index.input_table import NUMBERS_MAX, Seed
from streamfilter.index.protocol import Index
from streamfilter.index.rocks.options import Memory
from streamfilter.matching.batch import Rules
from streamfilter.matching.verdict.policy import MatchPolicy
from streamfilter.model import SEEDS_FROM, Source
from streamfilter.process.health import State
from streamfilter.quality.live.audit import Rates
from streamfilter.quality.live.audit_scan import Round
from streamfilter.similarity.scheme import Scheme
from streamfilter.similarity.text.normalisation import UNICODE_VERSION
from streamfilter.stops import ExitCode, Stop
from streamfilter.tasks.index_backups import IndexBackups
from streamfilter.tasks.plan import Plan
from streamfilter.tasks.service import Service
from streamfilter.tasks.standby import Standby, Standbys
from streamfilter.tasks.task import Task
from tests.simulator.cluster.log import CHANGELOG, INPUT, SimChangelog, SimSink, SimSource
from tests.simulator.cluster.membership import SimClock, SimMembership
from tests.simulator.disk import Disk, SimStore
from tests.simulator.life.backups import Beside, SimBackupObserver, SimTarget
from tests.simulator.life.seeds import SimSeed, reading
from tests.simulator.texts import SEED, THRESHOLD, scheme
from tests.simulator.world import SOCKET_SECONDS, TRANSACTION_SECONDS, Crash, Failure, Life, World
from tests.support.values import replace
from tests.truth.changelog import SEED_NAMES
from tests.truth.history import DEAD, DUPLICATES, UNIQUE

T = TypeVar("T")

CANDIDATES = 3
AUDITED = Rates(arrivals=0.5, time=1.0)
"""The audit has all the time it asks for, and may change nothing by it."""
LATENCY = 0.02


class Teller(Observer):
    """An observer that tells the story; nothing the engine does may depend on it."""

    def __init__(self, world: World, life: Life) -> None:
        self._world, self._life = world, life

    def loudly(self, message: str) -> None:
        self._world.tell(self._life.name, f"! {message}")

    def reading(self, exist: int, missing: int) -> None:
        """Only a metric says which topics of a pattern are read."""

    def stuck(self, task: str, reason: str) -> None:
        """Nothing in this world makes a consumer get nothing for ever: that would be false."""
        if reason:
            self._world.fail("stuck", f"{self._life.name} accuses itself: {task} {reason}")

    def note(self, message: str) -> None:
        if self._world.trace:
            self._world.tell(self._life.name, f"  {message}")

    def enter(self, state: State, detail: str = "") -> None:
        if detail.startswith("brokers do not know yet of"):
            self._world.tell(self._life.name, detail)

    def _nothing(self, *_: Any, **__: Any) -> None:
        """Metrics and health are tested where they are made."""

    transaction = rebalanced = owning = restoring = alive = spent = _nothing
    committed = at = left = followed = _nothing


class FilterTeller(FilterObserver):
    """The same for what only a filter has."""

    def __init__(self, world: World, life: Life) -> None:
        self._world, self._life = world, life
        self.process = Teller(world, life)

    def audited(self, found: Round) -> None:
        """Verdicts rest on sets here, so whatever is withheld was rightly withheld."""
        self._world.rounds += 1
        if found.results["false_positive"]:
            self._world.fail("audit", f"{self._life.name} doubts its own verdicts: {found.results}")

    def _nothing(self, *_: Any, **__: Any) -> None:
        """See `Teller`."""

    moved = holding = closed = occupying = trimmed = changelog_fault = identified = _nothing


class SimWorker:
    """`ports.Worker`: work is done at once, or when its result is asked for; no one may tell."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def begin(self, call: Callable[[], T]) -> Callable[[], T]:
        result = cache(call)
        if self._rng.random() < 0.5:
            result()
        return result


@dataclass(slots=True)
class Process:
    """A name, its disks, and at most one life at a time."""

    world: World
    name: str
    disks: list[Disk] = field(init=False)
    life: Life | None = None
    service: Service | None = None
    exits: list[tuple[int, str]] = field(default_factory=list)
    _lives: int = 0

    def __post_init__(self) -> None:
        shape = self.world.shape
        widths = scheme(shape.digests).widths
        memory = Memory(run_keys=shape.run_keys, fan=shape.fan)
        self.disks = [
            Disk(f"{self.name}/{n}", widths=widths, cap=shape.cap, memory=memory)
            for n in range(shape.tasks)
        ]

    @property
    def up(self) -> bool:
        return self.life is not None and not self.life.dead

    @property
    def free(self) -> bool:
        """True if it may take a step: it runs, and is not paused in the middle of one."""
        return self.life is not None and self.up and not self.life.paused

    def start(self, *, accept_positions: bool = False, rewrites: bool = False) -> None:
        self._lives += 1
        retention = self.world.retention()
        life = Life(
            f"{self.name}{self._lives}",
            accept_positions=accept_positions,
            rewrites=rewrites,
            retention=retention,
        )
        world = self.world
        life.reads_seeds = bool(world.seeds) and not world.calm and world.seeding.random() < 0.4
        self.life = life
        kept = f", and keeps {retention}" if retention.limited else ""
        self.world.tell(life.name, f"starts{kept}")
        self._guarded(life, lambda: self._begin(life))

    def _begin(self, life: Life) -> None:
        topics, offsets = self.world.broker.topics, self.world.broker.offsets
        if CHANGELOG not in topics:
            # What `kafka.service_start` does before there is a service.
            start_checks.refuse_lost_changelog(self._names(0), dict(offsets))
            self.world.broker.create(CHANGELOG, self.world.shape.tasks)
        membership, clock = SimMembership(self.world, life), SimClock(self.world, life)
        self.service = Service(
            membership,
            lambda number, index: self._task(life, number, index, membership, clock),
            Teller(self.world, life),
            clock,
            latency=LATENCY,
            standbys=self._standbys(life, clock),
            tasks=self.world.shape.tasks,
            look=lambda: self.world.layout(life),
        )

    def turn(self) -> None:
        """Let the service take one turn of its loop."""
        life, service = self.life, self.service
        assert life is not None
        assert service is not None
        self._guarded(life, service.turn)
        if life.seeds is not None and life.seeds.done and self.life is life:
            old = life.seeds._counts.old
            too = f", and {old} lines are too old" if old else ""
            self.world.tell(life.name, f"has read the seeds{too}")
            self.stop()

    def stop(self) -> None:
        """Ask it to finish and leave, as SIGTERM does."""
        life = self.life
        assert life is not None

        def finish() -> None:
            self._close()
            self._exit(life, 0, "asked to stop")

        self._guarded(life, finish)

    def _close(self) -> None:
        if self.service is not None:
            self.service.close()

    def _guarded(self, life: Life, what: Any) -> None:
        try:
            try:
                what()
            except Stop as stop:
                self._close()  # as `Service.run` does
                self._exit(life, stop.exit_code, str(stop))
        except Crash:
            self._power_cut()
        except Failure:
            raise
        except Exception as error:
            raise Failure("bug", f"{life.name} raised {error!r}") from error
        if life.dead and self.life is life:
            self.life = self.service = None

    def _power_cut(self) -> None:
        if not self.world.chance("power_cut"):
            return
        for disk in self.disks:
            if lost := disk.cut(self.world.rng):
                self.world.tell(self.name, f"loses the last {lost} writes of {disk.name}")

    def _exit(self, life: Life, code: int, message: str) -> None:
        self.world.tell(life.name, f"exits with {code}: {message}")
        self.world.kill(life)
        self.exits.append((code, message))
        self.world.checks.exited(life.name, ExitCode(code), message)

    # The engine.

    @property
    def _scheme(self) -> Scheme:
        return scheme(self.world.shape.digests)

    @property
    def _seeds(self) -> tuple[Seed, ...]:
        """Return the seeds that this life reads; the first has the highest number."""
        reads = self.life is not None and self.life.reads_seeds
        return tuple(map(Seed, SEED_NAMES)) if reads else ()

    def _names(self, number: int) -> Names:
        inputs = Inputs("topics", several=self.world.shape.several, seeds=self._seeds)
        return Names("group", INPUT, f"{CHANGELOG}/{number}", self.disks[number].name, inputs)

    def _standbys(self, life: Life, clock: SimClock) -> Standbys:
        shape = self.world.shape
        if not shape.hot:
            return Standbys()

        def standby(number: int) -> Standby:
            plan, store = self._plan(life, number), SimStore(self.world, life, self.disks[number])
            changelog = SimChangelog(self.world, life, number)
            teller = FilterTeller(self.world, life)
            return Standby(plan, changelog, store, teller, clock, self._backups(life, plan, clock))

        return Standbys(range(shape.tasks), standby)

    def _plan(self, life: Life, number: int) -> Plan:
        return Plan(
            number=number,
            names=self._names(number),
            scheme=self._scheme,
            bucket_cap=self.world.shape.cap,
            start="earliest",
            accept_positions=life.accept_positions,
            new_identity=lambda: _identity(self.world.rng, self._scheme),
            rewrite_changelog=life.rewrites,
        )

    def _task(
        self,
        life: Life,
        number: int,
        index: Index | None,
        membership: SimMembership,
        clock: SimClock,
    ) -> Task:
        plan = self._plan(life, number)
        if index is not None:
            stands = index.progress.changelog_offset
            end = self.world.broker.topics[CHANGELOG][number].end
            self.world.tell(life.name, f"takes over with an index at {stands} of {end}")
        parts = self._parts(life, plan, membership, clock)
        if life.reads_seeds:
            lines = [self.world.seeds[n] for n in sorted(self.world.seeds, reverse=True)]
            readers = [
                SimSeed(name, [each.record for each in one], self.world.seeding)
                for name, one in zip(SEED_NAMES, lines, strict=True)
            ]
            parts = reading(parts, readers)
            life.seeds = parts.seeds
        store = SimStore(self.world, life, self.disks[number])
        return Task(plan, parts, store, index, self._backups(life, plan, clock))

    def _backups(self, life: Life, plan: Plan, clock: SimClock) -> IndexBackups | None:
        if not self.world.shape.backups:
            return None
        process: Any = Teller(self.world, life)
        process.clock = clock
        target: Any = SimTarget(self.world, life, self.disks[plan.number])
        beside = Beside(self.world.objects.rng)
        return IndexBackups(plan, target, SimBackupObserver(process), beside)

    def _parts(self, life: Life, plan: Plan, membership: Membership, clock: SimClock) -> Parts:
        shape, number = self.world.shape, plan.number
        changelog, teller = SimChangelog(self.world, life, number), FilterTeller(self.world, life)
        several = plan.names.inputs if self.world.shape.several else None
        return Parts(
            source=SimSource(self.world, life, number, several),
            sink=SimSink(self.world, life, number, several),
            changelog=changelog,
            layout=partial(self.world.ask_layout, life),
            rates=AUDITED,
            retention=life.retention,
            member=membership.member,
            clock=clock,
            observer=teller,
            trimming=Trimming(changelog, clock, teller, plan.names.changelog),
            incoming=Incoming(
                reader(shape.updates, self._scheme, self.world.mended),
                _destinations(self.world.partitions),
                refusals=Refusals(),
            ),
            forwarder=_forwarder(self.world.partitions, self._scheme),
            rules=Rules(policy(shape.updates, self._scheme), partial(_locate, several)),
            inputs=several or Inputs(INPUT, seeds=self._seeds),
            bounds=BatchLimits(
                documents=shape.batch,
                size=1_000_000,
                latency=LATENCY,
                transaction_seconds=TRANSACTION_SECONDS,
                socket_seconds=SOCKET_SECONDS,
            ),
            breaker=Breaker(1.0),
            pace=Pace(clock, TRANSACTION_SECONDS),
            worker=SimWorker(self.world.rng),
        )


@cache
def policy(updates: bool, scheme: Scheme) -> MatchPolicy:
    return MatchPolicy(
        threshold=THRESHOLD,
        max_candidates=CANDIDATES,
        short_text="exact_only",
        known_id="update" if updates else "judge",
        agree_on=scheme.agree_on,
        also_same=scheme.also_same,
    )


@cache
def reader(updates: bool, scheme: Scheme, mended: bool) -> Reader:
    return Reader(
        text=("/text", "/body") if mended else "/text",
        tombstones="forget",
        updates=updates,
        values=scheme.pointers,
        scoped=scheme.scope,
    )


@cache
def _destinations(partitions: int) -> Destinations:
    topics = (UNIQUE, DUPLICATES, DEAD)
    return Destinations(
        unique=UNIQUE,
        duplicates=DUPLICATES,
        dead_letter=DEAD,
        limits=dict.fromkeys(topics, 1_000_000),
    )


def _locate(several: Inputs | None, number: int, offset: int) -> Source:
    """Return the source as the world names it: a partition, even if that is a topic of its own."""
    if number >= SEEDS_FROM:
        return Source(SEED_NAMES[NUMBERS_MAX - 1 - number], number, offset)
    partition = number if several is None else int(several.spot(number)[0][1:])
    return Source(INPUT, partition, offset)


class Placing(Forwarder):
    """Keeps the partition of the world."""

    def begin(self, layout: Layout, writer: bytes = b"") -> None:
        super().begin(replace(layout, topics=()))


@cache
def _forwarder(partitions: int, scheme: Scheme) -> Forwarder:
    outputs = dict.fromkeys((UNIQUE, DUPLICATES, DEAD), partitions)
    style = Style(False, "annotate", scheme.fingerprint, THRESHOLD)
    return Placing(_destinations(partitions), style, Layout(partitions, outputs))


def _identity(rng: random.Random, scheme: Scheme) -> Identity:
    """Return an identity with an id of its own; the seed is the pool's, so sketches compare."""
    return Identity(
        index_id=rng.randbytes(16).hex(),
        format=FORMAT,
        scheme_fingerprint=scheme.fingerprint,
        scheme=scheme.as_json(),
        seed=SEED,
        created=0,
        unicode_version=UNICODE_VERSION,
    )
