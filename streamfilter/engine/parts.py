"""The components of one task: its ports, its rules and its limits, and how its steps end."""

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Protocol

from msgspec import Struct, field

from streamfilter.engine.batches.breaker import Breaker
from streamfilter.engine.batches.inputs import Inputs
from streamfilter.engine.batches.pace import Pace
from streamfilter.engine.batches.refusals import Refusals
from streamfilter.engine.batches.seeding import SeedSource
from streamfilter.engine.clock_and_worker import Inline
from streamfilter.engine.filter_observer import FilterObserver
from streamfilter.engine.ports import (
    Changelog,
    Clock,
    Layout,
    Member,
    Outgoing,
    RecordSource,
    Sink,
    Worker,
)
from streamfilter.engine.trimming import Trimming
from streamfilter.index.protocol import Index
from streamfilter.matching.batch import Decided, Prepared, Rules
from streamfilter.matching.blocking.retention import UNLIMITED, Retention
from streamfilter.model import Positions, Record
from streamfilter.quality.live.audit import OFF, Rates
from streamfilter.similarity.columns import I64
from streamfilter.similarity.sketch import Sketcher


class Preparer(Protocol):
    """Prepares records for the judgement: `batch_preparation.Incoming`, and the judge's."""

    @property
    def refusals(self) -> Refusals:
        """Return the records that brokers refuse."""

    def prepare(self, records: Sequence[Record], sketcher: Sketcher, clock: Clock) -> Prepared:
        """Return *records*, or the first of them, read and sketched."""


class OutputMaker(Protocol):
    """Makes what leaves: `forwarding.Forwarder`, and the judge's verdicts."""

    def begin(self, layout: Layout, writer: bytes) -> None:
        """Use the partitions of *layout*; *writer* is the name of this index and group."""

    @property
    def owes(self) -> bool:
        """Return whether a transaction is needed although no record waits."""

    def retracts(self, index: Index) -> I64:
        """Return the ordinals of documents that were not forwarded after all: to be forgotten."""

    def written(
        self, decided: Decided | None, before: Positions, after: Positions
    ) -> Sequence[Outgoing]:
        """Return what leaves with a batch, or without one, which moves *before* to *after*."""

    def committed(self) -> None:
        """Note that what was written last is committed."""


class BatchLimits(Struct, frozen=True):
    """Limits of a batch and of patience."""

    documents: int
    size: int  # bytes
    latency: float  # longest wait for a batch to fill, in seconds
    transaction_seconds: float
    socket_seconds: float  # after a longer commit, an EndTxn request may be in flight
    stuck_seconds: float = 300.0  # without a record, while another consumer gets some


class Parts(Struct, frozen=True):
    """The components of a task; the filter's steps are in `transactor.py`."""

    source: RecordSource
    sink: Sink
    changelog: Changelog
    layout: Callable[[], Layout]  # asks the brokers for the partition counts of the topics
    member: Callable[[], Member]
    clock: Clock
    observer: FilterObserver
    incoming: Preparer
    forwarder: OutputMaker
    rules: Rules
    bounds: BatchLimits
    breaker: Breaker
    pace: Pace
    worker: Worker = field(default_factory=Inline)
    inputs: Inputs = field(default_factory=lambda: Inputs(""))  # numbers of the partitions
    rates: Rates = OFF
    retention: Retention = UNLIMITED
    trimming: Trimming | None = None  # None: the changelog is kept whole
    seeds: SeedSource | None = None  # the source, if the task reads seeds instead of its input


class StepResult(Enum):
    """How a step of the loop ended."""

    STARTED = "started"  # a piece of a task's start is done; no record was moved
    MOVED = "moved"
    IDLE = "idle"
    RETRY = "retry"  # no transaction was committed: poll the membership, then step again
    DISK_FULL = "disk full"  # committed, but not written: only the write may be tried again
    SCHEMAS_AWAY = "schemas away"  # the batch waits, no transaction was begun
    TRIPPED = "tripped"  # the dead-letter breaker has tripped: no records are taken
    REPLACE = "replace"  # moved, but the producer must be replaced before the next transaction
