"""kill -9 while the index is written: what is left is a prefix of the batches, never half of one.

The child applies batches as fast as it can with buffers so small that flushes and compactions
run all the time; the parent kills it at a random moment and compares what is left with a model.
"""

import random
import time
from pathlib import Path

import pytest

from streamfilter.index.directory.opening import open_index
from streamfilter.index.progress import Progress
from streamfilter.index.protocol import Additions, Changes, Index
from streamfilter.index.rocks import database as store
from streamfilter.similarity.columns import Widths
from tests.index.conftest import SMALL
from tests.index.plain_index import PlainIndex
from tests.index.samples import SLOTS, documents, identity, mark, random_keys
from tests.support.session.forge import Forge

CAP = 4
BATCH = 40
WORKER = """
from pathlib import Path
from tests.index.damage.test_crash import batch, opened
index = opened(Path({state!r}))
number = index.progress.next_batch
while True:
    index.apply(batch(number))
    print(number, flush=True)
    number += 1
"""


def opened(path: Path) -> Index:
    return open_index(path, identity(), bucket_cap=CAP, memory=SMALL)


def batch(number: int, *, size: int = BATCH) -> Changes:
    """Return the changes of batch *number*: always the same."""
    first, after = number * size, (number + 1) * size
    ordinals = range(first, after)
    progress = Progress(number, b"%016d" % number, {0: after}, number + 1, after, number)
    keys = random_keys(random.Random(number), size, kinds=3_000)
    additions = Additions(documents(list(ordinals)), keys)
    return Changes(
        progress, additions, (mark(number, (0, first, after), first=first, after=after),)
    )


def whole_batches(state: Path, model: PlainIndex, done: int, said: bytes) -> int:
    """Check that all that a killed worker *said* is there, and return how many batches are."""
    index = opened(state)
    reached = index.progress.next_batch
    *acknowledged, _ = said.split(b"\n")
    assert reached > int(acknowledged[-1]), "an applied batch is gone"
    for number in range(done, reached):
        model.apply(batch(number))
    assert list(index.dump()) == list(model.dump()), f"after batch {reached}"
    index.close()
    return reached


@pytest.mark.slow
def test_a_kill_at_any_moment_leaves_the_effect_of_whole_batches(tmp_path: Path) -> None:
    rng, model, done = random.Random(9), PlainIndex(Widths(SLOTS), bucket_cap=CAP), 0
    with Forge(__name__) as forge:
        for kill in range(8):
            log = tmp_path / f"{kill}.log"
            worker = forge.run(WORKER.format(state=str(tmp_path / "state")), log=log)
            wanted = rng.randint(2, 12)  # batches, not time: a busy machine does few
            while log.read_bytes().count(b"\n") < wanted:
                assert worker.exit_code is None, log.read_text()
                time.sleep(0.002)
            time.sleep(rng.uniform(0, 0.02))
            assert worker.kill() == -9
            done = whole_batches(tmp_path / "state", model, done, log.read_bytes())
    assert done > 8


def test_a_restore_over_a_state_that_is_ahead_changes_nothing_but_progress(tmp_path: Path) -> None:
    index = opened(tmp_path / "state")
    for number in range(6):
        index.apply(batch(number))
    entries = list(index.dump())
    for number in range(2, 6):
        assert index.apply(batch(number)).documents == 0
    assert list(index.dump()) == entries
    index.close()


@pytest.mark.parametrize("restart", [True, False])
def test_overflows_are_counted_once_whether_or_not_the_index_was_reopened(tmp_path, restart):
    index, model = opened(tmp_path / "state"), PlainIndex(Widths(SLOTS), bucket_cap=CAP)
    crowd = random_keys(random.Random(1), BATCH, kinds=2)
    for start in range(0, 5 * BATCH, BATCH):
        additions = Additions(documents(list(range(start, start + BATCH))), crowd)
        changes = Changes(Progress(next_ordinal=start + BATCH), additions)
        probed = Changes(
            changes.progress, Additions(additions.documents, crowd, index.probe(crowd))
        )
        assert index.apply(probed) == model.apply(changes)
        if restart:
            index.close()
            index = opened(tmp_path / "state")
    assert list(index.dump()) == list(model.dump())
    index.close()


def test_a_close_that_does_not_wait_for_a_flush_keeps_everything_and_frees_the_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "FLUSH_FILES_MAX", 0)
    model = PlainIndex(Widths(SLOTS), bucket_cap=CAP)
    for start in range(0, 12, 4):
        index = opened(tmp_path / "state")
        for number in range(start, start + 4):
            index.apply(batch(number))
            model.apply(batch(number))
        index.close()
        assert max((tmp_path / "state" / "rocksdb").glob("*.log")).stat().st_size > 10_000
    index = opened(tmp_path / "state")
    assert list(index.dump()) == list(model.dump())
    index.close()
