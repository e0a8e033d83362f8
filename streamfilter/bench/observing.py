"""What share of the time do metrics, logging and the audit take?

Batches are sketched, judged and written as the service does it, and after each one a sample is
audited by the default rates, everything that the service counts is counted, a line is logged, and
every fifteen seconds of work somebody scrapes. The audit gets its time as in the service
(`engine.auditing`): a share of all that passes, what choosing costs taken off it.
"""

from __future__ import annotations

import logging
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

import numpy as np

from streamfilter.bench import mixes, texts
from streamfilter.bench.growth import IDENTITY
from streamfilter.bench.measure import Measured
from streamfilter.bench.options import Options
from streamfilter.bench.outcome import BenchResult, Check, Row, Table, Target
from streamfilter.bench.sketching import sketcher
from streamfilter.config import sections as config
from streamfilter.engine.auditing import Auditing
from streamfilter.engine.machine import SystemClock
from streamfilter.index.opening import open_index
from streamfilter.index.protocol import Changes, Index, Progress
from streamfilter.matching.audit import Audit, Rates
from streamfilter.matching.pipeline import Batch, Judgement, judge
from streamfilter.matching.verification import MatchPolicy
from streamfilter.model import BatchMark, Source, Span
from streamfilter.monitoring.batch_report import BatchReport
from streamfilter.monitoring.catalogue import ACTIVITIES, STAGES
from streamfilter.monitoring.metrics import Metrics
from streamfilter.process.logs import configure
from streamfilter.similarity.sketch import Sketcher, Sketches

NAME = "metrics"
BATCH = 1_000
DOCUMENTS = {True: 2_000, False: 20_000}
SCRAPE_SECONDS = 15.0
SCRAPES = 20
RATES = Rates(config.AuditSection().arrivals, config.AuditSection().time)


class ProcessorClock(SystemClock):
    """What the process has used: other processes on the machine do not count."""

    def monotonic(self) -> float:
        """Return the processor's seconds of this process."""
        return time.process_time()


@dataclass(slots=True)
class Spent:
    """Processor seconds of one run."""

    work: float = 0.0
    metrics: float = 0.0
    logging: float = 0.0
    scrape: float = 0.0
    """Of one scrape."""
    audit: float = 0.0

    @property
    def share(self) -> float:
        """Return what part of the whole is no work."""
        scrapes = self.scrape * (self.work + self.metrics + self.logging) / SCRAPE_SECONDS
        watching = self.metrics + self.logging + scrapes
        return watching / (self.work + watching)


def run(options: Options) -> BenchResult:
    """Judge batches and observe them, several times."""
    fresh = texts.documents("english", 1_024, DOCUMENTS[options.quick], seed=5)
    documents = mixes.mixed(fresh, share=0.3, seed=5)
    runs, counted = [], 0.0
    for turn in range(options.repeat):
        options.say(f"turn {turn + 1} of {options.repeat}")
        metrics = Metrics()
        metrics.describe(sketcher("word-3").scheme, threshold=MatchPolicy().threshold)
        runs.append(_observed(documents, metrics))
        counted = metrics.value("records_consumed_total")
    share = Measured.of([each.share * 100 for each in runs])
    row: Row = {
        name: Measured.of([getattr(each, name) / len(documents) * 1e6 for each in runs])
        for name in ("work", "metrics", "logging", "audit")
    }
    audit = Measured.of([each.audit / each.work * 100 for each in runs])
    row |= {"audit %": audit}
    row |= {"a scrape, ms": Measured.of([each.scrape * 1e3 for each in runs]), "share %": share}
    return BenchResult(
        NAME, __doc__.splitlines()[0], [Table("us a document", [row])],
        [Check.equal("every document was counted", int(counted), len(documents))],
        [
            Target("share of metrics and logging, %", share.median, 2, at_most=True),
            Target("share of the audit, %", audit.median, 2.1, at_most=True),
        ],
        settings={"batch": BATCH, "documents": len(documents), "scrape every s": SCRAPE_SECONDS},
        notes=["work: sketch, judge and write; with Kafka's part of the work all shares are lower"],
    )  # fmt: skip


def _observed(documents: list[str], metrics: Metrics) -> Spent:
    spent, ours = Spent(), sketcher("word-3")
    with (
        _logger() as logger,
        tempfile.TemporaryDirectory(prefix="streamfilter-bench-") as directory,
        closing(open_index(Path(directory, "index"), IDENTITY)) as index,
    ):
        audit = Audit(RATES, MatchPolicy(), index, ours.keys_of)
        auditing = Auditing(audit, ProcessorClock(), metrics.audited, share=RATES.time)
        for number, begin in enumerate(range(0, len(documents), BATCH)):
            started = time.process_time()
            sketches, judged = _judged(ours, index, documents[begin : begin + BATCH], number)
            worked = time.process_time()
            auditing.choose(sketches, judged, first_ordinal=begin)
            auditing.look()
            looked = time.process_time()
            spent.audit += looked - worked
            _count(metrics, judged)
            counted = time.process_time()
            logger.info("batch %d committed", number)
            spent.work += worked - started
            spent.metrics += counted - looked
            spent.logging += time.process_time() - counted
    started = time.process_time()
    for _ in range(SCRAPES):
        metrics.expose()
    spent.scrape = (time.process_time() - started) / SCRAPES
    return spent


@contextmanager
def _logger() -> Iterator[logging.Logger]:
    """Yield a logger set up as the service's, writing to memory; put everything back after."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    configure("info", "json", stream=StringIO())
    try:
        yield logging.getLogger("streamfilter.bench")
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)


def _judged(
    ours: Sketcher, index: Index, documents: list[str], number: int
) -> tuple[Sketches, Judgement]:
    """Sketch, judge and write one batch."""
    n, first = len(documents), number * BATCH
    ids = [str(first + i) for i in range(n)]
    offsets = np.arange(first, first + n)
    batch = Batch(ids, np.zeros(n, np.int64), offsets, np.full(n, -1, np.int64))
    sketches = ours.sketch(documents)
    judgement = judge(
        batch, sketches, index=index, policy=MatchPolicy(), number=number,
        locate=lambda partition, offset: Source("", partition, offset), first_ordinal=first,
    )  # fmt: skip
    progress = Progress(positions={0: first + n}, next_batch=number + 1, next_ordinal=first + n)
    mark = BatchMark(number, first, first + n, (Span(0, first, first + n),))
    index.apply(Changes(progress, judgement.additions, (mark,)))
    return sketches, judgement


def _count(metrics: Metrics, judgement: Judgement) -> None:
    """Count all that the service counts for a batch."""
    n = len(judgement.decisions)
    report = BatchReport.of(
        judgement.decisions, counts=[judgement.counts], produced={"unique": n, "changelog": n},
        consumed_bytes=n, ages_seconds=np.ones(n),
    )  # fmt: skip
    metrics.batch(report)
    metrics.stages(dict.fromkeys(STAGES, 0.01))
    for activity in ACTIVITIES:
        metrics.spent(activity)
    metrics.transaction("committed", 0.01, now=0.0)
    metrics.index(n, changelog_offset=n)
    metrics.lag(0, None)
