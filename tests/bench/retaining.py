"""Does an index that forgets stay as it is: disk, memory, cost of a document, over ten retentions?

The documents and batches of `indexing`; the last N are remembered. While the first N and
two quarters come, an index of one window that forgets nothing gets the same batches in turns: what
the one holds in five windows, the other holds in one, and what that costs is seen. The one that
forgets goes on alone until ten times N have come.
"""

import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from streamfilter.bench.machine import MIB, memory_bytes
from streamfilter.bench.measure import Measured, ratios
from streamfilter.bench.result import BenchResult, Check, Options, Row, Target
from streamfilter.index.directory.opening import open_index
from streamfilter.index.protocol import WINDOWS_MAX, Additions, Changes
from streamfilter.index.rocks.rocks_index import RocksIndex
from streamfilter.matching.blocking.retention import PARTS, UNLIMITED, Retention
from streamfilter.process.signals import INTERRUPTION
from tests.bench.indexing import (
    BATCH,
    COLUMNS,
    TOKENS,
    Grown,
    a_document,
    documents_of,
    in_its_own_process,
    keys_of,
)
from tests.bench.judging import IDENTITY, step_of

QUICK, USUAL, LARGE = 4_000, 20_000, 1_000_000
"""Documents that are remembered."""
PERIODS = 10
FULL = 2
"""The period from which on as much is stored as ever will be."""
TURN = 10
"""Batches that one of two indexes gets before it is the other's turn."""
FAMILIES = 4
"""Of a window that is gone; each of the next writes drops one."""
ASKED = 20
"""Batches of each period whose documents are looked for."""

BESIDE, THROUGH = "beside one window, us a document", "period by period"
FLAT = ("disk MB", "resident MiB", "probe + write", "front pass rate")


@dataclass(slots=True)
class Took:
    """What each batch took: the calling thread's processor time, or the clock's."""

    probes: list[float] = field(default_factory=list)
    writes: list[float] = field(default_factory=list)
    begins: list[float] = field(default_factory=list)
    """By the clock: the families of the next window are made."""
    drops: list[float] = field(default_factory=list)
    """By the clock: a write that drops a family of the window before."""

    @property
    def both(self) -> list[float]:
        """Return what each batch's probe and write took together."""
        return [probe + write for probe, write in zip(self.probes, self.writes, strict=True)]


class Subject:
    """An index that is given batch after batch, with one *retention*."""

    def __init__(self, index: RocksIndex, retention: Retention) -> None:
        self.index, self.retention, self.seconds = index, retention, Took()
        self._left = 0
        """Families to drop."""

    def take(self, number: int) -> None:
        """Probe and write batch *number*, as the pipeline does."""
        keys, documents = keys_of(number), documents_of(number)
        first = np.full(1, -1, np.int64)  # a window begins with a batch: nothing else cuts them
        extent = self.retention.extent(self.index.progress, self.index.windows, times=first)
        progress, mark = step_of(number, number * BATCH, BATCH)
        progress = replace(progress, horizon=extent.horizon)
        mark = replace(mark, horizon=extent.horizon)
        if extent.opens is not None:
            self._begin()
        before = self.index.windows
        used = time.thread_time()
        buckets = self.index.probe(keys)
        probed, started = time.thread_time(), time.perf_counter()
        additions = Additions(documents, keys, buckets=buckets)
        self.index.apply(Changes(progress, additions, (mark,), opens=extent.opens))
        self.seconds.probes.append(probed - used)
        self.seconds.writes.append(time.thread_time() - probed)
        if self._left:
            self.seconds.drops.append(time.perf_counter() - started)
            self._left -= 1
        if self.index.windows[0] != before[0]:
            self._left += FAMILIES

    def _begin(self) -> None:
        started = time.perf_counter()
        self.index.prepare()
        self.seconds.begins.append(time.perf_counter() - started)


def run(options: Options) -> BenchResult:
    """Let an index remember, and forget, in a process of its own."""
    remembered = QUICK if options.quick else LARGE if options.large else USUAL
    options.say(f"remembering {remembered:,} documents while {PERIODS} times as many come")
    return result_of(remembered, *in_its_own_process(live, remembered))


def live(remembered: int) -> Grown:
    """Remember so many documents (a multiple of 4 `BATCH`) through all periods."""
    wrong: list[str] = []
    with (
        INTERRUPTION.listening(),
        tempfile.TemporaryDirectory(prefix="streamfilter-bench-") as directory,
    ):
        paths = [Path(directory, name) for name in ("one", "five")]
        with closing(open_index(paths[1], IDENTITY)) as index:
            forgetting = Subject(index, Retention(documents=remembered))
            with closing(open_index(paths[0], IDENTITY)) as other:
                rows = [_in_turns(Subject(other, UNLIMITED), forgetting, remembered)]
            for period in range(FULL, PERIODS + 1):
                rows.append(_through(forgetting, period, remembered))
                wrong += _mistakes(index, remembered)
    return rows, wrong


