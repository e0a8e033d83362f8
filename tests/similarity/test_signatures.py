"""Signatures: unbiased, no noisier than theory, independent of everything but the set."""

import numpy as np
import pytest

from streamfilter.similarity.bands import Bander
from streamfilter.similarity.curve import collision_probability, widest_rows
from streamfilter.similarity.minhash import EMPTY, MinHasher, estimate

SEED = bytes(range(16))
SLOTS = 128


def planted_pairs(rng, size, jaccard, trials):
    """Return (tokens, starts, true J): pairs of sets of *size* with a planted overlap."""
    common = round(size * 2 * jaccard / (1 + jaccard))
    each = size - common
    parts, starts = [], [0]
    for _ in range(trials):
        union = rng.integers(0, 2**64, common + 2 * each, dtype=np.uint64)
        parts += [union[: common + each], np.concatenate((union[:common], union[common + each :]))]
        starts += [starts[-1] + size, starts[-1] + 2 * size]
    return np.concatenate(parts), np.array(starts), common / (common + 2 * each)


@pytest.mark.parametrize("size", [5, 20, 100, 1_000])
@pytest.mark.parametrize("jaccard", [0.5, 0.8, 0.9])
def test_the_estimate_is_unbiased_and_no_noisier_than_minhash(size, jaccard):
    trials = 1_200 if size < 1_000 else 300
    tokens, starts, truth = planted_pairs(np.random.default_rng(size), size, jaccard, trials)
    signatures = MinHasher(SLOTS, seed=SEED).sign(tokens, starts).astype(np.uint8)
    equal = (signatures[0::2] == signatures[1::2]).sum(axis=1)
    estimates = estimate(equal, SLOTS)
    theory = truth * (1 - truth) / SLOTS
    assert abs(estimates.mean() - truth) <= 4 * np.sqrt(theory / trials)
    assert estimates.var() <= 1.25 * theory


def test_a_signature_depends_on_the_set_alone():
    rng = np.random.default_rng(3)
    tokens = rng.integers(0, 2**64, 40, dtype=np.uint64)
    repeated = np.concatenate((tokens[::-1], tokens[:7]))
    both = MinHasher(SLOTS, seed=SEED).sign(
        np.concatenate((tokens, repeated)), np.array([0, 40, 87])
    )
    assert (both[0] == both[1]).all()
    assert (both != EMPTY).all()


def test_an_empty_set_among_others_leaves_them_alone():
    tokens = np.arange(1, 30, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    hasher = MinHasher(SLOTS, seed=SEED)
    both = hasher.sign(tokens, np.array([0, 0, 29, 29]))
    assert (both[0] == EMPTY).all()
    assert (both[2] == EMPTY).all()
    assert (both[1] == hasher.sign(tokens, np.array([0, 29]))[0]).all()


def test_a_union_has_the_minimum_of_its_parts_in_every_slot():
    rng = np.random.default_rng(5)
    for size in (3, 50, 400):
        one = rng.integers(0, 2**64, size, dtype=np.uint64)
        other = rng.integers(0, 2**64, 2 * size, dtype=np.uint64)
        everything = np.concatenate((one, other, one, other))
        starts = np.array([0, size, 3 * size, 6 * size])
        signed = MinHasher(SLOTS, seed=SEED).sign(everything, starts)
        assert (signed[2] == np.minimum(signed[0], signed[1])).all()


def test_a_band_key_depends_on_its_band_and_on_every_slot():
    rng = np.random.default_rng(7)
    signature = rng.integers(0, 256, (1, SLOTS)).astype(np.uint8)
    bander = Bander(16, 6, seed=SEED)
    fingerprint = np.zeros((1, 16), np.uint8)
    keys = bander.keys(signature, fingerprint)[0]
    assert len(set(keys.tolist())) == 17
    for slot in range(16 * 6):
        changed = signature.copy()
        changed[0, slot] ^= 1
        differs = bander.keys(changed, fingerprint)[0] != keys
        assert np.flatnonzero(differs).tolist() == [slot // 6]
    same = np.full((1, SLOTS), 9, np.uint8)
    assert len(set(bander.keys(same, fingerprint)[0].tolist())) == 17


def test_permuted_slots_in_a_band_give_another_key():
    signature = np.arange(SLOTS, dtype=np.uint8)[None, :]
    swapped = signature.copy()
    swapped[0, [0, 1]] = swapped[0, [1, 0]]
    bander, fingerprint = Bander(9, 13, seed=SEED), np.zeros((1, 16), np.uint8)
    keys, other = bander.keys(signature, fingerprint), bander.keys(swapped, fingerprint)
    assert (keys != other)[0].tolist() == [True] + [False] * 9


@pytest.mark.parametrize(
    ("similarity", "answer"),
    [(0.2, 0.006), (0.3, 0.047), (0.4, 0.186), (0.5, 0.470), (0.6, 0.802), (0.7, 0.975),
     (0.8, 0.9996)],
)  # fmt: skip
def test_the_curve_of_20_bands_of_5(similarity, answer):
    found = collision_probability(similarity, bands=20, rows=5)
    assert found == pytest.approx(answer, abs=6e-4)


@pytest.mark.parametrize(
    ("bands", "rows", "recall"),
    [(9, 13, 0.40), (20, 13, 0.68), (14, 8, 0.924), (16, 8, 0.947), (16, 6, 0.992), (18, 5, 0.999)],
)
def test_known_shapes_at_the_threshold(bands, rows, recall):
    assert collision_probability(0.8, bands=bands, rows=rows) == pytest.approx(recall, abs=6e-3)


def test_the_planner_picks_16_by_6_by_default_and_refuses_the_impossible():
    assert widest_rows(0.8, slots=128, recall=0.99) == (16, 6)
    with pytest.raises(ValueError, match="cannot reach recall"):
        widest_rows(0.05, slots=8, recall=0.999)
