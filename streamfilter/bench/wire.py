"""From topic to topic, exactly once: how near to the ceiling, and how soon at a trickle?

`streamfilter run` against a real Apache Kafka of one node and of three, on 1 KB records with
30 % duplicates, beside the ceiling: the same client copying the same records in transactions and
doing nothing else; and beside `streamfilter filter`, which needs no broker. The brokers have one
core, the client another. At the trickle 50 records a second go in, each with its time.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from streamfilter.bench import mixes, texts, truth
from streamfilter.bench.measure import Measured, ratios
from streamfilter.bench.options import Options
from streamfilter.bench.outcome import BenchResult, Check, Row, Table, Target
from streamfilter.bench.processes import core
from streamfilter.bench.service import MeasuredRun, Route, filter_rate
from streamfilter.config.configuration import Config
from streamfilter.kafka.broker.real import RealKafka

NAME = "kafka"
RECORDS = {True: 3_000, False: 60_000}
TRICKLE_SECONDS = {True: 2.0, False: 20.0}
TRICKLE_RATE = 50.0
SIZE, SHARE = 1_024, 0.3
RECALL_MIN, PRECISION_MIN = 0.995, 0.999


def run(options: Options) -> BenchResult:
    """Measure one node, and three."""
    fresh = texts.documents("english", SIZE, RECORDS[options.quick], seed=4)
    documents = mixes.mixed(fresh, share=SHARE, seed=4)
    options.say("the truth")
    near = truth.neighbours([truth.shingles(text) for text in documents])
    rows: list[Row] = []
    checks: list[Check] = []
    rates: dict[str, list[float]] = {}
    trickle = restored = Measured(0, 0, 0, 0)
    with tempfile.TemporaryDirectory(prefix="streamfilter-bench-") as directory:
        with core(0):
            alone = [filter_rate(documents, Path(directory)) for _ in range(options.repeat)]
        rates["filter"] = alone
        rows.append({"brokers": "none", "program": "filter", "records/s": Measured.of(alone)})
        for nodes in (1,) if options.quick else (1, 3):
            with _brokers(nodes) as kafka:
                route = Route(kafka, Path(directory), documents)
                rows += _turns(route, nodes, options, rates)
                checks += _checks(f"{nodes} nodes", route, near)
                if nodes == 1:
                    restored, trickle = _restored(route, options), _trickled(route, options)
    return BenchResult(
        NAME, __doc__.splitlines()[0],
        [Table("whole way, exactly once", rows),
         Table("trickle", [{"records/s in": TRICKLE_RATE, "ms to visible": trickle}]),
         Table("restore from the changelog, one node", [{"documents/s": restored}])],
        checks, _targets(rates, trickle, restored),
        settings={"records": len(documents), "bytes": SIZE, "duplicates": SHARE,
                  "batch": Config().batch.documents},
        notes=["rates count from the first commit to the last; kafka %: the time the filter spends "
               "in poll, produce and commit"],
    )  # fmt: skip


@contextmanager
def _brokers(nodes: int) -> Iterator[RealKafka]:
    """Start *nodes* brokers on the core that the client has not."""
    with core(1):
        kafka = RealKafka(nodes)
        kafka.start()
    try:
        yield kafka
    finally:
        kafka.close()


def _restored(route: Route, options: Options) -> Measured:
    """Return the documents a second that a restore of the last run's index takes in."""
    options.say("restore")
    with core(0):
        return Measured.of([route.restore() for _ in range(options.repeat)])


def _trickled(route: Route, options: Options) -> Measured:
    """Return the milliseconds from input to visible output at the trickle."""
    options.say("trickle")
    with core(0):
        return Measured.of(route.trickle(TRICKLE_SECONDS[options.quick], rate=TRICKLE_RATE))


def _turns(route: Route, nodes: int, options: Options, rates: dict[str, list[float]]) -> list[Row]:
    """Let the filter and the ceiling take turns."""
    ours: list[MeasuredRun] = []
    ceiling: list[float] = []
    for turn in range(options.repeat):
        options.say(f"{nodes} nodes, turn {turn + 1} of {options.repeat}")
        with core(0):
            ours.append(route.filter())
            ceiling.append(route.copy())
    own = [moved.rate for moved in ours]
    rates[f"{nodes}"], rates[f"ceiling {nodes}"] = own, ceiling
    outside = Measured.of([moved.outside_share * 100 for moved in ours])
    stages = {f"{name} us": value for name, value in ours[-1].stages_us.items()}
    label: Row = {"brokers": str(nodes)}
    return [
        {**label, "program": "run", "records/s": Measured.of(own),
         "share of ceiling": ratios(ceiling, own), "kafka %": outside, **stages},
        {**label, "program": "copy only", "records/s": Measured.of(ceiling)},
    ]  # fmt: skip


def _checks(label: str, route: Route, near: truth.Neighbours) -> Sequence[Check]:
    """Hold the last run's topics to the promises: one place each, recall, precision."""
    kept, withheld, other = route.outcome()
    judged = truth.judged(kept, near)
    once = [int(a) + int(b) for a, b in zip(kept, withheld, strict=True)]
    detail = f"{sum(once)} of {len(once)}, {other} elsewhere"
    return [
        Check(f"{label}: every record in one place, once", set(once) == {1} and not other, detail),
        Check.at_least(f"{label}: recall at J >= .82", judged.recall, RECALL_MIN),
        Check.at_least(f"{label}: precision at J >= .8", judged.precision, PRECISION_MIN),
    ]


def _targets(rates: dict[str, list[float]], trickle: Measured, restored: Measured) -> list[Target]:
    middle = {name: Measured.of(values).median for name, values in rates.items()}
    name = "one node, share of filter's rate"
    found = [
        Target(name, middle["1"] / middle["filter"], 0.7),
        Target("trickle, ms to visible", trickle.median, 60, at_most=True),
        Target("restore, documents/s", restored.median, 15_000),
    ]
    if "3" in middle:
        found.append(Target("three nodes, share of one node", middle["3"] / middle["1"], 0.6))
    return found
