"""The front may say "perhaps" when it should say "no", and never "no" when it should say "yes"."""

import random
from pathlib import Path

import numpy as np
import pytest

from streamfilter.index.rocks import front_file
from streamfilter.index.rocks.bloom_filter import (
    BITS_PER_KEY,
    BLOCK_BYTES,
    SMALLEST_BYTES,
    Front,
    expected_pass_rate,
)

MIB = 1 << 20
SEED = 20_240_607


def random_keys(count: int, seed: int = SEED) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 2**64, count, np.uint64)


def add(front: Front, count: int, *, pieces: int) -> None:
    for keys in np.array_split(random_keys(count), pieces):
        front.add(np.sort(keys))


def test_what_was_added_is_never_called_absent_however_full_the_front_is() -> None:
    rng = np.random.default_rng(SEED)
    front, added = Front(MIB // 4), np.empty(0, np.uint64)
    for _ in range(60):
        kind = rng.integers(3)
        keys = rng.integers(0, 2**64, rng.integers(1, 9_000), np.uint64)
        keys = keys >> np.uint64(40) if kind == 0 else keys << np.uint64(40) if kind == 1 else keys
        front.add(np.unique(keys))
        added = np.concatenate((added, keys))
        assert front.may_hold(added).all(), f"seed {SEED}, after {len(added)} keys"
    assert front.keys * BITS_PER_KEY > 8 * front.bytes, "it never was full"
    assert front.bytes == MIB // 4


@pytest.mark.parametrize("edge", [0, 1, 2**32 - 1, 2**32, 2**63, 2**64 - 1])
def test_the_ends_of_the_key_space_are_keys_like_others(edge: int) -> None:
    front = Front(MIB)
    keys = np.array([edge], np.uint64)
    assert not front.may_hold(keys).any()
    front.add(keys)
    assert front.may_hold(keys).all()


def test_the_share_that_passes_is_what_the_front_says_of_itself() -> None:
    front, fresh = Front(MIB), random_keys(400_000, SEED + 1)
    for step, keys in enumerate(np.array_split(random_keys(700_000), 7)):
        front.add(np.sort(keys))
        passed = front.may_hold(fresh)
        expected = front.pass_rate
        sigma = (expected / len(fresh)) ** 0.5
        assert abs(passed.mean() - expected) < 6 * sigma + 0.03 * expected, f"step {step}"
        if front.keys * BITS_PER_KEY <= 8 * front.bytes:
            assert passed.mean() < 0.0001
    assert front.keys * 12 == pytest.approx(front.bytes * 8, rel=0.02)
    assert front.pass_rate == pytest.approx(0.0052, abs=0.0004)


def test_a_front_grows_with_its_keys_up_to_its_bound() -> None:
    front, sizes = Front(5 * MIB), []
    for keys in np.array_split(random_keys(1_500_000), 12):
        front.add(np.sort(keys))
        sizes.append(front.bytes)
    assert sizes[0] == SMALLEST_BYTES
    assert sizes[-1] == 5 * MIB
    assert sizes == sorted(sizes)


@pytest.mark.parametrize(("bound", "count"), [(MIB, 10_000), (5 * MIB, 1_500_000), (MIB, 700_000)])
def test_what_a_front_will_let_pass_is_known_before_it_is_filled(bound: int, count: int) -> None:
    front = Front(bound)
    add(front, count, pieces=30)
    passed = front.may_hold(random_keys(400_000, SEED + 3)).mean()
    expected = expected_pass_rate(bound, count)
    assert abs(passed - expected) < 6 * (expected / 400_000) ** 0.5 + 0.05 * expected


def test_without_memory_or_with_too_many_keys_everything_will_pass() -> None:
    assert (expected_pass_rate(0, 10), expected_pass_rate(MIB, 0)) == (1.0, 0.0)
    assert expected_pass_rate(MIB, 10**18) == 1.0
    assert expected_pass_rate(BLOCK_BYTES, 1) < expected_pass_rate(BLOCK_BYTES - 1, 1) == 1.0


def test_keys_that_come_again_take_no_room() -> None:
    front, keys = Front(MIB), np.sort(random_keys(10_000))
    for _ in range(50):
        front.add(keys)
    assert front.keys <= len(keys)
    assert front.pass_rate < 0.001


def test_a_question_has_the_shape_of_its_keys() -> None:
    front, keys = Front(MIB), random_keys(600).reshape(200, 3)
    front.add(np.sort(keys[:100].ravel()))
    answer = front.may_hold(keys[::2, ::-1])
    assert answer.shape == (100, 3)
    assert answer[:50].all()
    assert answer[50:].mean() < 0.05


@pytest.mark.parametrize("bound", [0, 15])
def test_without_memory_everything_is_perhaps_written(bound: int) -> None:
    front = Front(bound)
    add(front, 10, pieces=1)
    assert front.may_hold(random_keys(10, 1)).all()
    assert (front.bytes, front.pass_rate) == (0, 1.0)


def saved(tmp_path: Path, *, stamp: int) -> tuple[Front, Path]:
    front = Front(5 * MIB)
    add(front, 800_000, pieces=8)
    assert len(front.layers) == 2
    file = front_file.file_of(tmp_path, 0)
    front_file.save(file, front.layers, stamp=stamp)
    return front, file


def test_a_saved_front_comes_back_once(tmp_path: Path) -> None:
    front, file = saved(tmp_path, stamp=7)
    layers = front_file.take(front_file.file_of(tmp_path, 0), stamp=7, bytes_max=5 * MIB)
    again = Front(5 * MIB, layers=layers)
    probe = random_keys(100_000, 2)
    assert np.array_equal(again.may_hold(probe), front.may_hold(probe))
    assert (again.keys, again.bytes) == (front.keys, front.bytes)
    assert not file.exists()
    assert front_file.take(front_file.file_of(tmp_path, 0), stamp=7, bytes_max=5 * MIB) is None


@pytest.mark.parametrize(("stamp", "bytes_max"), [(6, 5 * MIB), (8, 5 * MIB), (7, 5 * MIB - 16)])
def test_a_front_of_another_write_or_too_large_is_deleted(tmp_path, stamp, bytes_max):
    _, file = saved(tmp_path, stamp=7)
    assert (
        front_file.take(front_file.file_of(tmp_path, 0), stamp=stamp, bytes_max=bytes_max) is None
    )
    assert not file.exists()


@pytest.mark.parametrize("seed", range(30))
def test_a_broken_front_is_as_good_as_none(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    _, file = saved(tmp_path, stamp=7)
    data = bytearray(file.read_bytes())
    place = rng.randrange(80) if seed % 2 else rng.randrange(len(data))
    if seed % 3:
        data[place] ^= 1 << rng.randrange(8)
    else:
        del data[place:]
    file.write_bytes(data)
    assert front_file.take(front_file.file_of(tmp_path, 0), stamp=7, bytes_max=5 * MIB) is None
    assert not file.exists()
