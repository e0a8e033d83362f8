"""Time, chance and death: everything that is not the engine asks here what happens next."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from streamfilter.engine.batches.seeding import SeedSource
from streamfilter.engine.ports import Layout, Retriable
from streamfilter.matching.blocking.retention import UNLIMITED, Retention
from streamfilter.model import InputTopic
from tests.simulator.cluster.broker import Broker
from tests.simulator.cluster.group import Group, Seat
from tests.support.values import replace
from tests.truth.changelog import Failure
from tests.truth.history import DEAD, DUPLICATES, UNIQUE, Input

CALL_SECONDS = 0.002
"""What any call takes."""
TRANSACTION_SECONDS = 5.0
SOCKET_SECONDS = 1.0
SESSION_SECONDS = 3.0
HEARSAY_SECONDS = 60.0
"""How long it takes until all brokers have heard of a new partition. It is far longer than in life:
in some stories an owner has heard of it, and its successor has not."""
PAUSES = (0.05, 1.0, 2.0, 4.0, 8.0)
"""How long a process may be paused: up to beyond every timeout."""

FAR_FUTURE = 10**15
"""A record's timestamp that an output may refuse."""
LIMITS = 1 << 40
AGES, STAMPS, GROWTHS = 1 << 41, 1 << 42, 1 << 44
TEMPLATES, SEVERAL = 1 << 43, 1 << 48
UPDATES = 1 << 46
WITHIN = 1 << 48
DIGESTS = 1 << 49
SEEDS = 1 << 51
WRITES, RUNS = 1 << 52, 1 << 53
LIFE = 1 << 55
LIVELY, DATED = 0.15, 0.3
"""Shares of worlds with corrections, of those with backups, and of seeds with timestamps."""
STORED = (
    ("scope /tenant",), ("agree /date",), ("scope /tenant", "agree /date"), ("also /url",),
    ("also /url",), ("agree /date", "also /url"), ("scope /tenant", "also /date", "also /url"),
)  # fmt: skip
"""What some worlds store beside a text."""
TEMPLATE = {"template": True, "cap": 1, "documents": 64, "batch": 8, "thin": None, "tasks": 1,
            "forgets": 0.0, "retentions": (UNLIMITED,)}  # fmt: skip
"""A world in which buckets split twice: nine documents fill a key and the next longer one."""
MERGING = {"documents": 30, "batch": 3, "steps": 120, "thin": None, "tasks": 1,
           "processes": 1, "run_keys": 5, "fan": 2}  # fmt: skip
"""A world that lasts until runs of the index are merged, and in which processes die meanwhile."""
BEGINNING = 1_000_000
"""Milliseconds since the epoch: when the world begins."""
MAD = (-1, 0, 16_725_225_600_000)
"""Timestamps: none, of 1970, of 2500."""
OUTPUTS = (UNIQUE, DUPLICATES, DEAD)

FAULTS = {
    # name: rates to choose from, when the seed has this fault at all; per call of its kind
    "crash": (0.002, 0.01, 0.03),  # of any call on a port
    "pause": (0.002, 0.01, 0.03),
    "power_cut": (0.3,),  # of crashes
    "commit_lost": (0.05, 0.3),  # the request is lost, late, or only its reply is
    "commit_unknown": (0.02, 0.15),
    "commit_slow": (0.02, 0.15),
    "abort_lost": (0.1, 0.4),
    "init_lost": (0.05, 0.3),
    "offsets_lost": (0.02, 0.2),
    "produce_fails": (0.02, 0.1),
    "unavailable": (0.02, 0.1),  # queries, polls and reads that only have to be repeated
    "disk_full": (0.02, 0.2),
    "rot": (0.02, 0.1),  # of reads of an index, once in a life: then a person would have to look
    "late_markers": (0.5, 0.9),  # of moments in which a marker could be written
    "rebalance": (0.02, 0.1),  # of turns, as the six below
    "evict": (0.02, 0.1),
    "fence": (0.01, 0.05),
    "squatter": (0.01, 0.05),
    "stop": (0.01, 0.05),
    "clock": (0.05,),
    "hour": (0.02,),
    "directory": (0.02, 0.1),  # of turns in which a process is down
}


class Crash(BaseException):
    """The process is gone at this instant. No handler of the engine may stop it."""


