"""Capacity of an index for a number of documents: disk, RAM, changelog, and time to restore.

These are estimates for planning. All measured figures of the package are in this file. The tests
check them against the saved runs (`tests/bench_runs`) and against the bytes that are written.
"""

from datetime import timedelta
from math import isnan, nan

from msgspec import Struct

from streamfilter.index.bands.bloom_filter import pass_rate_of, passing
from streamfilter.index.rocks.options import MIB, RECENT_BYTES, Memory
from streamfilter.index.rocks.window_runs import BITS
from streamfilter.matching.blocking.retention import PARTS, Retention
from streamfilter.similarity.statistics.shape import Shape

PROCESS_BYTES = 60 * MIB
"""Resident bytes of a process with an empty index."""

MERGING = 2
"""Most bytes of the filters, times those at rest: a merge makes the filter of a new run, and places
for filters side by side are made before they are used."""

RESTORED_A_SECOND = 24_200
"""Documents a second that an empty index restores from its changelog (restore.json)."""

FRAME_BYTES = 20
"""Bytes of a changelog record beside the document's own: ten are ours, about ten are Kafka's."""

FRONT_FILTERS = 12
"""Filters of a large index: up to seven runs of a size, and one run of each closed window."""

FRONT_STEP = 32 * MIB  # advice on a front's memory is rounded up to a multiple of this

FRONT_SMALLEST = 8 * MIB
"""Of the filters of the smallest runs, which have more bits for each key."""

ENOUGH_BITS = 16  # for each key: 1 % of the new keys pass all filters of a large index

PASSING_MUCH = 0.05  # share of the new keys above which the front costs more time than memory

TELLING = 0.01
"""Least share of the retention that must have passed before the final size is estimated."""


class Capacity(Struct, frozen=True):
    """Needs of an index that remembers as many documents as it ever will."""

    documents: int
    """Remembered documents, if all arrivals are unique; duplicates take almost no space."""
    stored: int
    """Documents on disk, forgotten ones included: these are dropped with their whole window. That
    is a quarter more than remembered, except for a time after a limit was raised
    (`matching.retention`)."""
    disk_bytes: int
    memory_bytes: int
    changelog_bytes: int  # size of one replica, from the beginning of the oldest window
    restore: timedelta  # time to restore from the changelog, for a process with an empty directory
    front_passes: float
    """Share of the new keys that the front lets through to RocksDB; each costs a read."""
    front_bytes_advised: int  # with it, the filters of the index have `ENOUGH_BITS` for each key


def remembered(*, rate: float | None, retention: timedelta | None, most: int | None) -> int | None:
    """Return how many documents are remembered, by the tighter bound; None: there is none."""
    by_time = rate * retention.total_seconds() if rate is not None and retention else None
    bounds = [round(bound) for bound in (by_time, most) if bound is not None]
    return min(bounds, default=None)


def capacity(shape: Shape, documents: int, *, shingles: int, memory: Memory) -> Capacity:
    """Return the needs of an index that remembers *documents* of *shingles* in the mean."""
    stored = documents + -(-documents // PARTS)
    each = shape.bytes_per_document(shingles=shingles)
    record = shape.record_bytes(shingles=shingles)
    keys = stored * (shape.bands + 1)  # + 1 for the fingerprint
    front_bytes = min(memory.front_bytes, keys * BITS // 8)
    return Capacity(
        documents=documents,
        stored=stored,
        disk_bytes=stored * each,
        memory_bytes=resident_bytes(keys, stored * each, memory),
        changelog_bytes=stored * (record + FRAME_BYTES),
        restore=timedelta(seconds=round(stored / RESTORED_A_SECOND)),
        front_passes=passing([pass_rate_of(front_bytes, keys)] * FRONT_FILTERS),
        front_bytes_advised=front_bytes_for(keys),
    )


def front_bytes_for(keys: int) -> int:
    """Return the bytes with which the filters of an index of *keys* have `ENOUGH_BITS` for each.

    A run of more than half of the keys has fewer, 8 at least.
    """
    return -(-(keys * ENOUGH_BITS // 8 + FRONT_SMALLEST) // FRONT_STEP) * FRONT_STEP


def expected_bytes(stored: int, retention: Retention, *, judged: int, age: float) -> float:
    """Return the bytes of an index once its *retention* is reached, at the rate so far.

    Forgotten documents that wait for the end of their window are included. The result is NaN if
    nothing is ever forgotten, or if too few documents have arrived for an estimate. *stored* are
    its bytes now; *age*: milliseconds from its oldest document to the latest, or NaN.
    """
    shares = [judged / retention.documents] if retention.documents else []
    shares += [age / retention.time] if retention.time and not isnan(age) else []
    reached = max(shares, default=0.0)
    if reached < TELLING:
        return nan
    return float(stored) if reached >= 1 else stored / reached * (1 + 1 / PARTS)


def resident_bytes(keys: int, disk_bytes: int, memory: Memory) -> int:
    """Return the most resident bytes of a process with an index of *keys* and *disk_bytes*.

    Caches, buffers and recent keys grow with half of the index up to their bounds, and so do the
    filters with its keys.
    """
    caches = memory.cache_bytes + memory.memtable_bytes + memory.run_keys * RECENT_BYTES
    filters = min(memory.front_bytes, keys * BITS // 8)
    return PROCESS_BYTES + min(caches, disk_bytes // 2) + MERGING * filters
