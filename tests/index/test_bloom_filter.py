"""A filter may say "perhaps" when it should say "no", and never "no" when it should say "yes"."""

import numpy as np
import pytest

from streamfilter.index.bands.bloom_filter import (
    BloomFilter,
    FilterPool,
    pass_rate_of,
    passed,
    passing,
    together,
    words_for,
)
from streamfilter.similarity.kernel.choice import AUTO, OFF, chosen
from tests.support.cases import cases

SEED = 20_240_607
ALONE = FilterPool(0)


def random_keys(count: int, seed: int = SEED) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 2**64, count, np.uint64)


def filled(count: int, *, bits: int, pieces: int = 1) -> BloomFilter:
    made = ALONE.of_keys(count, bits=bits)
    for keys in np.array_split(np.sort(random_keys(count)), pieces):
        made.add(keys)
    return made


@pytest.mark.slow
def test_what_was_added_is_never_called_absent_however_full_or_small_a_filter_is() -> None:
    rng = np.random.default_rng(SEED)
    made, added = ALONE.of_keys(30_000, bits=32), np.empty(0, np.uint64)
    for _ in range(40):
        kind = rng.integers(3)
        keys = rng.integers(0, 2**64, rng.integers(1, 9_000), np.uint64)
        keys = keys >> np.uint64(40) if kind == 0 else keys << np.uint64(40) if kind == 1 else keys
        made.add(np.unique(keys))
        added = np.concatenate((added, keys))
        smaller: BloomFilter | None = made
        while smaller is not None:
            assert together([smaller], added).all(), f"seed {SEED}, after {len(added)} keys"
            smaller = smaller.halved()


@cases("edge", [0, 1, 2**32 - 1, 2**32, 2**63, 2**64 - 1])
def test_the_ends_of_the_key_space_are_keys_like_others(edge: int) -> None:
    made, keys = ALONE.of_keys(1_000, bits=16), np.array([edge], np.uint64)
    assert not together([made], keys).any()
    made.add(keys)
    assert together([made], keys).all()


@pytest.mark.parametrize(("bits", "share"), [(32, 0.00003), (16, 0.0015), (8, 0.025)])
def test_the_share_that_passes_is_what_the_filter_says_of_itself(bits: int, share: float) -> None:
    count, fresh = 400_000, random_keys(400_000, SEED + 1)
    made, larger = filled(count, bits=bits), filled(count, bits=2 * bits)
    halved = larger.halved()
    assert halved is not None
    for each in (made, halved):
        expected = each.pass_rate
        passed = together([each], fresh).mean()
        assert abs(passed - expected) < 6 * (expected / len(fresh)) ** 0.5 + 0.03 * expected
        assert expected == pytest.approx(share, rel=0.3)


def test_a_range_of_keys_is_a_range_of_words() -> None:
    made, keys = ALONE.of_keys(50_000, bits=16), np.sort(random_keys(50_000))
    for at in (1, 2**20, 2**40, 2**63, 2**64 - 1, 2**64):
        part = ALONE.of_keys(50_000, bits=16)
        part.add(keys[keys.astype(object) < at])
        assert not part.words[made.words_below(at) + 4 :].any()
        later = ALONE.of_keys(50_000, bits=16)
        later.add(keys[keys.astype(object) >= at])
        assert not later.words[: made.words_below(at)].any()
    assert made.words_below(2**64) == len(made.words)


def test_more_filters_than_are_asked_at_a_time() -> None:
    last, keys = filled(1_000, bits=16), random_keys(1_000)
    assert together([ALONE.of_keys(1, bits=16)] * 70 + [last], keys).all()


def test_a_question_has_the_shape_of_its_keys() -> None:
    made, keys = ALONE.of_keys(600, bits=32), random_keys(600).reshape(200, 3)
    made.add(np.sort(keys[:100].ravel()))
    answer = together([made], keys[::2, ::-1])
    assert answer.shape == (100, 3)
    assert answer[:50].all()
    assert answer[50:].mean() < 0.05


@pytest.mark.parametrize("setting", [AUTO, OFF])
def test_filters_side_by_side_are_what_they_are_alone(setting: str) -> None:
    """Six of one size in two arrays, one too large for the pool; the seventh stays empty."""
    pool, keys = FilterPool(1 << 20), random_keys(2_000, SEED + 2)
    words, sets = words_for(30_000, bits=16), [random_keys(30_000, seed) for seed in range(6)]
    with chosen(setting):
        both = [(pool.empty(words), ALONE.of_keys(30_000, bits=16)) for _ in range(7)]
        for pair, added in zip(both, sets, strict=False):
            for each in pair:
                each.add(np.sort(added))
        asked = np.concatenate((keys, sets[3][:50], sets[5][:50]))
        inside, alone = (passed(each, asked) for each in zip(*both, strict=True))
        assert all(np.array_equal(one.words, other.words) for one, other in both)
        assert np.array_equal(inside, alone)
        assert (inside[-50:] >> np.uint64(5) & np.uint64(1)).all()
        assert [one.size for one, _ in both] == [other.size for _, other in both]
        smaller, expected = (each.halved() for each in both[3])
    assert len({id(one.shared) for one, _ in both}) == 2
    assert smaller is not None
    assert expected is not None
    assert np.array_equal(smaller.words, expected.words)
    assert not pool.empty(words).words.any()
    assert pool.empty(words_for(10**6, bits=16)).step == 1


def test_runs_of_nearly_as_many_keys_have_filters_of_one_size() -> None:
    sizes = [words_for(keys, bits=24) for keys in range(8 * 524_288, 8 * 533_000, 999)]
    assert len(set(sizes)) <= 2
    assert all(words_for(keys, bits=16) < 1.07 * keys * 16 / 64 + 256 for keys in sizes)


def test_a_filter_that_is_missing_or_hopeless_lets_everything_pass() -> None:
    made = filled(1_000, bits=16)
    assert together([made, None], random_keys(10, 1)).all()
    assert (passed([None, made, None], random_keys(10, 1)) & np.uint64(5) == 5).all()
    assert (passing([0.5, 1.0]), pass_rate_of(0, 1), pass_rate_of(64, 10**18)) == (1.0, 1.0, 1.0)
    assert passing([0.5, 0.5, 0.0]) == 0.75


@pytest.mark.parametrize("pool", [ALONE, FilterPool(1 << 30)])
def test_a_filter_begins_with_a_line_of_the_cache(pool: FilterPool) -> None:
    for keys in (1, 100, 5_000, 100_000, 3_000_000):
        made = [pool.of_keys(keys, bits=24), pool.of_keys(keys, bits=24).halved()]
        assert [each.shared.ctypes.data % 64 for each in made if each is not None] == [0, 0]
