"""From topic to topic, exactly once: how near to the ceiling, and how soon at a trickle?

`streamfilter run` against a real Apache Kafka of one node and of three, on 1 KB records with
30 % duplicates, beside the ceiling: the same client copying the same records in transactions and
doing nothing else; and beside `streamfilter filter`, which needs no broker. The brokers have one
core, the client another. At the trickle 50 records a second go in, each with its time. If rensa is
installed, it takes turns with us on titles and on Arabic, with a changelog in its transactions.
"""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from deploy.local.real import RealKafka
from streamfilter.bench import texts, truth
from streamfilter.bench.machine import cores
from streamfilter.bench.measure import Measured, ratios
from streamfilter.bench.result import BenchResult, Check, Options, Row, Target
from streamfilter.config.configuration import Config
from tests.bench.service import MeasuredRun, Route, record_of, said_by

RECORDS = {True: 12_000, False: 60_000}
"""Several batches also in a quick run: a rate counts from the first commit on."""
TRICKLE_SECONDS = {True: 2.0, False: 20.0}
TRICKLE_RATE = 50.0
SIZE, SHARE = 1_024, 0.3
BESIDE = {"titles": ("english", 130, 26.0), "arabic": ("arabic", 3_400, 91.0)}
"""Texts that a rival filters, too: language, bytes, and the processor time wanted, us a record."""
FASTER = 1.4  # times the rival's rate on titles that is wanted


def run(options: Options) -> BenchResult:
    """Measure one node, and three."""
    fresh = texts.documents("english", SIZE, RECORDS[options.quick], seed=4)
    documents = texts.mixed(fresh, share=SHARE, seed=4)
    options.say("the truth")
    near = truth.neighbours([truth.shingles(text) for text in documents])
    checks: list[Check] = []
    trickle = restored = Measured(0, 0, 0, 0)
    with tempfile.TemporaryDirectory(prefix="streamfilter-bench-") as directory:
        with cores(0):
            alone = Measured.of(_filter_rates(documents, Path(directory), options.repeat))
        beside: list[Row] = []
        rows: list[Row] = [{"brokers": "none", "program": "filter", "records/s": alone}]
        medians: dict[int, float] = {}
        for nodes in (1,) if options.quick else (1, 3):
            with _brokers(nodes) as kafka, cores(0):
                if nodes == 1 and find_spec("rensa"):
                    for name in BESIDE:
                        beside.append(_beside(kafka, Path(directory), name, options))
                route = Route(kafka, Path(directory), documents)
                ours, *turns = _turns(route, nodes, options)
                medians[nodes] = ours.median
                rows += turns
                checks += _checks(f"{nodes} nodes", route, near)
                if nodes == 1:
                    options.say("restore, then a trickle")
                    restored = Measured.of([route.restore() for _ in range(options.repeat)])
                    seconds = TRICKLE_SECONDS[options.quick]
                    trickle = Measured.of(route.trickle(seconds, rate=TRICKLE_RATE))
    targets = [
        Target("one node, share of filter's rate", medians[1] / alone.median, 0.7),
        Target("trickle, ms to visible", trickle.median, 60, at_most=True),
        Target("restore, documents/s", restored.median, 15_000),
    ]
    targets += [target for row in beside for target in _beside_targets(row)]
    if 3 in medians:
        targets.append(Target("three nodes, share of one node", medians[3] / medians[1], 0.6))
    return BenchResult(
        {"whole way, exactly once": rows,
         "trickle": [{"records/s in": TRICKLE_RATE, "ms to visible": trickle}],
         "restore from the changelog, one node": [{"documents/s": restored}],
         **({"beside rensa with a changelog, one node": beside} if beside else {})},
        checks, targets,
        settings={"records": len(documents), "bytes": SIZE, "duplicates": SHARE,
                  "batch": Config().batch.documents},
        notes=["rates count from the first commit to the last; kafka %: the time the filter spends "
               "in poll, produce and commit"],
    )  # fmt: skip


