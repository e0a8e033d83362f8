"""SIGKILL inside of a write: a batch of several megabytes is in the log whole, or not at all."""

import shutil
import subprocess
import sys
from collections.abc import Iterator

import numpy as np

from streamfilter.index.protocol import Changes
from streamfilter.similarity.columns import Samples, Widths
from tests.index.damage.test_crash import CAP, batch, opened
from tests.index.plain_index import PlainIndex
from tests.index.samples import SLOTS
from tests.support.machine.strace import killed_in_write, needs_strace
from tests.support.session.trials import short_and_long
from tests.support.texts import ROOT
from tests.support.values import replace

SEED = 20_261_142
SIZE, TOKENS, BATCHES = 1_200, 400, 2
"""A batch takes several writes to the log: RocksDB's buffer holds 1 MiB. The documents are few and
large, because the plain model takes as long for a small one."""
WRITES = 5
"""To the log, by the two batches; that of a new index comes before them."""
WORKER = """
import sys
from pathlib import Path
from tests.index.damage.test_crash import opened
from tests.index.damage.test_killed_writes import BATCHES, large
index = opened(Path(sys.argv[1]))
for number in range(BATCHES):
    index.apply(large(number))
"""


def large(number: int) -> Changes:
    """Return a batch whose documents have `TOKENS` tokens each."""
    changes = batch(number, size=SIZE)
    assert changes.additions
    tokens = np.random.default_rng(number).integers(1 << 32, size=(SIZE, TOKENS), dtype=np.uint32)
    sizes = np.full(SIZE, TOKENS)
    starts = np.concatenate(([0], np.cumsum(sizes)))
    samples = Samples(tokens=np.sort(tokens).ravel(), starts=starts, set_sizes=sizes)
    documents = changes.additions.documents
    documents = replace(documents, contents=replace(documents.contents, samples=samples))
    return replace(changes, additions=replace(changes.additions, documents=documents))


def models() -> Iterator[list[tuple[str, bytes, bytes]]]:
    """Yield what an index holds after no batch, one, and so on."""
    model = PlainIndex(Widths(SLOTS), bucket_cap=CAP)
    for number in range(BATCHES + 1):
        yield list(model.dump())
        model.apply(large(number))


@needs_strace
@short_and_long(WRITES, 50)
def test_a_kill_inside_of_a_large_write_leaves_whole_batches(tmp_path, trials):
    expected = list(models())
    for number, _ in enumerate(
        trials.of("5", "killed inside of the write of a large batch", seed=SEED)
    ):
        state = tmp_path / "state"
        prefix = killed_in_write(state / "rocksdb", 2 + number % WRITES)
        command = [*prefix, sys.executable, "-c", WORKER, str(state)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=240, check=False)
        assert done.returncode == -9, done.stderr.decode()
        index = opened(state)
        reached = index.progress.next_batch
        assert list(index.dump()) == expected[reached]
        index.close()
        trials.saw(f"{reached} of {BATCHES} batches")
        shutil.rmtree(state)
