"""What do an edge and a judge cost a document, and does the clock agree with the model of `plan`?

A real Kafka of one node. One process, then a judge with one and with two edges, filter the same
documents. All costs are processor time. The model says what the clock should show: the slowest of
edges, judge, and all cores together. Then the judge works alone on sketch ranges that an edge
has prepared: so it works with a core of its own. `plan` has these costs of a judge. The curve is
the model for up to 16 edges, where each process has a core of its own. At last a second edge is
started while records come in: how soon does it forward some, and how long does all wait for it?
And how much later than those of one process are 50 records a second visible?
"""

import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from math import inf
from pathlib import Path
from statistics import median
from typing import Any

from deploy.local.node import free_ports
from deploy.local.real import RealKafka
from streamfilter.bench import texts
from streamfilter.bench.machine import processor_seconds, usable
from streamfilter.bench.measure import Measured
from streamfilter.bench.result import BenchResult, Check, Options, Row, Target
from streamfilter.demo.running_filter import WAIT_SECONDS, RunningFilter
from streamfilter.preflight.load import COSTS, Costs, judged_a_second
from tests.bench.service import LOOK_SECONDS, MeasuredRun, Route, done_by
from tests.support.values import replace

SIZES = (130, 1_024)
RECORDS = {True: 12_000, False: 40_000}
SHARE = 0.3
PARTITIONS, EDGES = 2, (1, 2)
CURVE = (1, 2, 3, 4, 8, 16)
WANTED = {130: (20, 50), 1_024: (26, 50)}
"""Most µs of the judge's thread and of an edge, by size."""
PREPARED_RATE = 25_000
STILL_SECONDS = 3.0
ADDED_SECONDS = 10.0
"""From the start of an edge beside another one until it forwards records, at most."""
TRICKLE_RATE, TRICKLE_SECONDS, TRICKLED = 50.0, {True: 2.0, False: 20.0}, 1_000
LATER_MS = 45
"""How much later an edge and a judge may make a record visible than one process."""


@dataclass(frozen=True, slots=True)
class ClusterRun:
    """One run of a judge and some edges over all records; costs in µs a document."""

    rate: float
    judge: float  # its first thread
    judging: float  # all its threads
    edge: float  # all threads of all edges
    broker: float

    @property
    def cores_us(self) -> float:
        """Return the processor time of all processes."""
        return self.judging + self.edge + self.broker


@dataclass(frozen=True, slots=True)
class AddedEdge:
    """What a second edge needed that was started under traffic."""

    seconds: float  # from its start until it has forwarded a record
    standstill: float  # the longest time in which no edge forwarded any


def run(options: Options) -> BenchResult:
    """Measure both sizes."""
    rows: list[Row] = []
    clocks: list[Row] = []
    curve: list[Row] = []
    targets: list[Target] = []
    checks: list[Check] = []
    moved: list[AddedEdge] = []
    with tempfile.TemporaryDirectory(prefix="streamfilter-bench-") as temporary, _kafka() as kafka:
        for size in SIZES:
            fresh = texts.documents("english", size, RECORDS[options.quick], seed=4)
            documents = texts.mixed(fresh, share=SHARE, seed=4)
            route = Route(kafka, Path(temporary), documents, partitions=PARTITIONS)
            of_size = _Size(size, route, options)
            rows.append(of_size.costs())
            clocks += of_size.clocks()
            curve += of_size.curve()
            targets += of_size.targets()
            checks.append(of_size.check())
        moved += [added(route) for _ in range(options.repeat)]
        options.say("trickles")
        few = Route(kafka, Path(temporary), documents[:TRICKLED])
        seen = [trickled(few, options) for _ in range(options.repeat)]
    seconds = Measured.of([each.seconds for each in moved])
    still = Measured.of([each.standstill for each in moved])
    targets.append(Target("an added edge forwards after, s", seconds.median, ADDED_SECONDS,
                          at_most=True))  # fmt: skip
    alone, both = (Measured.of(each) for each in zip(*seen, strict=True))
    targets.append(Target("at 50 records/s visible later than by one process, ms",
                          both.median - alone.median, LATER_MS, at_most=True))  # fmt: skip
    return BenchResult(
        {"us a document": rows, "documents/s by the clock": clocks,
         "documents/s with a core for each process, computed": curve,
         "a second edge, started under traffic": [
             {"bytes": SIZES[-1], "s until it forwards": seconds, "s all waited": still}],
         "trickle, medians in ms to visible": [
             {"records/s in": TRICKLE_RATE, "one process": alone, "edge and judge": both}]},
        checks, targets,
        settings={"records": RECORDS[options.quick], "duplicates": SHARE,
                  "partitions": PARTITIONS, "cores": len(usable())},
        notes=["judge: its first thread, judging: all of them; all begin on a full topic",
               "beside: of a judge that shares two cores with edges and broker",
               "expected: of these costs, on all cores; cores had: what other programs left"],
    )  # fmt: skip


