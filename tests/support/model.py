"""The sequential model: streamfilter's verdicts, one document at a time, with plain containers.

No columns, no rounds, no RocksDB. It takes sketches one row at a time and keeps a dict of
buckets. It is slow, short, and what the pipeline is held to.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import log
from statistics import NormalDist

import numpy as np

from streamfilter.similarity.minhash import independent_trials
from streamfilter.similarity.scheme import SAMPLE_TOKENS

ROUND = 12
IMPROBABLE = NormalDist().inv_cdf(1e-4) ** 2


@dataclass
class Stored:
    ordinal: int
    id: str
    fingerprint: bytes
    signature: bytes
    tokens: list[int]
    set_size: int


@dataclass(frozen=True)
class Memory:
    """How much is remembered: so many documents, so many milliseconds; None: any."""

    documents: int | None = None
    time: int | None = None
    least: int = 1


@dataclass
class Verdict:
    verdict: str
    matches: list[tuple[str, float, int]] = field(default_factory=list)
    truncated: bool = False


def improbable(share: float, truth: float, trials: int) -> bool:
    """Whether fewer than one in 10,000 of pairs alike by *truth* are so far below it."""
    truth = min(truth, 1 - 1e-12)
    if share >= truth:
        return False
    divergence = share * log(share / truth) + (1 - share) * log((1 - share) / (1 - truth))
    return 2 * trials * divergence > IMPROBABLE


def jaccard(a: Stored, b: Stored) -> float:
    limit = min([s.tokens[-1] for s in (a, b) if s.set_size > SAMPLE_TOKENS], default=2**32)
    left, right = ({t for t in s.tokens if t <= limit} for s in (a, b))
    return len(left & right) / max(len(left | right), 1)


def equal_slots(a: Stored, b: Stored, slots: int) -> int:
    return sum(x == y for x, y in zip(a.signature[:slots], b.signature[:slots], strict=True))


def estimate(a: Stored, b: Stored, slots: int) -> float:
    share = equal_slots(a, b, slots) / slots
    return max((share - 1 / 256) / (1 - 1 / 256), 0.0)


def trail(key: int, signature: bytes, band: int | None, bands: int) -> Iterator[int]:
    """*key*, and the longer keys of a band: and its next 2, 4, 6, 9, 12 and 18 slots."""
    yield key
    if band is None:
        return
    place = (band + 1) * len(signature) // bands
    for step in (2, 2, 2, 3, 3, 6):
        slots = [signature[(place + i) % len(signature)] for i in range(step)]
        place += step
        key = mixed(key, int.from_bytes(bytes(slots), "little"))
        yield key


def mixed(key: int, word: int) -> int:
    key = ((key ^ word) + 0x9E3779B97F4A7C15) % 2**64
    for factor in (0xD6E8FEB86659FD93, 0x9FB21C651E98DF25):
        key = key * factor % 2**64
        key ^= key >> 32
    return key


class SequentialModel:
    """*method* is that of `MatchPolicy`; the other rules are said again, in their own words."""

    def __init__(self, *, threshold=0.8, max_candidates=8, max_estimated=128, cap=8,
                 method="exact", agree=90, of=100, containment=None, contained="shorter",
                 short_threshold=None, short_size=32):  # fmt: skip
        self.threshold, self.max_candidates, self.cap = threshold, max_candidates, cap
        self.max_estimated = max(max_estimated, max_candidates)
        self.method, self.agree, self.of = method, agree, of
        self.containment, self.contained = containment, contained
        self.short_threshold, self.short_size = short_threshold, short_size
        self.buckets: dict[tuple[int, int], list[int]] = {}
        """By window and key."""
        self.documents: dict[int, Stored] = {}
        self.next_ordinal = 0
        self.window = self.horizon = 0
        self.firsts = [0]
        """With which ordinal each window begins."""
        self.equal: dict[bytes, list[int]] = {}
        """Who was ever remembered, by the text."""
        self.turned: dict[tuple[int, int], int] = {}
        """How many documents the bucket of a whole text has sent to its pages."""
        self.came: dict[int, int] = {}
        """The stream time of each document, since anything is limited."""
        self.undated = 0
        """The first of them, if time is: what was before it counts as come with it."""

    def forget(self, horizon: int, *, opens: bool) -> None:
        """Judge from now on without documents below *horizon*, perhaps in a new window."""
        self.horizon = horizon
        if opens:
            self.window += 1
            self.firsts.append(self.next_ordinal)

    def forget_id(self, *doc_ids: str) -> list[int]:
        """Take the documents of these ids off all lists; return their ordinals."""
        gone = [ordinal for ordinal, each in self.documents.items() if each.id in doc_ids]
        for ordinal in gone:
            del self.documents[ordinal]
        for bucket in self.buckets.values() if gone else ():
            bucket[:] = [ordinal for ordinal in bucket if ordinal in self.documents]
        return gone

    def come(self, time: int, memory: Memory) -> bool:
        """Forget what the next document of this stream time no longer meets.

        Return whether it begins a window.
        """
        ordinal = self.next_ordinal
        if not self.firsts[1:] and memory.time is not None:
            self.undated = ordinal  # nothing was limited before: it counts as come now
        self.came[ordinal] = time
        self._age(time, ordinal, memory)
        opens = self._is_full(time, ordinal, memory)
        self.forget(self.horizon, opens=opens)
        return opens

    def pass_time(self, time: int, memory: Memory) -> None:
        """Forget what the next document will not meet, whatever it is."""
        self._age(time, self.next_ordinal, memory)

    def _age(self, time: int, ordinal: int, memory: Memory) -> None:
        oldest = self.horizon
        if memory.documents is not None:
            oldest = max(oldest, ordinal - memory.documents)
        if memory.time is not None and self.came:
            dated = range(max(oldest, self.undated), ordinal)
            young = (each for each in dated if self.came.get(each, -1) > time - memory.time)
            first = next(young, ordinal)
            oldest = first if first > self.undated else oldest
        self.horizon = oldest

    def _is_full(self, time: int, ordinal: int, memory: Memory) -> bool:
        """Whether the newest window holds a quarter of what is remembered, and enough of it."""
        if memory.time is not None and len(self.firsts) == 1:
            return True
        first = self.firsts[-1]
        alive = len(self.firsts) - bisect_right(self.firsts, self.horizon) + 1
        held, passed = ordinal - first, time - self.came.get(first, time)
        shares = [0.0]
        if memory.documents is not None:
            shares.append(4 * held / memory.documents)
        if memory.time is not None:
            shares.append(4 * passed / memory.time)
        enough = held >= memory.least or passed >= 86_400_000
        return max(shares) >= 1 and enough and alive < 5

    def judge(self, doc_id: str, sketches, row: int) -> Verdict:
        contents, samples = sketches.contents, sketches.contents.samples
        a, b = samples.starts[row], samples.starts[row + 1]
        me = Stored(
            self.next_ordinal,
            doc_id,
            contents.fingerprints[row].tobytes(),
            contents.signatures[row].tobytes(),
            samples.tokens[a:b].tolist(),
            int(samples.set_sizes[row]),
        )
        self.next_ordinal += 1
        keys = sketches.keys[row].tolist()
        if me.set_size == 0:
            keys = keys[-1:]
        verdict = self._decide(me, keys)
        if verdict.verdict == "unique":
            self.documents[me.ordinal] = me
            self.equal.setdefault(me.fingerprint, []).append(me.ordinal)
            self._list_all(me, keys)
        return verdict

    def _list_all(self, me: Stored, keys: list[int]) -> None:
        for column, key in enumerate(keys):
            self._list(me, key, column if column < len(keys) - 1 else None, len(keys) - 1)

    def _list(self, me: Stored, key: int, band: int | None, bands: int) -> None:
        """List *me* under *key*, or under the first longer one whose bucket is not full.

        The bucket of a whole text goes on in pages, and is closed once it was full.
        """
        if band is None:
            place = self.window, key
            bucket, turned = self.buckets.setdefault(place, []), self.turned.get(place, 0)
            if turned or len(bucket) >= self.cap:
                self.turned[place] = turned + 1
                page = mixed(key, 1 + turned // min(4 * self.cap**2, 255))
                bucket = self.buckets.setdefault((self.window, page), [])
            bucket.append(me.ordinal)
            return
        for depth, each in enumerate(trail(key, me.signature, band, bands)):
            bucket = self.buckets.setdefault((self.window, each), [])
            if len(bucket) < (min(4 * self.cap**2, 255) if depth else self.cap):
                bucket.append(me.ordinal)
                return

    def _listed(self, me: Stored, key: int, band: int, bands: int) -> list[tuple[int, int]]:
        """Who is listed under *key*, or under a longer one of *me*, and what that key weighs."""
        found: list[tuple[int, int]] = []
        keys = zip(trail(key, me.signature, band, bands), (6, 8, 10, 12, 15, 18, 24), strict=True)
        for each, weight in keys:
            buckets = self._buckets_of(each)
            if not buckets:  # a longer key is only begun where this one was full
                break
            found += [(ordinal, weight) for ordinal in self._remembered(buckets)]
        return found

    def _buckets_of(self, key: int) -> list[list[int]]:
        """The lists under *key* in the windows that are alive, also those that are empty again."""
        windows = range(bisect_right(self.firsts, self.horizon) - 1, self.window + 1)
        return [self.buckets[each, key] for each in windows if (each, key) in self.buckets]

    def _remembered(self, buckets: list[list[int]]) -> list[int]:
        """Who is listed there and not forgotten."""
        listed = [ordinal for bucket in buckets for ordinal in bucket]
        return [o for o in listed if o >= self.horizon and o in self.documents]

    def documents_below(self, limit: int) -> dict[int, tuple[str, bytes]]:
        """Id and fingerprint of who was remembered before ordinal *limit*."""
        return {o: (each.id, each.fingerprint) for o, each in self.documents.items() if o < limit}

    def buckets_below(self, limit: int, oldest: int = 0) -> dict[tuple[int, int], list[int]]:
        """Who of them is listed in which window from the *oldest* on, and under which key."""
        below = {
            place: [ordinal for ordinal in bucket if ordinal < limit]
            for place, bucket in self.buckets.items()
            if place[0] >= oldest
        }
        return {place: kept for place, kept in below.items() if kept}

    def _decide(self, me: Stored, keys: list[int]) -> Verdict:
        for ordinal in self._remembered([self.equal.get(me.fingerprint, [])]):
            return Verdict("exact_duplicate", [(self.documents[ordinal].id, 1.0, 0)])
        shared: dict[int, int] = {}
        weights: dict[int, int] = {}
        for band, key in enumerate(keys[:-1]):
            for ordinal, weight in self._listed(me, key, band, len(keys) - 1):
                shared[ordinal] = shared.get(ordinal, 0) + 1
                weights[ordinal] = weights.get(ordinal, 0) + weight
        foremost = sorted(shared, key=lambda o: (-weights[o], o))[: self.max_estimated]
        ordered = sorted(foremost, key=lambda o: (-shared[o], o))
        hopeful = [o for o in ordered if self._hopeful(me, self.documents[o])]
        slots = self._slots(me)
        hopeful.sort(key=lambda o: -equal_slots(me, self.documents[o], slots))  # stable
        confirmed = []
        for ordinal in hopeful[: self.max_candidates]:
            other = self.documents[ordinal]
            similarity = self._similarity(me, other)
            if self._confirms(me, other, similarity):
                confirmed.append((-similarity, ordinal))
        if not confirmed:
            return Verdict("unique")
        matches = [
            (self.documents[o].id, round(-s, ROUND), shared[o]) for s, o in sorted(confirmed)
        ]
        left_out = len(hopeful) > self.max_candidates or len(shared) > self.max_estimated
        return Verdict("near_duplicate", matches, left_out)

    def _similarity(self, me: Stored, other: Stored) -> float:
        if self.method == "exact":
            return jaccard(me, other)
        return estimate(me, other, self._slots(me))

    def _slots(self, me: Stored) -> int:
        return self.of if self.method == "sketch" else len(me.signature)

    def _wanted(self, me: Stored, other: Stored) -> float:
        size = min(me.set_size, other.set_size)
        if self.short_threshold is None or size >= self.short_size:
            return self.threshold
        return self.short_threshold + (self.threshold - self.short_threshold) * (
            size / self.short_size
        )

    def _inside(self, me: Stored, other: Stored) -> tuple[int, int]:
        a, b = me.set_size, other.set_size
        return (a, b) if self.contained == "arriving" or a <= b else (b, a)

    def _confirms(self, me: Stored, other: Stored, similarity: float) -> bool:
        if self.method == "sketch":
            return equal_slots(me, other, self.of) >= self.agree
        if similarity >= self._wanted(me, other):
            return True
        if self.containment is None:
            return False
        inside, outside = self._inside(me, other)
        common = similarity * (inside + outside) / (1 + similarity)
        if max(me.set_size, other.set_size) <= SAMPLE_TOKENS and self.method == "exact":
            common = len(set(me.tokens) & set(other.tokens))
        return common / inside >= self.containment

    def _hopeful(self, me: Stored, other: Stored) -> bool:
        estimated = estimate(me, other, self._slots(me))
        if self.method == "sketch":
            return equal_slots(me, other, self.of) >= self.agree
        least = self._wanted(me, other)
        if self.containment is not None:
            inside, outside = self._inside(me, other)
            common = self.containment * inside
            if common <= outside:
                least = min(least, common / (inside + outside - common))
        if self.method == "exact":
            union = (me.set_size + other.set_size) / (1 + least)
            slots = len(me.signature)
            (worth,) = independent_trials(slots, slots=slots, unions=np.array([union])).tolist()
            return not improbable(estimated + 1 / worth, least, worth)
        return estimated >= least
