"""What do a probe and a write cost as the index grows to millions of documents, in time and space?

Batches of 500 documents with 16 band keys and a fingerprint each, as the pipeline sends them. The
documents are synthetic: random keys, signatures and samples of 150 tokens, as hash functions make
them of any text. Each batch's columns come from its own number, so that later any earlier document
can be asked for again. The index grows in a process of its own: only then is resident memory its.
"""

import multiprocessing
import os
import signal
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, wait
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from streamfilter.bench.machine import MIB, memory_bytes
from streamfilter.bench.measure import Measured
from streamfilter.bench.result import BenchResult, Check, Options, Row, Target
from streamfilter.index.directory.lock_and_marker import DATABASE_NAME
from streamfilter.index.directory.opening import open_index
from streamfilter.index.format import encode_documents
from streamfilter.index.protocol import Additions, Buckets, Changes, Documents
from streamfilter.index.rocks.column_families import Families
from streamfilter.index.rocks.database import Database
from streamfilter.index.rocks.options import Memory
from streamfilter.index.rocks.rocks_index import RocksIndex
from streamfilter.process.signals import INTERRUPTION, Interrupted
from streamfilter.similarity.columns import I64, Contents, Flags, Samples, distinct
from tests.bench.judging import IDENTITY, step_of
from tests.support.values import replace

SIZES_QUICK = (2_000, 5_000)
SIZES = (10_000, 100_000, 1_000_000, 2_000_000, 5_000_000, 10_000_000, 20_000_000)
USUAL = 1_000_000
"""The largest size without `--large`, and the smallest whose filters are judged."""

LOOK_SECONDS = 0.2
"""How late an interruption is heard."""

BATCH = 500
COLUMNS = 17
"""16 bands and the content fingerprint."""
SLOTS, TOKENS = 128, 150
KILLED_BATCHES = 100
"""Batches before a size, written by a process that is killed after them: more than a full run."""
WINDOW = 20_000
"""Documents before a size over which its costs are taken: some flushes and compactions."""
ASKED_BATCHES = 20
DUPLICATE_SHARE = 0.3
"""Of a batch, half of them exact copies of any earlier documents, half near ones."""
NEAR_KEYS = 7
"""Of the 16 bands, that a pair of .87 shares: each with probability .87 ** 6."""
COMPARED = 10
"""Records a batch whose bytes are held to what was written."""

Grown = tuple[list[Row], list[str]]
"""What the index costs at each size, and what it answered wrongly."""


def run(options: Options) -> BenchResult:
    """Grow an index, in a process whose resident memory is its alone."""
    most = options.large or USUAL
    sizes = SIZES_QUICK if options.quick else tuple(size for size in SIZES if size <= most)
    options.say(f"growing an index to {sizes[-1]:,} documents")
    # Spawned, not forked: RocksDB does not survive a fork, and memory would be ours too.
    context = multiprocessing.get_context("spawn")
    with INTERRUPTION.listening(), ProcessPoolExecutor(1, mp_context=context) as pool:
        growing = pool.submit(grow, sizes)
        try:
            while not wait([growing], timeout=LOOK_SECONDS).done:
                INTERRUPTION.obey()
        except Interrupted:
            for child in multiprocessing.active_children():
                child.terminate()  # it obeys, too, and takes its directory along
            raise
        return result_of(*growing.result())


