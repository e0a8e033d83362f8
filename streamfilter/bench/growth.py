"""A growing index, written and probed batch by batch in a process of its own.

The documents are synthetic: random keys, signatures and samples of 150 tokens, as hash
functions make them of any text. Each batch's columns come from its own number, so that later
any earlier document can be asked for again. A process of its own, because resident memory is
only then the index's.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from streamfilter.bench.machine import resident_bytes
from streamfilter.bench.measure import Measured
from streamfilter.index.directory import DATABASE_NAME
from streamfilter.index.format import FORMAT, encode_documents
from streamfilter.index.identity import Identity
from streamfilter.index.opening import open_index
from streamfilter.index.options import Memory
from streamfilter.index.protocol import Additions, Buckets, Changes, Documents, Progress
from streamfilter.index.rocks import RocksIndex
from streamfilter.index.store import BANDS, Database
from streamfilter.model import BatchMark, Span
from streamfilter.process.signals import INTERRUPTION
from streamfilter.similarity.columns import Contents, Samples

BATCH = 500
COLUMNS = 17
"""16 bands and the content fingerprint."""
SLOTS, TOKENS = 128, 150
WINDOW = 20_000
"""Documents before a checkpoint over which its costs are taken: some flushes and compactions."""
ASKED_BATCHES = 20
DUPLICATE_SHARE = 0.3

IDENTITY = Identity("00" * 16, FORMAT, "benchmark", f'{{"slots":{SLOTS}}}', bytes(16), 0, "15.0.0")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What the index costs at one size, in microseconds a document."""

    documents: int
    probe: Measured
    """Wall time of probing new keys (all misses), batch by batch while growing."""
    write: Measured
    cpu: float
    """Processor time of probe and write since the last checkpoint, background threads included."""
    duplicates: Measured
    """Probing batches in which `DUPLICATE_SHARE` have all keys of an earlier document, and
    fetching those documents."""
    resident_bytes: int
    disk_bytes: int
    """All files after a close, which flushes: tables, notes, what is left of the log."""
    bands_bytes: int
    """The band tables of them."""
    document_bytes: float
    """Of a document's record, as encoded."""
    reopen_seconds: float
    wrong: tuple[str, ...]
    """What the index answered wrongly."""


@dataclass(slots=True)
class _Costs:
    """What the batches since the last checkpoint took, in seconds."""

    probe: list[float]
    write: list[float]
    cpu: float = 0.0