def _in_turns(one: Subject, five: Subject, remembered: int) -> Row:
    """Give both the same batches, in turns, until five windows have been full for a while."""
    batches = remembered * (PARTS + 2) // PARTS // BATCH
    for start in range(0, batches, TURN):
        for memory in (one, five)[:: 1 if start // TURN % 2 else -1]:
            for number in range(start, min(start + TURN, batches)):
                INTERRUPTION.obey()
                memory.take(number)
    last = slice(remembered // BATCH, None)
    costs = [_by_turns(each.seconds.both[last]) for each in (one, five)]
    return {
        "documents": remembered,
        "one window": a_document(one.seconds.both[last]),
        "five windows": a_document(five.seconds.both[last]),
        "five / one": ratios(costs[0], costs[1]),
    }


def _by_turns(seconds: list[float]) -> list[float]:
    return [sum(seconds[start : start + TURN]) for start in range(0, len(seconds), TURN)]


def _through(memory: Subject, period: int, remembered: int) -> Row:
    """Go on to the end of *period*, and say how it was."""
    index, memory.seconds = memory.index, Took()
    for number in range(index.progress.next_batch, period * remembered // BATCH):
        INTERRUPTION.obey()
        memory.take(number)
    figures, seconds = index.usage().properties, memory.seconds
    return {
        "period": period,
        "remembered": len(index),
        "windows": len(index.windows),
        "disk MB": index.usage().index / 1e6,
        "resident MiB": memory_bytes("VmRSS") / MIB,
        "probe": a_document(seconds.probes),
        "probe + write": a_document(seconds.both),
        "front pass rate": figures["front_pass_rate"],
        "begin ms": 1e3 * Measured.of(seconds.begins or [0.0]).median,
        "drop ms": 1e3 * Measured.of(seconds.drops or [0.0]).median,
        "longest drop ms": 1e3 * max(seconds.drops, default=0.0),
    }


def _mistakes(index: RocksIndex, remembered: int) -> Iterator[str]:
    """Say what is not as it should be: all that is remembered is found, nothing older."""
    end, horizon = index.progress.next_ordinal, index.progress.horizon
    if (len(index), len(index.windows)) != (end - horizon, WINDOWS_MAX):
        yield f"{len(index)} documents in {len(index.windows)} windows behind {end}"
    rng = np.random.default_rng(end)
    for number in rng.integers(horizon // BATCH, end // BATCH, ASKED).tolist():
        found = np.concatenate([each.ordinals for each in index.probe(keys_of(number)).windows])
        written = np.arange(number * BATCH, (number + 1) * BATCH)
        if not np.array_equal(found, np.repeat(written, COLUMNS)):
            yield f"batch {number}: a bucket lists other documents"
        if index.fetch(written).ids != documents_of(number).ids:
            yield f"batch {number}: other documents came back"
    oldest = index.windows[0].first_ordinal // BATCH
    for number in rng.integers(0, oldest, ASKED).tolist():
        if any(each.counts.any() for each in index.probe(keys_of(number)).windows):
            yield f"batch {number}: it is forgotten, and its keys are there"


def result_of(remembered: int, rows: Sequence[Row], wrong: Sequence[str]) -> BenchResult:
    """Return what was seen, held to what we want."""
    beside, *through = rows
    return BenchResult(
        {THROUGH: through, BESIDE: [beside]},
        [Check("what is remembered is found, and nothing older", not wrong, "; ".join(wrong[:3]))],
        list(_targets(beside, through)),
        settings={"batch": BATCH, "keys a document": COLUMNS, "tokens": TOKENS,
                  "remembered": remembered, "periods": PERIODS, "turn": TURN},
        notes=[
            "us a document: of the calling thread's processor time, medians over batches (beside "
            "one window: of the quotients, turn by turn, with 1 to 1.5 times as many stored)",
            "begin: the families of a window are made; drop: a write that drops one, by the clock",
        ],
    )  # fmt: skip


def _targets(beside: Row, through: Sequence[Row]) -> Iterator[Target]:
    yield Target("five windows / one", _of(beside["five / one"]), 1.35, at_most=True)
    for name in FLAT:
        seen = [_of(row[name]) for row in through]
        half = (len(seen) + 1) // 2  # what is flat may go up and down, but not higher in the end
        grown = max(seen[-half:]) / max(seen[:half]) if any(seen[:half]) else 1.0
        yield Target(f"{name}, the later half's largest over the earlier's", grown, 1.1, True)
    longest = Measured.of([_of(row["drop ms"]) for row in through]).median
    yield Target("a write that drops a family, ms", longest, 100, at_most=True)


def _of(cell: object) -> float:
    if isinstance(cell, Measured):
        return cell.median
    assert isinstance(cell, int | float)
    return cell