@dataclass(eq=False, slots=True)
class Life:
    """One incarnation of a process: a crash ends it, a restart is another one."""

    name: str
    dead: bool = False
    paused: bool = False
    accept_positions: bool = False
    rewrites: bool = False
    retention: Retention = UNLIMITED
    rotted: bool = False
    reads_seeds: bool = False
    """Whether it reads the seeds instead of the input."""
    seeds: SeedSource | None = None
    """Those that it reads, once it has the task."""
    inputs: int = 0
    """Partitions of the input that it has heard of."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What a seed's world looks like."""

    partitions: int
    tasks: int
    processes: int
    batch: int
    documents: int
    steps: int
    eager: bool
    hot: bool
    """Who has no task tails the changelog."""
    rates: dict[str, float]
    odd: float
    """Share of records with a timestamp that some outputs refuse."""
    strict: tuple[str, ...]
    """Those outputs."""
    thin: int | None
    """So many records pass to the broker in a transaction's time; None: any number."""
    cap: int
    """Of a bucket; with 1, buckets split as soon as two unlike documents share a band."""
    forgets: float
    """Share of records that are tombstones of an id that came before."""
    updates: bool
    """Whether a record replaces the document of its id."""
    template: bool
    """All documents are made of one template, and there are many."""
    retentions: tuple[Retention, ...]
    """One of them is in force in each life of a process."""
    trims: bool
    """Whether we may delete records of the changelog."""
    several: bool
    """Each input partition is a topic of its own, by the name that `World.topics` has for it."""
    digests: tuple[str, ...]
    """What is stored beside a text: its scope, and what a match must agree in."""
    seeds: int = 0
    """Most lines of each seed; 0: there are none."""
    dated: bool = False
    """Whether the lines have timestamps: some are older than the retention."""
    run_keys: int = 5
    """Keys that fill a run. A document has five."""
    fan: int = 2
    """So many runs become one."""
    corrections: str = ""
    """What people do meanwhile: they ``release`` withheld records, or send letters back, too."""
    backups: bool = False
    """Whether owners copy their index to a store, and restore it from there."""


def draw_shape(rng: random.Random, seed: int) -> Shape:
    partitions = rng.choice((1, 2, 2, 3))
    rates = {
        name: rng.choice(choices) if rng.random() < 0.4 else 0.0 for name, choices in FAULTS.items()
    }
    # From a generator of their own: what else befalls a seed stays as it was without them.
    limits = random.Random(seed ^ LIMITS)
    picky = limits.random() < 0.25
    ages = random.Random(seed ^ AGES)
    ageing = ages.random() < 0.4
    beside = random.Random(seed ^ DIGESTS)
    runs = random.Random(seed ^ RUNS)
    updates = random.Random(seed ^ UPDATES).random() < 0.5
    kept, chance = draw_retentions(ages) if ageing else (UNLIMITED,), random.Random(seed ^ WITHIN)
    if ageing and chance.random() < 0.4:
        kept = tuple(replace(each, within=chance.choice((500, 3_000, None))) for each in kept)
    shape = Shape(
        template=False,
        retentions=kept,
        trims=ages.random() < 0.8,
        several=False,
        digests=beside.choice(STORED) if beside.random() < 0.3 else (),
        odd=limits.choice((0.05, 0.3, 1.0)) if picky else 0.0,
        strict=limits.choice((OUTPUTS, OUTPUTS[:2])) if picky else (),
        # A record, its document and its batch at least; a header, if a window begins; and what an
        # update forgets.
        thin=limits.choice((3, 4, 6)) + ageing + updates if limits.random() < 0.15 else None,
        cap=1 if limits.random() < 0.3 else 3,
        forgets=limits.choice((0.1, 0.4)) if limits.random() < 0.4 else 0.0,
        updates=updates,
        partitions=partitions,
        tasks=partitions if partitions > 1 and rng.random() < 0.2 else 1,
        processes=rng.choice((1, 2, 2, 3)),
        batch=rng.choice((1, 2, 3, 5)),
        documents=rng.randrange(5, 17),
        steps=rng.choice((20, 40, 80)),
        eager=rng.random() < 0.3,
        hot=rng.random() < 0.7,
        rates=rates,
        run_keys=runs.choice((5, 10)),
        fan=runs.choice((2, 3)),
    )
    if shape.tasks == 1 and random.Random(seed ^ SEVERAL).random() < 0.3:
        shape = replace(shape, several=True)
    seeding = random.Random(seed ^ SEEDS)
    if shape.tasks == 1 and not shape.digests and seeding.random() < 0.2:
        thin = shape.thin and shape.thin + 1  # each batch of a seed has a header
        shape = replace(shape, seeds=seeding.choice((1, 4, 9)), thin=thin)
        if seeding.random() < DATED:
            # The clock cuts what is far ahead of it: then the oracle could not tell what is old.
            rates["clock"], time = 0.0, seeding.choice((1_000, 4_000, 20_000))
            shape = replace(shape, dated=True, thin=None, retentions=(Retention(time=time),))
    life = random.Random(seed ^ LIFE)
    if life.random() < LIVELY:
        shape = replace(shape, corrections=life.choice(("release", "both")), thin=None)
    if life.random() < LIVELY:
        rates["directory"] = life.choice((0.1, 0.3))
        shape = replace(shape, backups=True)
    kind = random.Random(seed ^ TEMPLATES).random()
    if kind < 0.02:
        return replace(shape, **TEMPLATE)
    faults = {**rates, "crash": rates["crash"] or 0.01, "disk_full": rates["disk_full"] or 0.1}
    return replace(shape, **MERGING, rates=faults) if kind > 0.96 else shape