def grow(sizes: tuple[int, ...]) -> list[Checkpoint]:
    """Grow an index through *sizes* (multiples of `BATCH`) and return what was seen at each."""
    with (
        INTERRUPTION.listening(),
        tempfile.TemporaryDirectory(prefix="streamfilter-bench-") as directory,
    ):
        path = Path(directory, "index")
        found: list[Checkpoint] = []
        index = open_index(path, IDENTITY)
        try:
            for begin, end in zip((0, *sizes), sizes, strict=False):
                costs = _Costs([], [])
                for number in range(begin // BATCH, end // BATCH):
                    INTERRUPTION.obey()
                    _add(index, number, costs)
                checkpoint = _look(index, end, costs)
                index.close()
                index, seconds = _reopened(path)
                found.append(
                    replace(
                        checkpoint,
                        reopen_seconds=seconds,
                        disk_bytes=index.disk()[0],
                        bands_bytes=_bands_bytes(path),
                    )
                )
        finally:
            index.close()
        return found


def _add(index: RocksIndex, number: int, costs: _Costs) -> None:
    """Probe and write one batch, as the pipeline does."""
    keys = keys_of(number)
    additions = Additions(documents_of(number), keys)
    first = number * BATCH
    progress = Progress(positions={0: first + BATCH}, next_batch=number + 1,
                        next_ordinal=first + BATCH)  # fmt: skip
    mark = BatchMark(number, first, first + BATCH, (Span(0, first, first + BATCH),))
    cpu, started = time.process_time(), time.perf_counter()
    buckets = index.probe(keys)
    probed = time.perf_counter()
    index.apply(Changes(progress, replace(additions, buckets=buckets), (mark,)))
    costs.write.append(time.perf_counter() - probed)
    costs.probe.append(probed - started)
    costs.cpu += time.process_time() - cpu


def _look(index: RocksIndex, size: int, costs: _Costs) -> Checkpoint:
    resident = resident_bytes()
    last = slice(-(WINDOW // BATCH), None)
    duplicates, wrong = _ask_again(index, size)
    return Checkpoint(
        size,
        probe=_a_document(costs.probe[last]),
        write=_a_document(costs.write[last]),
        cpu=costs.cpu / len(costs.probe) / BATCH * 1e6,
        duplicates=_a_document(duplicates),
        resident_bytes=resident,
        disk_bytes=0,
        bands_bytes=0,
        document_bytes=float(np.mean([len(v) for v in encode_documents(documents_of(0))])),
        reopen_seconds=0.0,
        wrong=tuple(wrong),
    )


def _ask_again(index: RocksIndex, size: int) -> tuple[list[float], list[str]]:
    """Probe batches with earlier documents among new ones; return seconds, and what was wrong."""
    seconds: list[float] = []
    wrong: list[str] = []
    rng = np.random.default_rng([size, 2])
    again = round(BATCH * DUPLICATE_SHARE)
    batches = size // BATCH
    for turn in range(ASKED_BATCHES):
        number = int(rng.integers(batches))
        keys = keys_of(batches + 1_000_000 + turn)
        keys[:again] = keys_of(number)[:again]
        started = time.perf_counter()
        buckets = index.probe(keys)
        fetched = index.fetch(np.unique(buckets.ordinals))
        seconds.append(time.perf_counter() - started)
        wrong += _mistakes(buckets, fetched, number, again)
    if len(index) != size:
        wrong.append(f"{len(index)} documents instead of {size}")
    return seconds, wrong


def _mistakes(buckets: Buckets, fetched: Documents, number: int, again: int) -> Iterator[str]:
    """Say what is not as it was written: nothing lost, nothing found that is not there."""
    if not (buckets.counts[:again] == 1).all():
        yield f"batch {number}: a key was lost"
    if buckets.counts[again:].any():
        yield f"batch {number}: a key was found that nobody wrote"
    expected = np.arange(number * BATCH, number * BATCH + again)
    if not np.array_equal(buckets.ordinals, np.repeat(expected, COLUMNS)):
        yield f"batch {number}: a bucket lists other documents"
    found, written = fetched.contents, documents_of(number).contents
    for name in ("fingerprints", "signatures"):
        if not np.array_equal(getattr(found, name), getattr(written, name)[:again]):
            yield f"batch {number}: other {name} came back"
    if not np.array_equal(found.samples.tokens, written.samples.tokens[: again * TOKENS]):
        yield f"batch {number}: other tokens came back"


def _reopened(path: Path) -> tuple[RocksIndex, float]:
    """Open the index and answer one probe."""
    started = time.perf_counter()
    index = open_index(path, IDENTITY)
    index.probe(keys_of(0)[:1])
    return index, time.perf_counter() - started


def _bands_bytes(path: Path) -> int:
    """Return the bytes of the band tables, beside the process's own open index."""
    with tempfile.TemporaryDirectory(prefix="streamfilter-bench-") as notes:
        memory = Memory(front_bytes=0)
        view = Database(path / DATABASE_NAME, memory=memory, create=False, follower=Path(notes))
        try:
            return view.table_bytes(BANDS)
        finally:
            view.close()


def _a_document(seconds: list[float]) -> Measured:
    return Measured.of([each / BATCH * 1e6 for each in seconds])


def keys_of(number: int) -> np.ndarray[tuple[int, int], np.dtype[np.uint64]]:
    """Return the keys of batch *number*."""
    rng = np.random.default_rng([number, 0])
    return rng.integers(0, 2**64, (BATCH, COLUMNS), np.uint64)


def documents_of(number: int) -> Documents:
    """Return the documents of batch *number*."""
    rng = np.random.default_rng([number, 1])
    first = number * BATCH
    rows = np.arange(first, first + BATCH)
    tokens = rng.integers(0, 2**32 - TOKENS, (BATCH, TOKENS), np.uint64)
    tokens.sort(axis=1)
    tokens += np.arange(TOKENS, dtype=np.uint64)  # strictly rising
    return Documents(
        ordinals=rows,
        ids=[f"document-{row:010d}" for row in rows.tolist()],
        batches=np.full(BATCH, number),
        partitions=np.zeros(BATCH, np.int64),
        offsets=rows,
        timestamps=np.full(BATCH, 1_700_000_000_000),
        contents=Contents(
            fingerprints=rng.integers(0, 256, (BATCH, 16), np.uint8),
            signatures=rng.integers(0, 256, (BATCH, SLOTS), np.uint8),
            samples=Samples(
                tokens.astype(np.uint32).reshape(-1),
                np.arange(0, BATCH * TOKENS + 1, TOKENS),
                np.full(BATCH, TOKENS),
            ),
        ),
    )
