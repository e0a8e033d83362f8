"""What do a probe and a write cost in five windows, beside one window?

The documents and batches of `indexing`; the last N are remembered. An index of one window that
forgets nothing gets the same batches in turns: what the one holds in five windows, the other holds
in one. That disk and memory stay as they are is held by tests (`tests/index/test_windows.py`) and
by the long runs (`tests/long/flatness.py`).
"""

import tempfile
import time
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from streamfilter.bench.measure import ratios
from streamfilter.bench.result import BenchResult, Check, Options, Target
from streamfilter.index.directory.opening import open_index
from streamfilter.index.protocol import WINDOWS_MAX, Additions, Changes
from streamfilter.index.rocks.rocks_index import RocksIndex
from streamfilter.matching.blocking.retention import PARTS, UNLIMITED, Retention
from streamfilter.process.signals import INTERRUPTION
from tests.bench.indexing import BATCH, COLUMNS, TOKENS, a_document, documents_of, keys_of
from tests.bench.judging import IDENTITY, step_of
from tests.support.values import replace

QUICK, USUAL, LARGE = 4_000, 20_000, 1_000_000
"""Documents that are remembered."""
TURN = 10
"""Batches that one of two indexes gets before it is the other's turn."""


@dataclass(slots=True)
class Subject:
    """An index that is given batch after batch, with one retention."""

    index: RocksIndex
    retention: Retention
    seconds: list[float] = field(default_factory=list)
    """Processor time of the calling thread for each batch, a probe and a write."""

    def take(self, number: int) -> None:
        """Probe and write batch *number*, as the pipeline does."""
        keys, documents = keys_of(number), documents_of(number)
        first = np.full(1, -1, np.int64)  # a window begins with a batch: nothing else cuts them
        extent = self.retention.extent(self.index.progress, self.index.windows, times=first)
        progress, mark = step_of(number, number * BATCH, BATCH)
        progress = replace(progress, horizon=extent.horizon)
        mark = replace(mark, horizon=extent.horizon)
        if extent.opens is not None:
            self.index.prepare()
        used = time.thread_time()
        buckets = self.index.probe(keys)
        additions = Additions(documents, keys, buckets=buckets)
        self.index.apply(Changes(progress, additions, (mark,), opens=extent.opens))
        self.seconds.append(time.thread_time() - used)

    @property
    def whole(self) -> bool:
        """Return whether the index holds what is remembered, in as many windows as there are."""
        end, horizon = self.index.progress.next_ordinal, self.index.progress.horizon
        return (len(self.index), len(self.index.windows)) == (end - horizon, WINDOWS_MAX)


def run(options: Options) -> BenchResult:
    """Give both the same batches, in turns, until five windows have been full for a while."""
    remembered = QUICK if options.quick else LARGE if options.large else USUAL
    options.say(f"remembering {remembered:,} documents")
    with (
        INTERRUPTION.listening(),
        tempfile.TemporaryDirectory(prefix="streamfilter-bench-") as directory,
        closing(open_index(Path(directory, "one"), IDENTITY)) as one,
        closing(open_index(Path(directory, "five"), IDENTITY)) as five,
    ):
        both = Subject(one, UNLIMITED), Subject(five, Retention(documents=remembered))
        batches = remembered * (PARTS + 2) // PARTS // BATCH
        for start in range(0, batches, TURN):
            for memory in both[:: 1 if start // TURN % 2 else -1]:
                for number in range(start, min(start + TURN, batches)):
                    INTERRUPTION.obey()
                    memory.take(number)
        whole = both[1].whole
    full = [each.seconds[remembered // BATCH :] for each in both]
    quotient = ratios(*([sum(s[at : at + TURN]) for at in range(0, len(s), TURN)] for s in full))
    row = {"documents": remembered, "one window": a_document(full[0]),
           "five windows": a_document(full[1]), "five / one": quotient}  # fmt: skip
    return BenchResult(
        {"beside one window, us a document": [row]},
        [Check("five windows hold what is remembered", whole)],
        [Target("five windows / one", quotient.median, 1.35, at_most=True)],
        settings={"batch": BATCH, "keys a document": COLUMNS, "tokens": TOKENS,
                  "remembered": remembered, "turn": TURN},
        notes=["of the calling thread's processor time, medians over batches; the quotient turn by "
               "turn, with 1 to 1.5 times as many documents stored"],
    )  # fmt: skip