def result_of(rows: Sequence[Row], wrong: Sequence[str]) -> BenchResult:
    """Return what was seen while it grew, held to what we want."""
    return BenchResult(
        {"us of processor time a document, by the size of the index": rows},
        [Check("everything written is found, nothing else is", not wrong, "; ".join(wrong[:3]))],
        list(_targets(rows)),
        settings={"batch": BATCH, "keys a document": COLUMNS, "tokens": TOKENS, "window": WINDOW,
                  "duplicates": DUPLICATE_SHARE, "miss filter, MiB": Memory().front_bytes // MIB},
        notes=[
            "probe, write, again: processor time of the thread that calls, so not what it waits; "
            "medians, the first two over the last 20,000 documents",
            "cpu: of all threads since the line above, flushes and compactions included",
            "reopen: processor time until the first answer; the killed process wrote "
            f"{KILLED_BATCHES} batches",
            "peak: most resident memory so far, so with a merge under way",
            "disk and bands: after a close, which flushes; not compacted any further",
            "again: batches with 30 % known documents, half exact, half near (7 of 16 bands), from "
            "any time, probed and their records fetched",
        ],
    )  # fmt: skip


def _targets(rows: Sequence[Row]) -> Iterator[Target]:
    at: dict[int, Any] = {int(str(row["documents"])): row for row in rows}
    cost = {n: row["probe (miss)"].median + row["write"].median for n, row in at.items()}
    last = at[max(at)]
    for size, row in at.items():
        if size >= USUAL:
            yield Target(f"a miss's probe, us, at {size:,}", row["probe (miss)"].median, 4, True)
            yield Target(f"bits a key of the filters at {size:,}", row["bits a key"], 12)
            name = f"longest write of 500 documents, ms of its thread, up to {size:,}"
            yield Target(name, row["longest write, ms"], 100, True)
    late = last["reopen after a kill s"] - last["reopen s"]
    yield Target("a start after a kill, s more than after an orderly end", late, 1, True)
    if 100_000 in at:
        yield Target("probe + write at 100 k documents, us", cost[100_000], 40, True)
        yield Target("band tables, B/doc", last["bands B/doc"], 350, True)
        yield Target("a document's record, B", last["record B"], 180 + 4 * TOKENS, True)
    for few, many, allowed in ((100_000, 2_000_000, 2.0), (2_000_000, 5_000_000, 1.25)):
        if many in at:
            name = f"probe + write at {many:,}, times that at {few:,}"
            yield Target(name, cost[many] / cost[few], allowed, True)
    if 5_000_000 in at:
        again = {n: row["probe, 30% again"].median for n, row in at.items()}
        ratio = again[5_000_000] / again[100_000]
        yield Target("30 % known at 5 M, times that at 100 k", ratio, 1.5, True)
        yield Target("resident at 5 M, MiB", at[5_000_000]["resident MiB"], 700, True)


def grow(sizes: tuple[int, ...]) -> Grown:
    """Grow an index through *sizes* (multiples of `BATCH`) and return what was seen at each."""
    rows: list[Row] = []
    wrong: list[str] = []
    with (
        INTERRUPTION.listening(),
        tempfile.TemporaryDirectory(prefix="streamfilter-bench-") as directory,
    ):
        path = Path(directory, "index")
        for begin, end in zip((0, *sizes), sizes, strict=False):
            first, last = begin // BATCH, end // BATCH
            killed = last - min(KILLED_BATCHES, (last - first) // 2)
            with closing(open_index(path, IDENTITY)) as index:
                row = _grown(index, range(first, killed))
            child = multiprocessing.get_context("spawn").Process(
                target=_grow_and_die, args=(path, killed, last)
            )
            child.start()
            child.join()
            started = time.process_time()
            with closing(open_index(path, IDENTITY)) as index:
                index.probe(keys_of(0)[:1])
                row["reopen after a kill s"] = time.process_time() - started
                row["probe, 30% again"] = a_document(_ask_again(index, end, wrong))
            started = time.process_time()
            with closing(open_index(path, IDENTITY)) as index:
                index.probe(keys_of(0)[:1])
                row["reopen s"] = time.process_time() - started
                row["disk B/doc"] = index.usage().index / end
                row["bands B/doc"] = _bands_bytes(path) / end
            rows.append({"documents": end, **row})
    return rows, wrong


def _grow_and_die(path: Path, first: int, last: int) -> None:
    """Write batches, and end as a kill does: the last ones are in RocksDB's log alone."""
    _grown(open_index(path, IDENTITY), range(first, last))
    os.kill(os.getpid(), signal.SIGKILL)


def _grown(index: RocksIndex, numbers: range) -> Row:
    """Probe and write batch after batch, as the pipeline does; return what it took."""
    probes: list[float] = []
    writes: list[float] = []
    cpu = 0.0
    for number in numbers:
        INTERRUPTION.obey()
        keys = keys_of(number)
        additions = Additions(documents_of(number), keys)
        progress, mark = step_of(number, number * BATCH, BATCH)
        used, started = time.process_time(), time.thread_time()
        buckets = index.probe(keys)
        probed = time.thread_time()
        index.apply(Changes(progress, replace(additions, buckets=buckets), (mark,)))
        writes.append(time.thread_time() - probed)
        probes.append(probed - started)
        cpu += time.process_time() - used
    last = slice(-(WINDOW // BATCH), None)
    figures = index.usage().properties
    return {
        "probe (miss)": a_document(probes[last]),
        "write": a_document(writes[last]),
        "longest write, ms": max(writes) * 1e3,
        "cpu of both": cpu / len(probes) / BATCH * 1e6,
        "resident MiB": memory_bytes("VmRSS") / MIB,
        "peak MiB": memory_bytes("VmHWM") / MIB,
        "front MiB": figures["front_bytes"] / MIB,
        "bits a key": figures.get("front_density", 0.0),
        "record B": float(np.mean([len(v) for v in encode_documents(documents_of(0))])),
    }


def _ask_again(index: RocksIndex, size: int, wrong: list[str]) -> list[float]:
    """Probe batches with earlier documents among new ones, fetch those; return seconds.

    As the pipeline asks: for an exact copy by its fingerprint alone, else by all keys.
    """
    seconds: list[float] = []
    rng = np.random.default_rng([size, 2])
    again = round(BATCH * DUPLICATE_SHARE)
    for turn in range(ASKED_BATCHES):
        INTERRUPTION.obey()
        known = np.sort(rng.choice(size, again, replace=False))
        exact = rng.permutation(again) < again // 2
        keys = keys_of(size // BATCH + 1_000_000 + turn)
        theirs = np.concatenate([keys_of(at // BATCH)[at % BATCH, None] for at in known.tolist()])
        keys[:again, :NEAR_KEYS] = theirs[:, :NEAR_KEYS]
        keys[:again][exact, -1] = theirs[exact, -1]
        present = np.ones(keys.shape, np.bool_)
        present[:again][exact, :-1] = False
        started = time.thread_time()
        buckets = index.probe(keys, present)
        fetched = index.fetch(distinct(buckets.ordinals))
        seconds.append(time.thread_time() - started)
        wrong += _mistakes(buckets, fetched, known, exact)
    if len(index) != size:
        wrong.append(f"{len(index)} documents instead of {size}")
    return seconds


def _mistakes(buckets: Buckets, fetched: Documents, known: I64, exact: Flags) -> Iterator[str]:
    """Say what is not as it was written: nothing lost, nothing found that is not there."""
    expected = np.zeros(buckets.counts.shape, buckets.counts.dtype)
    expected[: len(known)][exact, -1] = 1
    expected[: len(known)][~exact, :NEAR_KEYS] = 1
    if not np.array_equal(buckets.counts, expected):
        yield f"documents {known[:3]} and so on: a key was lost, or found that was never written"
    if not np.array_equal(buckets.ordinals, np.repeat(known, np.where(exact, 1, NEAR_KEYS))):
        yield f"documents {known[:3]} and so on: a bucket lists other documents"
    for place, ordinal in enumerate(known[:COMPARED].tolist()):
        theirs, row = documents_of(ordinal // BATCH).contents, ordinal % BATCH
        ours = fetched.contents.samples.tokens[place * TOKENS : (place + 1) * TOKENS]
        if not np.array_equal(ours, theirs.samples.tokens[row * TOKENS : (row + 1) * TOKENS]):
            yield f"document {ordinal}: other tokens came back"
        for name in ("fingerprints", "signatures"):
            if not np.array_equal(
                getattr(fetched.contents, name)[place], getattr(theirs, name)[row]
            ):
                yield f"document {ordinal}: other {name} came back"


def _bands_bytes(path: Path) -> int:
    """Return the bytes of the band tables, beside the process's own open index."""
    memory = Memory(front_bytes=0)
    with tempfile.TemporaryDirectory(prefix="streamfilter-bench-") as notes:
        view = Database(path / DATABASE_NAME, memory=memory, create=False, notes=Path(notes))
        with closing(view):
            return int(view.figure(Families.of(0).bands, "live-sst-files-size"))


def a_document(seconds: list[float]) -> Measured:
    """Return microseconds a document of batches that took so many *seconds*."""
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
