"""How much faster is a restore from a backup than from the changelog?

Both read what is on this host: the changelog's records are in memory, and the target is a
directory. So a broker and a store add their own time to either. Each turn restores both ways.
"""

import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path

import numpy as np

from streamfilter.backup.download import candidates, fetch
from streamfilter.backup.index_target import snapshot
from streamfilter.backup.stores import DirectoryStore
from streamfilter.backup.upload import Throttle, upload
from streamfilter.bench.measure import Measured, ratios
from streamfilter.bench.result import BenchResult, Check, Options, Row, Target
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


def replayed(values: Sequence[bytes], path: Path) -> RocksIndex:
    """Return the index that the changelog makes."""
    index = open_index(path, IDENTITY)
    names = Names("group", "input", "changelog/0", str(path))
    replay = Replay(index, SKETCHER, Changelog(values), names, writer=WRITER, from_known=False)
    for _ in replay.run():
        pass
    return index


def fetched(store: DirectoryStore, path: Path) -> RocksIndex:
    """Return the index that the newest backup brings."""
    fetch(store, candidates(store, IDENTITY.index_id).whole[0], path)
    return open_index(path, IDENTITY)


@contextmanager
def clocked(spent: dict[str, list[float]]) -> Iterator[None]:
    """Add the seconds of the block, by the clock and of processor time."""
    begun, used = time.perf_counter(), time.process_time()
    yield
    spent["by the clock"].append(time.perf_counter() - begun)
    spent["of processor time"].append(time.process_time() - used)


def run(options: Options) -> BenchResult:
    """Restore from both, in turns."""
    documents = QUICK if options.quick else min(options.large, LARGE) or USUAL
    options.say(f"writing the changelog of {documents:,} documents")
    values = list(changelog_of(documents))
    slow, fast = (defaultdict[str, list[float]](list) for _ in range(2))
    sound = True
    for turn in range(options.repeat):
        options.say(f"turn {turn + 1} of {options.repeat}")
        with tempfile.TemporaryDirectory(prefix="streamfilter-bench-") as directory:
            root = Path(directory)
            store = DirectoryStore(root / "backups")
            with clocked(slow):
                index = replayed(values, root / "index")
            with closing(index):
                upload(store, *snapshot(index, root / "index", "index"), Throttle())
            with clocked(fast):
                index = fetched(store, root / "restored")
            with closing(index):
                sound &= len(index) == documents
    quotients = {kind: ratios(fast[kind], slow[kind]) for kind in slow}
    rows: list[Row] = [
        {"documents": documents, "seconds": kind, "changelog": Measured.of(slow[kind]),
         "backup": Measured.of(fast[kind]), "changelog / backup": quotients[kind]}
        for kind in slow
    ]  # fmt: skip
    return BenchResult(
        {"a restore": rows},
        [Check("both bring all documents", sound)],
        [
            Target(
                f"{documents:,} documents from the changelog / from a backup, {kind}",
                each.median,
                FASTER,
            )
            for kind, each in quotients.items()
        ],
        settings={"batch": BATCH, "words": WORDS},
        notes=["a broker and a store in the network add their time"],
    )
