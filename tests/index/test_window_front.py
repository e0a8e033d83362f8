"""The front of an index after an orderly end, after a kill, and over broken tables."""

import random
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from streamfilter.index.rocks.front_file import FILE_NAME

from streamfilter.index.directory.opening import open_index
from streamfilter.index.errors import IndexDamaged
from streamfilter.index.progress import Progress
from streamfilter.index.protocol import Additions, Changes
from streamfilter.index.rocks import rocks_index as rocks
from streamfilter.index.rocks import window_front
from tests.index.conftest import SMALL
from tests.index.samples import COLUMNS, as_a_kill_leaves_it, compact, documents, identity

BATCH = 60


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(window_front, "OPENING_KEYS", 500)
    monkeypatch.setattr(rocks, "PIECE_KEYS", 400)


def opened(path: Path) -> Any:
    return open_index(path, identity(), memory=SMALL)


def keys_of(number: int) -> Any:
    return np.random.default_rng(number).integers(0, 2**64, (BATCH, COLUMNS), np.uint64)


def added(index: Any, number: int) -> None:
    ordinals = range(number * BATCH, (number + 1) * BATCH)
    progress = Progress(next_batch=number + 1, next_ordinal=ordinals[-1] + 1)
    index.apply(Changes(progress, Additions(documents(ordinals), keys_of(number))))


def assert_all_found(index: Any, batches: int) -> None:
    for number in range(batches):
        assert index.probe(keys_of(number)).counts.all(), f"keys of batch {number} are hidden"


def passed(index: Any) -> float:
    """The share of unwritten keys that the front does not recognise."""
    return float(index.usage().properties["front_pass_rate"])


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """An index of 20 batches, closed."""
    index = opened(tmp_path / "state")
    for number in range(20):
        added(index, number)
    assert passed(index) < 0.01
    index.close()
    return tmp_path / "state"


def killed(path: Path, index: Any) -> Path:
    """Close *index* and return a copy of it as a kill would have left it."""
    copy = as_a_kill_leaves_it(path, path.with_name(path.name + "-killed"))
    index.close()
    return copy


def test_an_orderly_end_leaves_a_front_that_the_next_run_takes(state: Path) -> None:
    assert (state / "rocksdb" / FILE_NAME).exists()
    index = opened(state)
    assert not (state / "rocksdb" / FILE_NAME).exists()
    assert passed(index) < 0.01
    assert_all_found(index, 20)
    index.close()


def test_after_a_kill_the_front_is_made_again_while_the_index_works(state: Path) -> None:
    index = opened(state)
    added(index, 20)
    index = opened(killed(state, index))
    shares = [passed(index)]
    assert shares[0] > 0.8
    for number in range(21, 40):
        added(index, number)
        assert_all_found(index, number + 1)
        shares.append(passed(index))
    rising = [before for before, after in pairwise(shares) if after > max(before, 0.01)]
    assert not rising
    assert shares[-1] < 0.01
    index.close()


def test_an_end_before_the_front_was_made_leaves_none(state: Path) -> None:
    copy = killed(state, opened(state))
    index = opened(copy)
    added(index, 20)
    assert passed(index) > 0.1
    index.close()
    assert not (copy / "rocksdb" / FILE_NAME).exists()
    index = opened(copy)
    assert_all_found(index, 21)
    index.close()


def test_a_front_that_missed_writes_is_not_believed(state: Path) -> None:
    old = (state / "rocksdb" / FILE_NAME).read_bytes()
    index = opened(state)
    added(index, 20)
    copy = killed(state, index)
    (copy / "rocksdb" / FILE_NAME).write_bytes(old)
    index = opened(copy)
    assert_all_found(index, 21)
    assert passed(index) > 0.8
    index.close()


@pytest.mark.slow
def test_keys_that_cannot_be_read_are_never_taken_for_absent(state: Path) -> None:
    index = opened(state)
    compact(index)
    copy = killed(state, index)
    table = max((copy / "rocksdb").glob("*.sst"), key=lambda file: file.stat().st_size)
    for seed in range(6):
        print(f"seed {seed}")
        broken = Path(shutil.copytree(copy, copy.with_name(f"broken-{seed}")))
        data = bytearray(table.read_bytes())
        data[random.Random(seed).randrange(len(data) // 2)] ^= 0xFF
        (broken / "rocksdb" / table.name).write_bytes(data)
        with pytest.raises(IndexDamaged):
            read_to_the_end(broken)


def read_to_the_end(path: Path) -> None:
    index = opened(path)
    try:
        for number in range(20, 60):
            added(index, number)
        assert_all_found(index, 60)
        index.fetch(np.arange(60 * BATCH))
    finally:
        index.close()
