"""Signatures: unbiased, no noisier than theory, independent of everything but the set."""

from fractions import Fraction

import numpy as np
import pytest

from streamfilter.similarity.bands import Bander, chosen_slots
from streamfilter.similarity.minhash import EMPTY, MinHasher, estimate
from streamfilter.similarity.statistics.shape import Shape, collision_probability

signed = pytest.mark.usefixtures("signer")
"""Kernel and numpy are equal to the bit (test_kernel.py): shares and curves are those of one."""

SEED = bytes(range(16))
SLOTS = 128


def planted_pairs(rng, size, jaccard, trials):
    """Return tokens and starts of pairs of sets whose union has *size* tokens, or as many more
    as an overlap of exactly *jaccard* needs."""
    union = -(-size // jaccard.denominator) * jaccard.denominator
    common = union * jaccard.numerator // jaccard.denominator
    first = common + (union - common) // 2
    tokens = rng.integers(0, 2**64, (trials, union), dtype=np.uint64)
    both = np.concatenate((tokens[:, :first], tokens[:, :common], tokens[:, first:]), axis=1)
    sizes = np.tile([first, union + common - first], trials)
    return both.reshape(-1), np.concatenate(([0], np.cumsum(sizes)))


TRIALS = {5: 20_000, 20: 20_000, 100: 6_000, 1_000: 800, 4_000: 800}
"""Pairs by the size of their union: enough to know a small set's variance to 1 %, as it lies
close to the bound."""
SHARES = (Fraction(1, 2), Fraction(4, 5), Fraction(9, 10))


@pytest.mark.slow
@pytest.mark.parametrize("size", TRIALS)
@pytest.mark.parametrize("jaccard", SHARES)
def test_the_estimate_is_unbiased_and_no_noisier_than_minhash(size, jaccard):
    trials = TRIALS[size]
    tokens, starts = planted_pairs(np.random.default_rng(size + 1), size, jaccard, trials)
    ratio, deviations = noise_and_bias(tokens, starts, float(jaccard))
    assert abs(deviations) <= 3, (size, jaccard)
    assert 0.5 <= ratio <= 1.15, (size, jaccard)


@pytest.mark.parametrize("jaccard", SHARES)
def test_tokens_of_four_bytes_and_sampled_ones_are_as_good_to_sign(jaccard):
    tokens, starts = planted_pairs(np.random.default_rng(9), 100, jaccard, 4_000)
    tokens >>= np.uint64(36)  # upper half, and all of them 0 modulo 16
    tokens <<= np.uint64(36)
    ratio, deviations = noise_and_bias(tokens, starts, float(jaccard))
    assert abs(deviations) <= 3, jaccard
    assert 0.45 <= ratio <= 1.15, jaccard


def noise_and_bias(tokens, starts, truth):
    """Return the variance of the estimates over MinHash's, and their bias in standard errors."""
    signatures = MinHasher(SLOTS, seed=SEED).sign(tokens, starts).astype(np.uint8)
    equal = (signatures[0::2] == signatures[1::2]).sum(axis=1)
    raw = (equal / SLOTS - 1 / 256) / (1 - 1 / 256)  # `estimate` cuts it to [0, 1]
    assert (estimate(equal, SLOTS) == np.clip(raw, 0, 1)).all()
    ratio = raw.var() / (truth * (1 - truth) / SLOTS)
    return ratio, (raw.mean() - truth) / (raw.std() / np.sqrt(len(raw)))


@signed
@pytest.mark.parametrize("distinct", [1, 3, 20])
def test_a_set_that_repeats_its_tokens_ten_thousand_times_is_the_same_set(distinct):
    tokens = np.random.default_rng(distinct).integers(0, 2**64, distinct, dtype=np.uint64)
    repeated = np.concatenate((tokens, np.tile(tokens, 10_000), tokens))
    starts = np.array([0, distinct, len(repeated) - distinct, len(repeated)])
    signed = MinHasher(SLOTS, seed=SEED).sign(repeated, starts)
    assert (signed[0] == signed[1]).all()
    assert (signed[0] == signed[2]).all()
    assert (signed != EMPTY).all()


@signed
def test_an_empty_set_among_others_leaves_them_alone():
    tokens = np.arange(1, 30, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    hasher = MinHasher(SLOTS, seed=SEED)
    both = hasher.sign(tokens, np.array([0, 0, 29, 29]))
    assert (both[0] == EMPTY).all()
    assert (both[2] == EMPTY).all()
    assert (both[1] == hasher.sign(tokens, np.array([0, 29]))[0]).all()


@signed
def test_a_union_has_the_minimum_of_its_parts_in_every_slot():
    rng = np.random.default_rng(5)
    for size in (3, 50, 400):
        one = rng.integers(0, 2**64, size, dtype=np.uint64)
        other = rng.integers(0, 2**64, 2 * size, dtype=np.uint64)
        everything = np.concatenate((one, other, one, other))
        starts = np.array([0, size, 3 * size, 6 * size])
        signed = MinHasher(SLOTS, seed=SEED).sign(everything, starts)
        assert (signed[2] == np.minimum(signed[0], signed[1])).all()


@signed
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


@signed
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


@pytest.mark.parametrize("layout", ["bands", "random"])
def test_pairs_meet_as_often_as_the_curve_says(layout):
    """125 x 3 random keys of 128 slots share slots, so they miss together; the curve knows."""
    bands, rows = (125, 3) if layout == "random" else (20, 5)
    shape = Shape(bands, rows, SLOTS, layout)
    bander = Bander(bands, rows, seed=SEED, layout=layout, slots=SLOTS)
    rng = np.random.default_rng(4)
    for similarity in (0.1, 0.2, 0.3, 0.5, 0.7):
        one = rng.integers(0, 256, (6_000, SLOTS)).astype(np.uint8)
        kept = rng.random(one.shape) < similarity
        other = np.where(kept, one, one + rng.integers(1, 256, one.shape).astype(np.uint8))
        nothing = np.zeros((len(one), 16), np.uint8)
        ours, theirs = (bander.keys(each, nothing)[:, :-1] for each in (one, other))
        found, expected = (ours == theirs).any(axis=1).mean(), shape.probability(similarity)
        assert abs(found - expected) <= 4 * (expected * (1 - expected) / len(one)) ** 0.5 + 1e-4


def test_random_keys_are_made_of_distinct_choices_that_every_process_makes_alike():
    chosen = chosen_slots(125, 3, 128, seed=SEED)
    assert chosen.shape == (125, 3)
    assert len({tuple(row) for row in chosen.tolist()}) == 125
    assert (np.diff(chosen, axis=1) > 0).all()
    assert chosen[:2].tolist() == [[60, 96, 112], [7, 9, 11]]
    assert (chosen_slots(125, 3, 128, seed=bytes(16)) != chosen).any()
    assert sorted(map(tuple, chosen_slots(6, 2, 4, seed=SEED).tolist())) == [
        (0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)
    ]  # fmt: skip


def test_a_random_key_depends_on_its_own_slots_and_on_no_other():
    signature = np.arange(SLOTS, dtype=np.uint8)[None, :]
    bander, nothing = Bander(40, 3, seed=SEED, layout="random"), np.zeros((1, 16), np.uint8)
    chosen, keys = chosen_slots(40, 3, SLOTS, seed=SEED), bander.keys(signature, nothing)[0]
    for slot in range(SLOTS):
        changed = signature.copy()
        changed[0, slot] ^= 1
        differs = bander.keys(changed, nothing)[0] != keys
        assert np.flatnonzero(differs).tolist() == np.flatnonzero((chosen == slot).any(1)).tolist()
