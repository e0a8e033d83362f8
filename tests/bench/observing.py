"""What share of the time do metrics, logging and the audit take?

Batches are sketched, judged and written as in the service. After each one a sample is audited by
the default rates, the service's counters are fed, and a line is logged. Metrics are scraped every
fifteen seconds of work. The audit gets its time as in the service
(`engine.auditing`): a share of all that passes, what choosing costs taken off it.
"""

import logging
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO

import numpy as np

from streamfilter.bench import texts
from streamfilter.bench.measure import Measured
from streamfilter.bench.result import BenchResult, Check, Options, Target
from streamfilter.bench.sketching import sketcher
from streamfilter.config.configuration import Config
from streamfilter.engine.clock_and_worker import SystemClock
from streamfilter.matching.pipeline import Judgement
from streamfilter.matching.verdict.policy import MatchPolicy
from streamfilter.monitoring.batch_report import BatchReport
from streamfilter.monitoring.catalogue import ACTIVITIES, STAGES
from streamfilter.monitoring.metrics import Metrics
from streamfilter.process.logs import configure
from streamfilter.quality.live.audit import Audit, Rates
from streamfilter.quality.live.audit_pace import Auditing
from tests.bench.judging import BatchFilter, fresh_index

BATCH = 1_000
DOCUMENTS = {True: 2_000, False: 20_000}
SCRAPE_SECONDS = 15.0
SCRAPES = 20
RATES = Rates(Config().audit.arrivals, Config().audit.time)
Spent = defaultdict[str, float]
PARTS = ("work", "metrics", "logging", "audit")


class ProcessorClock(SystemClock):
    """What the process has used: other processes on the machine do not count."""

    def monotonic(self) -> float:
        """Return the processor's seconds of this process."""
        return time.process_time()


def run(options: Options) -> BenchResult:
    """Judge batches and observe them, several times."""
    count = DOCUMENTS[options.quick]
    documents = texts.mixed(texts.documents("english", 1_024, count, seed=5), share=0.3, seed=5)
    runs: list[Spent] = []
    counted = 0.0
    for turn in range(options.repeat):
        options.say(f"turn {turn + 1} of {options.repeat}")
        metrics = Metrics()
        metrics.describe(sketcher("word-3").scheme, threshold=MatchPolicy().threshold)
        runs.append(_observed(documents, metrics))
        counted = metrics.value("records_consumed_total")
    share = Measured.of([_watching(each) * 100 for each in runs])
    audit = Measured.of([each["audit"] / each["work"] * 100 for each in runs])
    row = {name: Measured.of([each[name] / count * 1e6 for each in runs]) for name in PARTS}
    scrape = Measured.of([each["scrape"] * 1e3 for each in runs])
    return BenchResult(
        {"us a document": [{**row, "audit %": audit, "a scrape, ms": scrape, "share %": share}]},
        [Check("every document was counted", counted == count, f"{counted} of {count}")],
        [Target("share of metrics and logging, %", share.median, 2, at_most=True),
         Target("share of the audit, %", audit.median, 2.1, at_most=True)],
        settings={"batch": BATCH, "documents": count, "scrape every s": SCRAPE_SECONDS},
        notes=["work: sketch, judge and write; with Kafka's part of the work all shares are lower"],
    )  # fmt: skip


def _watching(seconds: Spent) -> float:
    """Return what part of the whole is metrics, logging and scrapes."""
    watched = seconds["metrics"] + seconds["logging"]
    watching = watched + seconds["scrape"] * (seconds["work"] + watched) / SCRAPE_SECONDS
    return watching / (seconds["work"] + watching)


def _observed(documents: list[str], metrics: Metrics) -> Spent:
    """Return the processor seconds of each part; "scrape" is of one scrape."""
    spent: Spent = defaultdict(float)
    ours, logger = sketcher("word-3"), logging.getLogger("streamfilter.bench")

    @contextmanager
    def clock(part: str) -> Iterator[None]:
        started = time.process_time()
        yield
        spent[part] += time.process_time() - started

    with _logging_to_memory(), fresh_index() as index:
        service = BatchFilter(index, ours)
        audit = Audit(RATES, MatchPolicy(), index, ours.keys_of)
        auditing = Auditing(audit, ProcessorClock().monotonic, metrics.audited, share=RATES.time)
        for begin in range(0, len(documents), BATCH):
            with clock("work"):
                sketches, judged = service.take(documents[begin : begin + BATCH])
            with clock("audit"):
                auditing.choose(sketches, judged, first_ordinal=begin)
                auditing.look()
            with clock("metrics"):
                _count(metrics, judged)
            with clock("logging"):
                logger.info("batch %d committed", begin // BATCH)
    with clock("scrape"):
        for _ in range(SCRAPES):
            metrics.expose()
    spent["scrape"] /= SCRAPES
    return spent


@contextmanager
def _logging_to_memory() -> Iterator[None]:
    """Log as the service does, but to memory; put everything back after."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    configure("info", "json", stream=StringIO())
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)


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
    metrics.set(index_documents=n, index_windows=1, changelog_offset=n)
    metrics.lag(0, None)
