"""SIGKILL inside of a write: a batch of several megabytes is in the log whole, or not at all."""

import shutil
import subprocess
import sys
from collections.abc import Iterator

from streamfilter.similarity.columns import Widths
from tests.index.damage.test_crash import CAP, ROOT, batch, opened
from tests.index.plain_index import PlainIndex
from tests.index.samples import SLOTS
from tests.support.machine.strace import killed_in_write, needs_strace
from tests.support.session.trials import short_and_long

SEED = 20_261_142
SIZE, BATCHES = 12_000, 2
"""A batch takes several writes to the log: RocksDB's buffer holds 1 MiB."""
WRITES = 5
"""To the log, by an index that is made and given two batches."""
WORKER = """
import sys
from pathlib import Path
from tests.index.damage.test_crash import batch, opened
from tests.index.damage.test_killed_writes import BATCHES, SIZE
index = opened(Path(sys.argv[1]))
for number in range(BATCHES):
    index.apply(batch(number, size=SIZE))
"""


def models() -> Iterator[list[tuple[str, bytes, bytes]]]:
    """Yield what an index holds after no batch, one, and so on."""
    model = PlainIndex(Widths(SLOTS), bucket_cap=CAP)
    for number in range(BATCHES + 1):
        yield list(model.dump())
        model.apply(batch(number, size=SIZE))


@needs_strace
@short_and_long(2, 50)
def test_a_kill_inside_of_a_large_write_leaves_whole_batches(tmp_path, trials):
    expected = list(models())
    for rng in trials.of("5", "killed inside of the write of a large batch", seed=SEED):
        state = tmp_path / "state"
        prefix = killed_in_write(state / "rocksdb", rng.randint(2, WRITES))
        command = [*prefix, sys.executable, "-c", WORKER, str(state)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=240, check=False)
        assert done.returncode == -9, done.stderr.decode()
        index = opened(state)
        reached = index.progress.next_batch
        assert list(index.dump()) == expected[reached]
        index.close()
        trials.saw(f"{reached} of {BATCHES} batches")
        shutil.rmtree(state)
