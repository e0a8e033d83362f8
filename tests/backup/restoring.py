"""How much faster is a restore from a backup than from the changelog?

Both read what is on this host: the changelog's records are in memory, and the target is a
directory. So a broker and a store add their own time to either. Each turn restores both ways.
"""

import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path

import numpy as np

from streamfilter.backup.download import candidates, fetch
from streamfilter.backup.index_target import snapshot
from streamfilter.backup.stores import DirectoryStore
from streamfilter.backup.upload import Throttle, upload
from streamfilter.bench.measure import Measured, ratios
from streamfilter.bench.result import BenchResult, Check, Options, Target
from streamfilter.engine.messages.changelog import (
    BatchRecord,
    encode_batch,
    encode_changelog_documents,
    writer_of,
)
from streamfilter.engine.ports import Entry
from streamfilter.engine.start_checks import Names
from streamfilter.index.directory.opening import open_index
from streamfilter.index.rocks.rocks_index import RocksIndex
from streamfilter.matching.pipeline import Batch
from streamfilter.similarity.scheme import Scheme
from streamfilter.similarity.sketch import Sketcher
from streamfilter.tasks.restore import Replay
from tests.bench.judging import IDENTITY, step_of

USUAL, LARGE, QUICK = 200_000, 1_000_000, 10_000
BATCH, WORDS = 2_000, 18
"""Documents of a transaction; words of a title."""
SKETCHER = Sketcher(Scheme(20, 5), seed=IDENTITY.seed)
WRITER = writer_of(IDENTITY.index_id, "group")
FASTER = 5.0


class Changelog:
    """`ports.ChangelogReader` of records in memory."""

    def __init__(self, values: Sequence[bytes]) -> None:
        self.position, self._values = 0, iter(values)
        self._end = len(values)

    @property
    def done(self) -> bool:
        return self.position >= self._end

    def read(self, count: int, _: float) -> list[Entry]:
        found = list(islice(self._values, count))
        entries = [Entry(n, value) for n, value in enumerate(found, self.position)]
        self.position += len(found)
        return entries

    def close(self) -> None:
        """Nothing to close."""


def changelog_of(documents: int) -> Iterator[bytes]:
    """Yield the records of so many titles, none like another."""
    rng = np.random.default_rng(documents)
    for number, first in enumerate(range(0, documents, BATCH)):
        words = rng.integers(0, 1 << 40, (min(BATCH, documents - first), WORDS))
        contents = SKETCHER.sketch([" ".join(map(hex, row)) for row in words.tolist()]).contents
        places = np.arange(first, first + len(words))
        batch = Batch([str(each) for each in places], places * 0, places, places * 0 - 1)
        _, mark = step_of(number, first, len(words))
        yield from encode_changelog_documents(
            batch.documents(contents, number=number, first_ordinal=first)
        )
        yield encode_batch(BatchRecord(mark, -1, WRITER))


def replayed(values: Sequence[bytes], path: Path) -> tuple[RocksIndex, float]:
    """Return the index that the changelog makes, and the seconds."""
    begun, index = time.perf_counter(), open_index(path, IDENTITY)
    names = Names("group", "input", "changelog/0", str(path))
    replay = Replay(index, SKETCHER, Changelog(values), names, writer=WRITER, from_known=False)
    for _ in replay.run():
        pass
    return index, time.perf_counter() - begun


def fetched(store: DirectoryStore, path: Path) -> tuple[int, float]:
    """Return how many documents the newest backup brings, and the seconds."""
    begun = time.perf_counter()
    fetch(store, candidates(store, IDENTITY.index_id).whole[0], path, Throttle())
    with closing(open_index(path, IDENTITY)) as index:
        return len(index), time.perf_counter() - begun


def run(options: Options) -> BenchResult:
    """Restore from both, in turns."""
    documents = QUICK if options.quick else LARGE if options.large else USUAL
    options.say(f"writing the changelog of {documents:,} documents")
    values = list(changelog_of(documents))
    slow, fast, sound = list[float](), list[float](), True
    for turn in range(options.repeat):
        options.say(f"turn {turn + 1} of {options.repeat}")
        with tempfile.TemporaryDirectory(prefix="streamfilter-bench-") as directory:
            root = Path(directory)
            store = DirectoryStore(root / "backups")
            index, seconds = replayed(values, root / "index")
            with closing(index):
                upload(store, *snapshot(index, root / "index", "index"), Throttle())
            slow.append(seconds)
            count, seconds = fetched(store, root / "restored")
            fast.append(seconds)
            sound &= count == documents
    quotient = ratios(fast, slow)
    row = {"documents": documents, "changelog": Measured.of(slow), "backup": Measured.of(fast),
           "changelog / backup": quotient}  # fmt: skip
    return BenchResult(
        {"seconds of a restore": [row]},
        [Check("both bring all documents", sound)],
        [Target("from the changelog / from a backup", quotient.median, FASTER)],
        settings={"batch": BATCH, "words": WORDS},
        notes=["a broker and a store in the network add their time"],
    )
