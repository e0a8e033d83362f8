"""Random operations on the real thing and on a plain model: they must not differ in a byte."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamfilter.index.directory.opening import open_index
from streamfilter.index.format import name_of
from streamfilter.index.progress import Progress
from streamfilter.index.protocol import WINDOWS_MAX, Additions, Buckets, Changes
from streamfilter.index.rocks.options import Memory
from streamfilter.model import Window
from streamfilter.similarity.columns import Widths
from tests.index.conftest import SMALL
from tests.index.plain_index import PlainIndex
from tests.index.samples import (
    SLOTS,
    as_a_kill_leaves_it,
    documents,
    identity,
    mark,
    random_keys,
    removals,
)
from tests.support.columns import same_columns
from tests.support.values import replace

CAP = 3


def seeds(count: int) -> pytest.MarkDecorator:
    """Give a test so many seeds, and three times as many in the long run."""
    later = [pytest.param(seed, marks=pytest.mark.long) for seed in range(count, 4 * count)]
    return pytest.mark.parametrize("seed", [*range(count), *later])


class Twins:
    """A RocksIndex and a PlainIndex that get the same questions and changes."""

    def __init__(self, path: Path, seed: int, bounds: Memory = SMALL) -> None:
        self.bounds = bounds
        self.rng = random.Random(seed)
        self.path = path
        self.ids = seed % 2 == 0
        self.memory = PlainIndex(Widths(SLOTS), bucket_cap=CAP, ids=self.ids)
        self.rocks = self.opened()
        self.past: list[Changes] = []
        self.offset = 0
        self.deepest = self.oldest = 0
        self.forgets = False

    def opened(self) -> Any:
        return open_index(self.path, identity(), bucket_cap=CAP, memory=self.bounds, ids=self.ids)

    def apply(self) -> None:
        progress = self.memory.progress
        count = self.rng.randint(0, 30)
        step = self.rng.randint(1, 3)
        ordinals = [progress.next_ordinal + step * i for i in range(count)]
        after = progress.next_ordinal + step * count
        keys = random_keys(self.rng, count, kinds=self.rng.choice([5, 50, 100_000]))
        additions = None
        if count:
            short = [ordinal for ordinal in ordinals if self.rng.random() < 0.1]
            found = self.rocks.probe(keys) if self.rng.random() < 0.5 else None
            additions = Additions(documents(ordinals, unsigned=short), keys, found)
        start = self.offset + self.rng.randint(0, 2)
        self.offset = start + self.rng.randint(0, 40)
        number = progress.next_batch
        marks = (mark(number, (0, start, self.offset), first=progress.next_ordinal, after=after),)
        following = Progress(
            number, b"h", {0: self.offset}, number + 1, after, number, self.horizon()
        )
        opens = self.opens(following.horizon)
        if additions is not None and opens is not None:
            additions = replace(additions, buckets=None)
        self.told(Changes(following, additions, marks, opens=opens))

    def horizon(self) -> int:
        progress = self.memory.progress
        if not self.forgets or self.rng.random() < 0.6:
            return progress.horizon
        return self.rng.randint(progress.horizon, progress.next_ordinal)

    def opens(self, horizon: int) -> Window | None:
        progress, windows = self.memory.progress, self.memory.windows
        alive = 1 + sum(window.first_ordinal > horizon for window in windows[1:])
        if not self.forgets or alive == WINDOWS_MAX or self.rng.random() < 0.5:
            return None
        if self.rng.random() < 0.3:
            self.rocks.prepare()
        return Window(windows[-1].number + 1, progress.next_ordinal, progress.next_batch)

    def told(self, changes: Changes) -> None:
        self.past.append(changes)
        assert self.rocks.apply(changes) == self.memory.apply(changes)

    def apply_again(self) -> None:
        if not self.past:
            return
        old, now = self.rng.choice(self.past), self.memory.progress
        additions = old.additions and Additions(old.additions.documents, old.additions.keys)
        self.told(Changes(now, additions, old.marks))

    def forget(self) -> None:
        """Remove some documents of an earlier batch, known or not, and perhaps add some anew."""
        told = [changes.additions for changes in self.past if changes.additions]
        if not told:
            return
        old, progress = self.rng.choice(told), self.memory.progress
        rows = self.rng.sample(range(len(old.documents)), self.rng.randint(1, len(old.documents)))
        gone = removals(old.documents.at(np.array(rows)), old.keys[rows])
        additions, after = None, progress.next_ordinal
        if self.rng.random() < 0.5:
            keys = old.keys[rows[:1]]  # an update: the new one goes into the buckets of the old
            additions = Additions(documents([after], unsigned=[]), keys)
            after += 1
        following = replace(progress, next_ordinal=after)
        self.past.append(Changes(following, additions))
        changes = Changes(following, additions, removals=gone)
        assert self.rocks.apply(changes) == self.memory.apply(changes)

    def probe(self) -> None:
        keys = random_keys(self.rng, 8, kinds=self.rng.choice([5, 50]))
        present = np.array([self.rng.random() < 0.8 for _ in range(keys.size)])
        self.asked(keys, present.reshape(keys.shape), None)

    def probe_what_was_added(self) -> None:
        """Ask for keys of any earlier batch; none may be called absent."""
        told = [changes.additions for changes in self.past if changes.additions]
        if told:
            additions = self.rng.choice(told)
            self.asked(additions.keys, None, additions.documents.contents.signatures)

    def asked(self, keys: Any, present: Any, signatures: Any) -> None:
        found = self.rocks.probe(keys, present, signatures)
        wanted = self.memory.probe(keys, present, signatures)
        self.oldest = max(self.oldest, len(found.older))
        for one, other in zip(found.windows, wanted.windows, strict=True):
            self.same(one, other)

    def same(self, one: Buckets, other: Buckets) -> None:
        for name in ("counts", "ordinals", "full"):
            assert np.array_equal(getattr(one, name), getattr(other, name)), name
        assert len(one.deeper) == len(other.deeper)
        for ours, theirs in zip(one.deeper, other.deeper, strict=True):
            for name in ("cells", "counts", "ordinals"):
                assert np.array_equal(getattr(ours, name), getattr(theirs, name)), name
        self.deepest = max(self.deepest, len(one.deeper))

    def fetch(self) -> None:
        last = self.memory.progress.next_ordinal + 3
        wanted = np.array(sorted(self.rng.sample(range(last), min(last, 9))), np.int64)
        assert same_columns(self.rocks.fetch(wanted), self.memory.fetch(wanted))
        if self.ids:
            self.named()

    def named(self) -> None:
        names = [*map(name_of, ("", "a", "b-", *documents(range(60)).ids))]
        most, since = self.rng.choice((1, 2, 99)), self.rng.choice((0, 0, 9, 60))
        found = (index.named(names, most, since) for index in (self.rocks, self.memory))
        for one, other in zip(*found, strict=True):
            assert one.tolist() == other.tolist()

    def marks(self) -> None:
        offsets = np.array([self.rng.randrange(self.offset + 5) for _ in range(9)], np.int64)
        partitions = np.array([self.rng.randrange(2) for _ in offsets], np.int64)
        one = self.rocks.marks_covering(partitions, offsets)
        assert one == self.memory.marks_covering(partitions, offsets)

    def reopen(self) -> None:
        self.rocks.close()
        self.rocks = self.opened()

    def lose_power(self) -> None:
        """Go on with what a kill at this moment would leave."""
        copy = as_a_kill_leaves_it(self.path, self.path.with_name(f"{self.path.name}'"))
        self.rocks.close()
        self.path = copy
        self.rocks = self.opened()

    def end(self) -> None:
        assert list(self.rocks.dump()) == list(self.memory.dump())
        self.rocks.close()


@pytest.mark.slow
@seeds(4)
def test_random_operations_leave_both_implementations_equal(tmp_path: Path, seed: int) -> None:
    print(f"seed {seed}")
    twins = Twins(tmp_path / "state", seed)
    steps = [twins.apply, twins.apply_again, twins.probe, twins.fetch, twins.marks, twins.reopen]
    steps.append(twins.forget)
    for _ in range(100):
        twins.rng.choices(steps, weights=[6, 2, 3, 3, 2, 1, 3])[0]()
        assert len(twins.rocks) == len(twins.memory)
        assert twins.rocks.progress == twins.memory.progress
    twins.end()


@pytest.mark.slow
@pytest.mark.parametrize("front_bytes", [0, 1 << 20])
@seeds(1)
def test_an_index_that_forgets_is_the_same_on_disk_whatever_happens_to_it(
    tmp_path: Path, seed: int, front_bytes: int
) -> None:
    print(f"seed {seed}")
    bounds = replace(SMALL, front_bytes=front_bytes)
    twins = Twins(tmp_path / "state", seed, bounds)
    twins.forgets = True
    steps = [twins.apply, twins.apply_again, twins.probe, twins.probe_what_was_added, twins.fetch]
    steps += [twins.marks, twins.reopen, twins.lose_power, twins.forget]
    for _ in range(90):
        twins.rng.choices(steps, weights=[8, 1, 3, 3, 2, 2, 1, 1, 2])[0]()
        assert len(twins.rocks) == len(twins.memory)
        assert twins.rocks.windows == twins.memory.windows
    assert twins.oldest == WINDOWS_MAX - 1
    assert twins.memory.windows[0].number > 3
    twins.end()


@pytest.mark.slow
@pytest.mark.parametrize("front_bytes", [0, 256, 1 << 20])
@seeds(1)
def test_neither_a_crash_nor_a_full_front_hides_a_key(tmp_path, seed, front_bytes, monkeypatch):
    print(f"seed {seed}")
    bounds = replace(SMALL, front_bytes=front_bytes)
    twins = Twins(tmp_path / "state", seed, bounds)
    steps = [twins.apply, twins.apply_again, twins.probe, twins.reopen, twins.lose_power]
    for _ in range(80):
        twins.rng.choices(steps, weights=[8, 3, 8, 1, 1])[0]()
        twins.probe_what_was_added()
    twins.end()
