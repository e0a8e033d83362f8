"""The step that a load needs: one process, scopes by partition, or edges and a judge.

A model of processor time, from costs measured at two sizes of documents. Costs between and above
them are on a straight line; below, they are those of the smallest. All measured costs are in this
file. `python -m tests.bench --only cluster` prints them, and compares the model with the clock.

Example: 20,000 documents a second of 1 kB take 1.5 cores of one process, which is planned for .7 of
one. Edges take 1.4 cores, so there are two of them. The judge is busy for .6 of its time.
"""

from math import ceil

from msgspec import Struct, to_builtins

from streamfilter.monitoring.capacity import FRAME_BYTES
from streamfilter.similarity.statistics.shape import Shape
from streamfilter.stops import counted


class Costs(Struct, frozen=True):
    """Processor time of a document, in microseconds."""

    alone: float  # one process that does everything, all threads
    edge: float  # an edge, all threads
    judge: float  # the judge's own thread, which one core bounds
    judging: float  # the judge, all threads


COSTS = {
    130: Costs(alone=39, edge=38, judge=19, judging=21),
    1_024: Costs(alone=71, edge=62, judge=27, judging=31),
}
"""Costs by the bytes of a document: English, 30 % duplicates (cluster.json)."""
VERDICT_BYTES = 20  # of a document, in the topic of verdicts

FULL = 0.7  # share of a core that one process or an edge is planned for
JUDGE_FULL = 0.8
"""Share of its time that the judge is planned for, as in the alert StreamfilterJudgeBusy."""
COMMIT_SECONDS, BATCH = 0.02, 4_000
"""A judge's commit, during which its thread does nothing else, and the documents of a batch."""
BYTES_OF_A_SHINGLE = 6  # bytes of English text for each shingle of words


def costs_of(size: float) -> Costs:
    (small, low), (large, high) = COSTS.items()
    share = max(0.0, (size - small) / (large - small))
    before, after = to_builtins(low), to_builtins(high)
    return Costs(**{name: before[name] + share * (after[name] - before[name]) for name in before})


def judged_a_second(costs: Costs) -> float:
    """Return the documents a second of a judge that never waits for edges."""
    return BATCH / (BATCH * costs.judge / 1e6 + COMMIT_SECONDS)


class LoadPlan(Struct, frozen=True):
    """A load, and what each step needs for it."""

    rate: float  # documents a second
    size: int  # bytes of a document
    step: str
    """The first step that carries it: ``one process``, ``edges and a judge`` or ``scopes``."""
    cores: float  # of one process
    processes: int  # with index.scope: partition
    edges: int
    edge_cores: float  # of all edges together
    judge: float  # share of the judge's time
    judge_max: float  # documents a second at which the judge is as busy as planned
    written: float
    """Bytes a second that brokers take, before replication, if nothing is a duplicate."""
    read: float  # bytes a second that they give to our processes

    def as_text(self) -> list[str]:
        head = f"  load: {self.rate:,g} documents a second of {self.size:,} bytes"
        alone = f"    one process: {self.cores:.2f} cores; it is planned for {FULL:g} of one"
        scopes = (
            f"    index.scope: partition: {counted(self.processes, 'process')}, if the producer's "
            "key is the scope of deduplication (tenant, feed, language)"
        )
        edges = (
            f"    edges and a judge (cluster.enabled): {counted(self.edges, 'edge')} with "
            f"{self.edge_cores:.2f} cores; the judge is busy for {self.judge:.2f} of its time, "
            f"planned for {JUDGE_FULL:g}"
        )
        choice = {
            "one process": "one process, and a standby",
            "edges and a judge": f"{counted(self.edges, 'edge')} and two judges, one of them a "
            f"standby; the input has at least {counted(self.edges, 'partition')}",
            "scopes": f"index.scope: partition. One judge decides on {self.judge_max:,.0f} "
            "documents a second at most, so one index cannot take this load",
        }[self.step]
        brokers = (
            f"    brokers: {self.written / 1e6:,.1f} MB/s written before replication, "
            f"{self.read / 1e6:,.1f} MB/s read"
        )
        return [head, alone, scopes, edges, f"    needed: {choice}", brokers]


def load_of(shape: Shape, rate: float, size: int, shingles: int) -> LoadPlan:
    """Return what *rate* documents a second of *size* bytes need."""
    costs = costs_of(size)
    cores, edge_cores = rate * costs.alone / 1e6, rate * costs.edge / 1e6
    judged = judged_a_second(costs)
    judge_max = JUDGE_FULL * judged
    if cores <= FULL:
        step = "one process"
    else:
        step = "edges and a judge" if rate <= judge_max else "scopes"
    record = shape.record_bytes(shingles=shingles) + FRAME_BYTES
    between = record + VERDICT_BYTES if step == "edges and a judge" else 0
    return LoadPlan(
        rate=rate,
        size=size,
        step=step,
        cores=cores,
        processes=max(1, ceil(cores / FULL)),
        edges=max(1, ceil(edge_cores / FULL)),
        edge_cores=edge_cores,
        judge=rate / judged,
        judge_max=judge_max,
        written=rate * (size + record + between),
        read=rate * (size + between),
    )