class _Size:
    """All runs over documents of one size."""

    def __init__(self, size: int, route: Route, options: Options) -> None:
        self.size, self._route = size, route
        self.alone: list[float] = []
        self.runs: dict[int, list[ClusterRun]] = {edges: [] for edges in EDGES}
        self.prepared: list[MeasuredRun] = []
        self.forwarded = 0
        for turn in range(options.repeat):
            options.say(f"{size} bytes, turn {turn + 1} of {options.repeat}")
            self.alone.append(route.filter().processor_us)
            for edges in EDGES:
                run, self.forwarded = clustered(route, edges)
                self.runs[edges].append(run)
            self.prepared.append(prepared(route))

    def _of(self, name: str) -> Measured:
        return Measured.of([getattr(run, name) for runs in self.runs.values() for run in runs])

    def measured(self) -> Costs:
        """Return the costs as `plan` has them: those of a judge with a core of its own."""
        return Costs(
            Measured.of(self.alone).median,
            self._of("edge").median,
            self._prepared("first_thread_us").median,
            self._prepared("processor_us").median,
        )

    def _prepared(self, name: str) -> Measured:
        return Measured.of([getattr(run, name) for run in self.prepared])

    def _shared(self) -> Costs:
        """Return the costs of a judge that shares its cores with edges and broker."""
        judge, judging = (self._of(name).median for name in ("judge", "judging"))
        return replace(self.measured(), judge=judge, judging=judging)

    def costs(self) -> Row:
        """Return the row of costs, beside those that `plan` computes with."""
        model = COSTS[self.size]
        return {
            "bytes": self.size,
            "one process": Measured.of(self.alone),
            "edge": self._of("edge"),
            "judge": self._prepared("first_thread_us"),
            "judging": self._prepared("processor_us"),
            "judge beside": self._of("judge"),
            "judging beside": self._of("judging"),
            "broker": self._of("broker"),
            "plan has": f"{model.alone:g} {model.edge:g} {model.judge:g} {model.judging:g}",
        }

    def clocks(self) -> Iterator[Row]:
        """Yield what the clock showed, beside what the model expects on these cores."""
        for edges, runs in self.runs.items():
            rate = Measured.of([run.rate for run in runs])
            wanted = expected(self._shared(), self._of("broker").median, edges, len(usable()))
            had = [run.rate * run.cores_us / 1e6 for run in runs]
            yield {"bytes": self.size, "edges": str(edges), "clock": rate, "expected": wanted,
                   "clock/expected": rate.median / wanted,
                   "cores had": Measured.of(had)}  # fmt: skip
        rate, wanted = self._prepared("rate"), judged_a_second(self.measured())
        yield {"bytes": self.size, "edges": "prepared", "clock": rate, "expected": wanted,
               "clock/expected": rate.median / wanted, "cores had": None}  # fmt: skip

    def curve(self) -> Iterator[Row]:
        """Yield what the model expects of each number of edges, and what bounds it."""
        costs, broker = self.measured(), self._of("broker").median
        whole = costs.edge + costs.judging + broker
        for edges in CURVE:
            rate = expected(costs, broker, edges)
            bound = "the judge" if rate == judged_a_second(costs) else "the edges"
            yield {"bytes": self.size, "edges": edges, "documents/s": rate, "bound by": bound,
                   "cores, brokers' too": rate * whole / 1e6}  # fmt: skip

    def targets(self) -> Iterator[Target]:
        """Yield the wanted costs and rates."""
        found, (judge, edge) = self.measured(), WANTED[self.size]
        label = f"{self.size} bytes"
        yield Target(f"{label}: judge's thread, us", found.judge, judge, at_most=True)
        yield Target(f"{label}: an edge, us", found.edge, edge, at_most=True)
        whole = (found.edge + self._shared().judging) / found.alone
        yield Target(f"{label}: all, times one process", whole, 1.5, at_most=True)
        rate = self._prepared("rate").median
        yield Target(f"{label}: prepared, documents/s by the clock", rate, PREPARED_RATE)

    def check(self) -> Check:
        """Hold the last run to the promise: every record in one place, once."""
        wanted = len(self._route.documents)
        detail = f"{self.forwarded} of {wanted}"
        return Check(f"{self.size} bytes: every record once", self.forwarded == wanted, detail)


