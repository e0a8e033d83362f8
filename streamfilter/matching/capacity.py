"""What a memory of so many documents takes: disk, RAM, changelog, and the time to restore it.

Estimates for an operator who plans one. What was measured stands here, and nowhere else in the
package; the tests hold it to the saved runs (`tests/bench_runs`) and to the bytes themselves.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from math import isnan, nan

import numpy as np

from streamfilter.index.front import expected_pass_rate
from streamfilter.index.options import MIB, Memory
from streamfilter.index.protocol import WINDOWS_MAX
from streamfilter.matching.retention import PARTS, Retention
from streamfilter.similarity.shape import Shape

RESIDENT_MIB = {
    10_000: 71, 100_000: 152, 1_000_000: 393, 2_000_000: 465, 5_000_000: 578, 10_000_000: 609,
    20_000_000: 635,
}  # fmt: skip
"""Of a process with an index of so many documents and the default memory (index.json). What grows
are caches and a front, all of them bounded: above the last size it stays."""

RESTORED_A_SECOND = 12_300
"""Documents that an empty index takes from its changelog: a million in 81 s, with the broker on
two busy cores (standby.json); shorter ones took 22,200 a second (kafka.json)."""

FRAME_BYTES = 20
"""Of a changelog record, beside the document's own: ten are ours, about ten are Kafka's."""

FRONT_BITS_PER_KEY = 20
"""With which a front lets less than half a percent of the new keys pass (`index.front`)."""

FRONT_STEP = 32 * MIB
"""In which a front's memory is advised."""

TELLING = 0.01
"""Of a retention: what came in less of it tells nothing of the rest."""


@dataclass(frozen=True, slots=True)
class Capacity:
    """What an index takes once it remembers as much as it ever will."""

    documents: int
    """Remembered, if all that arrive are unique: those that are not take next to nothing."""
    stored: int
    """With those that are forgotten, and go with the rest of their window: a quarter more, but for
    a while after a limit was raised (`matching.retention`)."""
    disk_bytes: int
    memory_bytes: int
    changelog_bytes: int
    """From the oldest window's beginning on; of one copy."""
    restore: timedelta
    """From the changelog, for a process with an empty directory."""
    front_passes: float
    """Share of the new keys that the front lets through to RocksDB, a read each."""
    front_bytes_advised: int
    """What the front would need to let next to none through."""


def remembered(*, rate: float | None, retention: timedelta | None, most: int | None) -> int | None:
    """Return how many documents are remembered, whichever bound comes first; None: no end.

    Args:
        rate: Documents a second.
        retention: How long one is remembered.
        most: How many are, however old.
    """
    by_time = rate * retention.total_seconds() if rate is not None and retention else None
    bounds = [round(bound) for bound in (by_time, most) if bound is not None]
    return min(bounds, default=None)


def capacity(shape: Shape, documents: int, *, shingles: int, memory: Memory) -> Capacity:
    """Return what an index with keys of *shape* takes that remembers so many *documents*.

    Args:
        shape: Of the keys.
        documents: How many are remembered, of those that are forgotten some day.
        shingles: Of a document, in the mean.
        memory: The bounds of the index.
    """
    stored = documents + -(-documents // PARTS)
    each = shape.bytes_per_document(shingles=shingles)
    record = shape.record_bytes(shingles=shingles)
    keys = -(-documents // PARTS) * (shape.bands + 1)  # of a window; one is the fingerprint's
    return Capacity(
        documents=documents,
        stored=stored,
        disk_bytes=stored * each,
        memory_bytes=_resident(stored, memory),
        changelog_bytes=stored * (record + FRAME_BYTES),
        restore=timedelta(seconds=round(stored / RESTORED_A_SECOND)),
        front_passes=_front_passes(memory.front_bytes, keys),
        front_bytes_advised=-(-keys * WINDOWS_MAX * FRONT_BITS_PER_KEY // 8 // FRONT_STEP)
        * FRONT_STEP,
    )


def _front_passes(front_bytes: int, keys: int) -> float:
    """Return the share of new keys that pass one of the fronts of all windows, of *keys* each."""
    passing = expected_pass_rate(front_bytes // WINDOWS_MAX, keys)
    return float(1 - (1 - passing) ** WINDOWS_MAX)


def expected_bytes(stored: int, retention: Retention, *, judged: int, age: float) -> float:
    """Return what an index of *stored* bytes will take once its *retention* is reached.

    At the rate so far, with the part that waits for the end of its window. NaN: all is remembered,
    or too little has come to tell.

    Args:
        stored: Its bytes now.
        retention: How much it remembers.
        judged: Documents that were judged within what it remembers.
        age: Milliseconds from the oldest of them to the latest; NaN: unknown.
    """
    shares = [judged / retention.documents] if retention.documents else []
    shares += [age / retention.time] if retention.time and not isnan(age) else []
    reached = max(shares, default=0.0)
    if reached < TELLING:
        return nan
    return float(stored) if reached >= 1 else stored / reached * (1 + 1 / PARTS)


def _resident(documents: int, memory: Memory) -> int:
    """Return what was seen of such an index, and what its bounds are above the default ones."""
    sizes, seen = list(RESIDENT_MIB), list(RESIDENT_MIB.values())
    at_default = float(np.interp(np.log(max(documents, 1)), np.log(sizes), seen)) * MIB
    return round(at_default) + bound_of(memory) - bound_of(Memory())


def bound_of(memory: Memory) -> int:
    """Return what the caches, buffers and the front of an index may take together."""
    return memory.cache_bytes + memory.memtable_bytes + memory.front_bytes