def draw_retentions(ages: random.Random) -> tuple[Retention, ...]:
    """Return the one that is in force for good, or several that operators change between."""
    found = tuple(
        Retention(
            documents=ages.choice((None, 1, 2, 4, 8)),
            time=ages.choice((None, 1_000, 4_000, 20_000)),
        )
        for _ in range(ages.choice((1, 1, 3)))
    )
    return (*found, UNLIMITED) if len(found) > 1 else found


@dataclass(slots=True)
class InFlight:
    """An EndTxn that its client has given up, on its way still."""

    tid: str
    epoch: int
    commit: bool
    calls: int
    """It arrives just before the producer of the same id makes its so-many-th call."""


@dataclass(slots=True)
class World:
    """One seed's world."""

    seed: int
    trace: bool = False
    rng: random.Random = field(init=False)
    stamps: random.Random = field(init=False)
    """Of what only a world that forgets draws: so the others stay as they were."""
    growths: random.Random = field(init=False)
    """Of partitions that are added while all work."""
    stamp: int = BEGINNING
    shape: Shape = field(init=False)
    partitions: int = field(init=False)
    """Of the input now; an operator may add one."""
    seeds: dict[int, list[Input]] = field(default_factory=dict)
    """The documents of the seeds, by their numbers."""
    seeding: random.Random = field(init=False)
    writes: random.Random = field(init=False)
    """Of crashes and full disks inside of an index's write."""
    mended: bool = False
    """Whether the configuration reads what was a dead letter without a text before."""
    topics: list[str] = field(init=False)
    """The topic of each input partition, if they are several."""
    hidden: set[str] = field(default_factory=set)
    """Topics that brokers do not show now."""
    grown_at: float = 0.0
    """When one was added last."""
    broker: Broker = field(init=False)
    group: Group = field(init=False)
    groups: dict[str, Group] = field(init=False)
    """By name; the one without a name is that of the tasks."""
    now: float = 1_000.0
    wall_offset: float = 0.0
    calm: bool = False
    """No faults any more: everything that is under way ends well."""
    flights: list[InFlight] = field(default_factory=list)
    story: list[tuple[float, str, str]] = field(default_factory=list)
    others: Callable[[int], None] = lambda count: None
    """Lets the other processes take so many steps; set by the story."""
    _look_again: float = 0.0
    rounds: int = 0
    """Of the audit that came to an end."""
    objects: Any = None
    """The store of backups (`backups.Objects`)."""
    checks: Any = None
    """What watches while it happens (`oracle.Watcher`)."""

    def __post_init__(self) -> None:
        self.rng, self.stamps = random.Random(self.seed), random.Random(self.seed ^ STAMPS)
        self.growths = random.Random(self.seed ^ GROWTHS)
        self.seeding = random.Random(self.seed ^ SEEDS)
        self.writes = random.Random(self.seed ^ WRITES)
        self.shape = draw_shape(self.rng, self.seed)
        self.partitions = self.shape.partitions
        self.topics = [f"m{p}" for p in range(self.partitions)]
        self.broker = Broker()
        self.group = Group(self.rng, self.shape.tasks, eager=self.shape.eager)
        self.groups = {"": self.group}

    def tell(self, who: str, what: str) -> None:
        self.story.append((self.now, who, what))

    def fail(self, check: str, message: str) -> None:
        raise Failure(check, message)

    def timestamp(self) -> int:
        """Return that of the next record; where it decides what is forgotten, some are mad."""
        if self.shape.retentions == (UNLIMITED,):
            return BEGINNING
        if self.stamps.random() < 0.1:
            return self.stamps.choice(MAD)
        self.stamp += self.stamps.choice((0, 0, 100, 1_000, 5_000))
        return self.stamp

    def retention(self) -> Retention:
        """Return what a process that starts is configured with."""
        return self.stamps.choice(self.shape.retentions)

    def chance(self, fault: str) -> bool:
        """Return True if *fault* happens now."""
        rate = self.shape.rates[fault]
        return rate > 0 and not self.calm and self.rng.random() < rate

    def query(self, life: Life, name: str) -> None:
        """Stand at a question to the brokers, which may not answer."""
        self.port(life, name)
        if self.chance("unavailable"):
            self.advance(0.5)
            raise Retriable(f"{name}: timed out")

    def layout(self, life: Life) -> Layout:
        """Return what a process learns of partitions: a broker may not know of the newest yet."""
        late = not self.calm and self.now - self.grown_at < HEARSAY_SECONDS
        told = self.partitions - (late and self.growths.random() < 0.5)
        life.inputs = max(life.inputs, told)
        topics: tuple[InputTopic, ...] = ()
        if self.shape.several:
            hidden = () if self.calm else self.hidden
            shown = [each for each in self.topics[: life.inputs] if each not in hidden]
            topics = tuple(InputTopic(each, f"id of {each}", 1) for each in shown)
        outputs = dict.fromkeys(OUTPUTS, life.inputs)
        return Layout(life.inputs, outputs, self.shape.tasks == 1, topics)

    def ask_layout(self, life: Life) -> Layout:
        """Return the same from a question that may stay without an answer."""
        self.query(life, "layout")
        return self.layout(life)

    # Time.

    def advance(self, seconds: float) -> None:
        """Let time pass, and what was due happen."""
        self.now += seconds
        if self.broker.unfinished:
            self._mark()
        if self.now >= self._look_again:
            self._look_again = self.now + 0.1
            self._expire()

    def _expire(self) -> None:
        for txn in self.broker.undecided:
            if self.now - txn.begun > TRANSACTION_SECONDS:
                self.tell("broker", f"aborts {txn.tid}'s transaction: too old")
                self.broker.expire(txn)
        for group in self.groups.values():
            for seat in list(group.seats.values()):
                silent = seat.silent_since
                if silent is not None and self.now - silent > SESSION_SECONDS:
                    self.tell("group", f"{seat.member_id} is out: silent for too long")
                    group.leave(seat.member_id)

    def _mark(self) -> None:
        for txn in list(self.broker.unfinished):
            while not txn.complete and not self.chance("late_markers"):
                self.broker.mark(txn, self.rng.randrange(8))

    def send_late(self, tid: str, epoch: int, *, commit: bool) -> None:
        """Put an EndTxn on its way: it arrives in the middle of what its client does next."""
        self.flights.append(InFlight(tid, epoch, commit, self.rng.randint(1, 16)))

    def land(self, tid: str) -> None:
        """Count a call of a producer, and let arrive what was late."""
        for flight in [each for each in self.flights if each.tid == tid]:
            flight.calls -= 1
            if flight.calls <= 0 or self.calm:
                self.flights.remove(flight)
                if self.broker.end_txn_late(tid, flight.epoch, commit=flight.commit):
                    verb = "commits" if flight.commit else "aborts"
                    self.tell("broker", f"a late EndTxn {verb} a transaction of {tid}")

    # Death.

    def port(self, life: Life, name: str) -> None:
        """Stand between two calls of one process: here it may die, or be paused."""
        if life.dead:
            raise Crash
        if self.trace:
            self.tell(life.name, f"  {name}")
        self.advance(CALL_SECONDS)
        if self.calm:
            return
        if self.chance("pause"):
            self._pause(life, name)
        if not life.dead and self.chance("crash"):
            self.tell(life.name, f"CRASHES before {name}")
            self.kill(life)
        if life.dead:
            raise Crash

    def kill(self, life: Life) -> None:
        """End a process without any clean-up; the group will only notice its silence."""
        life.dead = True
        self._silence(life)

    def _silence(self, life: Life) -> None:
        for seat in self._seats_of(life):
            if seat.silent_since is None:
                seat.silent_since = self.now

    def _seats_of(self, life: Life) -> list[Seat]:
        seats = [seat for group in self.groups.values() for seat in group.seats.values()]
        return [seat for seat in seats if seat.member_id.startswith(life.name + "-")]

    def _pause(self, life: Life, name: str) -> None:
        """Stop one process here, let the others work, and go on as if nothing had been."""
        seconds = self.rng.choice(PAUSES)
        self.tell(life.name, f"is paused before {name} for {seconds:g} s")
        self._silence(life)
        life.paused = True
        until = self.now + seconds
        self.others(self.rng.choice((1, 4, 12)))
        self.advance(max(0.0, until - self.now))
        life.paused = False
        if not life.dead:
            for seat in self._seats_of(life):
                seat.silent_since = None
            self.tell(life.name, "goes on")