def expected(costs: Costs, broker: float, edges: int, cores: float = inf) -> float:
    """Return documents a second: the slowest of the edges, the judge, and all cores together."""
    whole = costs.edge + costs.judging + broker
    return min(edges * 1e6 / costs.edge, judged_a_second(costs), cores * 1e6 / whole)


def settings_of(route: Route, topic: str) -> dict[str, Any]:
    """Return the settings of the judge of a new cluster."""
    return {**route.settings(topic, route.new_group()), "cluster": {"enabled": True}}


def beside(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of another process of the cluster that has *settings*."""
    return {**settings, "http": {"host": "127.0.0.1", "port": free_ports(1)[0]}}


def clustered(route: Route, edges: int) -> tuple[ClusterRun, int]:
    """Start a judge and *edges*, and return what a full topic costs them, and what came out."""
    count, topic = len(route.documents), _new_topic(route)
    settings = settings_of(route, topic)
    with ExitStack() as stack:
        judge = stack.enter_context(_started(route, settings, "judge"))
        judge.wait_until("running")
        running = [
            stack.enter_context(_started(route, beside(settings), f"edge{n}")) for n in range(edges)
        ]
        for each in running:
            each.wait_until("running")
        time.sleep(STILL_SECONDS)  # the first edge begins again when another one joins
        for each in running:
            each.wait_until("running")
        used = partial(_used, judge, running, route.kafka)
        with _frozen(running):
            route.feed(topic)
            begun, before = time.perf_counter(), used()
        while sum(map(done_by, running)) < count:
            time.sleep(LOOK_SECONDS)
        seconds, after = time.perf_counter() - begun, used()
        written = sum(
            each.samples("records_produced_total").get(name, 0.0)
            for each in running
            for name in ("unique", "duplicates")
        )
    costs = [(b - a) * 1e6 / count for a, b in zip(before, after, strict=True)]
    return ClusterRun(count / seconds, *costs), int(written)


@contextmanager
def _frozen(running: list[RunningFilter]) -> Iterator[None]:
    """Stop what is *running* meanwhile: the topic is full when it begins, as for one process."""
    try:
        for each in running:
            os.kill(each.pid, signal.SIGSTOP)
        yield
    finally:
        for each in running:
            os.kill(each.pid, signal.SIGCONT)


def added(route: Route) -> AddedEdge:
    """Start a judge and an edge, feed the topic without end, and add an edge."""
    topic, stop = _new_topic(route), threading.Event()
    settings = settings_of(route, topic)
    with ExitStack() as stack:
        judge = stack.enter_context(_started(route, settings, "judge"))
        judge.wait_until("running")
        first = stack.enter_context(_started(route, beside(settings), "edge0"))
        first.wait_until("running")
        feeding = threading.Thread(target=_feed_until, args=(route, topic, stop))
        feeding.start()
        stack.callback(feeding.join)
        stack.callback(stop.set)
        _until(lambda: done_by(first) > 0, "forwarding")
        begun = time.perf_counter()
        second = stack.enter_context(_started(route, beside(settings), "edge1"))
        forwarded, since, standstill = _forwarded(first), begun, 0.0
        while not _forwarded(second):
            time.sleep(LOOK_SECONDS)
            now, done = time.perf_counter(), _forwarded(first)
            standstill = max(standstill, now - since)
            if done > forwarded:
                forwarded, since = done, now
        seconds = time.perf_counter() - begun
    return AddedEdge(seconds, standstill)


def trickled(route: Route, options: Options) -> tuple[float, float]:
    """Return after how many ms a record is visible by one process, and by an edge and a judge."""
    seconds = TRICKLE_SECONDS[options.quick]
    alone = route.trickle(seconds, rate=TRICKLE_RATE)
    topic = _new_topic(route)
    settings = settings_of(route, topic)
    route.group = settings["kafka"]["group"]
    with _started(route, settings, "judge") as judge:
        judge.wait_until("running")
        with _started(route, beside(settings), "edge") as edge:
            edge.wait_until("running")
            both = route.trickled(topic, seconds, rate=TRICKLE_RATE)
    return median(alone), median(both)


def _forwarded(edge: RunningFilter) -> float:
    """Return how many records *edge* has forwarded since its start."""
    return sum(edge.samples("records_produced_total").values())


def _feed_until(route: Route, topic: str, stop: threading.Event) -> None:
    """Send all documents again and again, somewhat faster than they are forwarded."""
    while not stop.is_set():
        route.feed(topic)
        stop.wait(STILL_SECONDS)


def _used(judge: RunningFilter, edges: list[RunningFilter], kafka: RealKafka) -> list[float]:
    """Return the processor seconds of each part, in the order of `ClusterRun`."""
    return [
        processor_seconds(judge.pid, first_thread=True),
        processor_seconds(judge.pid),
        sum(processor_seconds(each.pid) for each in edges),
        processor_seconds(kafka.nodes[0].pid or 0),
    ]


def _new_topic(route: Route) -> str:
    topic = f"{route.name}.{time.time_ns()}"
    route.kafka.create_topics({topic: route.partitions})
    return topic


def prepared(route: Route) -> MeasuredRun:
    """Let an edge sign all records, stop it, and return what the judge alone takes."""
    count, topic = len(route.documents), _new_topic(route)
    settings = settings_of(route, topic)
    patient = beside(settings) | {"cluster": {"enabled": True, "pending": max(count, 100)}}
    with _started(route, settings, "judge") as judge:
        judge.wait_until("running")
        with _started(route, patient, "edge") as edge:
            edge.wait_until("running")
            judge.stop()
            route.feed(topic)
            _until(lambda: edge.samples("edge_waiting_records").get("", 0.0) >= count, "full")
            _until_still(lambda: edge.samples("kafka_sent_bytes_total").get("signer", 0.0))
    with _started(route, settings, "judge") as judge:
        return MeasuredRun.of(judge, count)


def _started(route: Route, settings: dict[str, Any], name: str) -> RunningFilter:
    """Start a process whose role is the beginning of its *name*."""
    role = "judge" if name == "judge" else "edge"
    group = settings["kafka"]["group"]
    return RunningFilter(settings, route.directory, name=f"{group}.{name}", role=role)


def _until(reached: Callable[[], bool], state: str) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not reached():
        if time.monotonic() > deadline:
            raise RuntimeError(f"the edges are not {state}")
        time.sleep(LOOK_SECONDS)


def _until_still(value: Callable[[], float]) -> None:
    """Return when *value* has not changed for a while: the client reports it once a second."""
    before = -1.0
    while (now := value()) != before:
        before = now
        time.sleep(STILL_SECONDS)


@contextmanager
def _kafka() -> Iterator[RealKafka]:
    kafka = RealKafka(1)
    kafka.start()
    try:
        yield kafka
    finally:
        kafka.close()
