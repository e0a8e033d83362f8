"""What do a probe and a write cost as the index grows to millions of documents, in time and space?

Batches of 500 documents with 16 band keys and a fingerprint each, as the pipeline sends them.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, wait

from streamfilter.bench import growth
from streamfilter.bench.growth import Checkpoint
from streamfilter.bench.options import Options
from streamfilter.bench.outcome import BenchResult, Check, Row, Table, Target
from streamfilter.process.signals import INTERRUPTION, Interrupted

NAME = "index"

SIZES_QUICK = (2_000, 5_000)
SIZES = (10_000, 100_000, 1_000_000)
SIZES_LARGE = (*SIZES, 2_000_000, 5_000_000)

MIB = 1 << 20

LOOK_SECONDS = 0.2
"""How late an interruption is heard."""


def run(options: Options) -> BenchResult:
    """Grow an index, in a process of its own."""
    sizes = SIZES_QUICK if options.quick else SIZES_LARGE if options.large else SIZES
    options.say(f"growing an index to {sizes[-1]:,} documents")
    # Spawned, not forked: RocksDB does not survive a fork, and memory would be ours too.
    context = multiprocessing.get_context("spawn")
    with INTERRUPTION.listening(), ProcessPoolExecutor(1, mp_context=context) as pool:
        growing = pool.submit(growth.grow, sizes)
        try:
            while not wait([growing], timeout=LOOK_SECONDS).done:
                INTERRUPTION.obey()
        except Interrupted:
            for child in multiprocessing.active_children():
                child.terminate()  # it obeys, too, and takes its directory along
            raise
        return outcome_of(growing.result())


def outcome_of(checkpoints: Sequence[Checkpoint]) -> BenchResult:
    """Return what *checkpoints* say."""
    wrong = [each for checkpoint in checkpoints for each in checkpoint.wrong]
    return BenchResult(
        NAME, __doc__.splitlines()[0],
        [Table("costs by size (us a document, wall time)", [_row(each) for each in checkpoints])],
        [Check("everything written is found, nothing else is", not wrong, "; ".join(wrong[:3]))],
        _targets(checkpoints),
        settings={
            "batch": growth.BATCH, "keys a document": growth.COLUMNS, "tokens": growth.TOKENS,
            "window": growth.WINDOW, "duplicates": growth.DUPLICATE_SHARE,
        },
        notes=[
            "probe and write: medians over the last 20,000 documents; cpu: everything since the "
            "line above, flushes and compactions included",
            "disk and bands: after a close, which flushes; not compacted any further",
            "again: batches with 30 % known documents, probed and their records fetched",
        ],
    )  # fmt: skip


def _row(at: Checkpoint) -> Row:
    return {
        "documents": at.documents,
        "probe (miss)": at.probe,
        "write": at.write,
        "cpu of both": at.cpu,
        "probe, 30% again": at.duplicates,
        "resident MiB": at.resident_bytes / MIB,
        "disk B/doc": at.disk_bytes / at.documents,
        "record B": at.document_bytes,
        "bands B/doc": _bands(at),
        "reopen s": at.reopen_seconds,
    }


def _bands(at: Checkpoint) -> float:
    return at.bands_bytes / at.documents


def _targets(checkpoints: Sequence[Checkpoint]) -> list[Target]:
    by_size = {each.documents: each for each in checkpoints}
    total = {size: each.probe.median + each.write.median for size, each in by_size.items()}
    found = [Target("a miss's probe, us, at the largest size",
                    checkpoints[-1].probe.median, 3, at_most=True)]  # fmt: skip
    if 100_000 in total:
        name = "probe + write at 100 k documents, us"
        found.append(Target(name, total[100_000], 40, at_most=True))
        last = checkpoints[-1]
        found.append(Target("band tables, B/doc", _bands(last), 350, at_most=True))
        record = 180 + 4 * growth.TOKENS
        found.append(Target("a document's record, B", last.document_bytes, record, at_most=True))
    if 2_000_000 in total:
        name = "probe + write at 2 M, times that at 100 k"
        found.append(Target(name, total[2_000_000] / total[100_000], 2, at_most=True))
    if 5_000_000 in total:
        name = "probe + write at 5 M, times that at 2 M"
        found.append(Target(name, total[5_000_000] / total[2_000_000], 1.25, at_most=True))
        resident = by_size[5_000_000].resident_bytes / MIB
        found.append(Target("resident at 5 M, MiB", resident, 700, at_most=True))
    return found