def _filter_rates(documents: list[str], directory: Path, repeat: int) -> list[float]:
    """Return the records a second that `streamfilter filter` says it did, its start left out."""
    source = directory / "filter.jsonl"
    lines = (record_of(number, text) + b"\n" for number, text in enumerate(documents))
    source.write_bytes(b"".join(lines))
    outputs = ["--unique", str(directory / "unique"), "--duplicates", str(directory / "again")]
    command = ["-m", "streamfilter", "filter", str(source), "-o", "json", *outputs]
    states = (str(directory / f"filter-{turn}") for turn in range(repeat))
    return [float(said_by([*command, "--state", s])["records_per_second"]) for s in states]


@contextmanager
def _brokers(nodes: int) -> Iterator[RealKafka]:
    """Start *nodes* brokers on the core that the client has not."""
    with cores(1):
        kafka = RealKafka(nodes)
        kafka.start()
    try:
        yield kafka
    finally:
        kafka.close()


def _turns(route: Route, nodes: int, options: Options) -> tuple[Measured, Row, Row]:
    """Let the filter and the ceiling take turns; return our rate, and the rows of both."""
    runs: list[MeasuredRun] = []
    ceiling: list[float] = []
    for turn in range(options.repeat):
        options.say(f"{nodes} nodes, turn {turn + 1} of {options.repeat}")
        runs.append(route.filter())
        copied = route.copy()
        ceiling.append(copied["records"] / copied["seconds"])
    own = [each.rate for each in runs]
    outside = Measured.of([each.outside_share * 100 for each in runs])
    stages = {f"{n} us": s / runs[-1].records * 1e6 for n, s in runs[-1].stages.items()}
    ours: Row = {"brokers": str(nodes), "program": "run", "records/s": Measured.of(own)}
    theirs: Row = {"brokers": str(nodes), "program": "copy only"}
    return (
        Measured.of(own),
        {**ours, "share of ceiling": ratios(ceiling, own), "kafka %": outside, **stages},
        {**theirs, "records/s": Measured.of(ceiling)},
    )


def _beside(kafka: RealKafka, directory: Path, name: str, options: Options) -> Row:
    """Let the filter and the rival take turns on texts of one kind; return what both took."""
    language, size, _ = BESIDE[name]
    fresh = texts.documents(language, size, RECORDS[options.quick], seed=5)
    route = Route(kafka, directory, texts.mixed(fresh, share=0.1, seed=5))
    ours: list[MeasuredRun] = []
    theirs: list[dict[str, float]] = []
    for turn in range(options.repeat):
        options.say(f"{name} beside rensa, turn {turn + 1} of {options.repeat}")
        ours.append(route.filter())
        theirs.append(route.copy("rensa"))
    own, rates = (
        [each.rate for each in ours],
        [each["records"] / each["seconds"] for each in theirs],
    )
    used = [each["processor_seconds"] / each["records"] * 1e6 for each in theirs]
    return {
        "texts": name, "records/s": Measured.of(own), "rensa's": Measured.of(rates),
        "times": ratios(rates, own), "us": Measured.of([each.processor_us for each in ours]),
        "rensa's us": Measured.of(used),
    }  # fmt: skip


def _beside_targets(row: Any) -> Iterator[Target]:
    name = str(row["texts"])
    yield Target(f"{name}, us of processor time", row["us"].median, BESIDE[name][2], at_most=True)
    if name == "titles":
        yield Target("titles, times rensa's rate with a changelog", row["times"].median, FASTER)


def _checks(label: str, route: Route, near: truth.Neighbours) -> list[Check]:
    """Hold the last run's topics to the promises: one place each, recall, precision."""
    kept, withheld, other = route.outcome()
    once = [int(a) + int(b) for a, b in zip(kept, withheld, strict=True)]
    detail = f"{sum(once)} of {len(once)}, {other} elsewhere"
    place = Check(f"{label}: every record in one place, once", set(once) == {1} and not other,
                  detail)  # fmt: skip
    return [place, *truth.judged(kept, near).checks(label)]
