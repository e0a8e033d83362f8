"""Every pair that reaches the threshold is found, whatever the sets look like."""

import random

import numpy as np
import pytest

from streamfilter.similarity import overlap
from streamfilter.similarity.columns import Samples
from streamfilter.similarity.exact import jaccard
from streamfilter.similarity.overlap import Postings
from streamfilter.similarity.scheme import SAMPLE_TOKENS


def samples_of(sets: list[set[int]]) -> Samples:
    cut = [sorted(tokens)[:SAMPLE_TOKENS] for tokens in sets]
    sizes = [len(tokens) for tokens in cut]
    return Samples(
        np.array([token for tokens in cut for token in tokens], np.uint32),
        np.concatenate(([0], np.cumsum(sizes))).astype(np.int64),
        np.array([len(tokens) for tokens in sets], np.int64),
    )


def a_crowd(chooser: random.Random, count: int, largest: int) -> list[set[int]]:
    """Sets with common boilerplate, near copies, subsets, and some beyond the sample's size."""
    boilerplate = chooser.sample(range(2**32), largest // 3)
    crowd: list[set[int]] = [set(), {7}]
    while len(crowd) < count:
        if len(crowd) > 4 and chooser.random() < 0.5:
            copy = set(chooser.choice(crowd))
            for token in chooser.sample(sorted(copy), int(len(copy) * chooser.uniform(0, 0.4))):
                copy.discard(token)
                if chooser.random() < 0.5:
                    copy.add(chooser.randrange(2**32))
            crowd.append(copy)
        else:
            size = chooser.randint(1, largest)
            fresh = set(chooser.sample(range(2**32), size))
            crowd.append(fresh | set(chooser.sample(boilerplate, len(boilerplate) // 2)))
    return crowd


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("cells", [64, 1 << 20])
def test_the_pairs_found_are_those_of_comparing_all_with_all(seed, cells, monkeypatch):
    monkeypatch.setattr(overlap, "CELLS_MAX", cells)
    chooser = random.Random(seed)
    threshold = chooser.choice([0.3, 0.5, 0.8, 0.95, 1.0])
    largest = chooser.choice([12, 200, 1_600])
    left = samples_of(a_crowd(chooser, 25, largest))
    right = samples_of(a_crowd(random.Random(seed), 40, largest))
    rows, ours = (each.reshape(-1) for each in np.mgrid[:25, :40])
    everything = jaccard(left, rows, right, ours).similarity
    wanted = {(int(r), int(o)) for r, o in zip(rows, ours, strict=True)
              if everything[r * 40 + o] >= threshold}  # fmt: skip
    found = Postings(right).similar(left, threshold=threshold)
    pairs = list(zip(found[0].tolist(), found[1].tolist(), strict=True))
    assert len(pairs) == len(set(pairs))
    assert set(pairs) == wanted
    assert [everything[r * 40 + o] for r, o in pairs] == found[2].tolist()


def test_nothing_is_similar_to_no_one():
    nobody, one = samples_of([]), samples_of([{1, 2, 3}])
    assert Postings(nobody).similar(one, threshold=0.5)[0].size == 0
    assert Postings(one).similar(nobody, threshold=0.5)[0].size == 0


def test_pairs_of_whole_sets_share_enough_of_the_smaller_and_a_cut_set_may_with_any():
    large = set(range(SAMPLE_TOKENS + 1))
    held = Postings(samples_of([{1, 2, 3, 4}, large]))
    rows, ours, _ = held.overlapping(samples_of([{1, 8, 9}, {1, 2, 8}, set()]), share=0.5)
    assert list(zip(rows.tolist(), ours.tolist(), strict=True)) == [(0, 1), (1, 0), (1, 1)]
