"""The sequential model: streamfilter's verdicts, one document at a time, with plain containers.

No columns, no rounds, no RocksDB. It takes sketches one row at a time and keeps a dict of
buckets. It is slow, short, and what the pipeline is held to.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import sqrt

from streamfilter.similarity.scheme import SAMPLE_TOKENS

ROUND = 12


@dataclass
class Stored:
    ordinal: int
    id: str
    fingerprint: bytes
    signature: bytes
    tokens: list[int]
    set_size: int


@dataclass
class Verdict:
    verdict: str
    matches: list[tuple[str, float, int]] = field(default_factory=list)
    truncated: bool = False


def jaccard(a: Stored, b: Stored) -> float:
    limit = min([s.tokens[-1] for s in (a, b) if s.set_size > SAMPLE_TOKENS], default=2**32)
    left, right = ({t for t in s.tokens if t <= limit} for s in (a, b))
    return len(left & right) / max(len(left | right), 1)


def equal_slots(a: Stored, b: Stored, slots: int) -> int:
    return sum(x == y for x, y in zip(a.signature[:slots], b.signature[:slots], strict=True))


def estimate(a: Stored, b: Stored, slots: int) -> float:
    share = equal_slots(a, b, slots) / slots
    return max((share - 1 / 256) / (1 - 1 / 256), 0.0)


class SequentialModel:
    """*method* is that of `MatchPolicy`; the other rules are said again, in their own words."""

    def __init__(self, *, threshold=0.8, max_candidates=8, cap=8, method="exact", agree=90, of=100,
                 containment=None, contained="shorter", short_threshold=None,
                 short_size=32):  # fmt: skip
        self.threshold, self.max_candidates, self.cap = threshold, max_candidates, cap
        self.method, self.agree, self.of = method, agree, of
        self.containment, self.contained = containment, contained
        self.short_threshold, self.short_size = short_threshold, short_size
        self.buckets: dict[int, list[int]] = {}
        self.documents: dict[int, Stored] = {}
        self.next_ordinal = 0

    def judge(self, doc_id: str, sketches, row: int) -> Verdict:
        a, b = sketches.token_starts[row], sketches.token_starts[row + 1]
        me = Stored(
            self.next_ordinal,
            doc_id,
            sketches.fingerprints[row].tobytes(),
            sketches.signatures[row].tobytes(),
            sketches.tokens[a:b].tolist(),
            int(sketches.set_sizes[row]),
        )
        self.next_ordinal += 1
        keys = sketches.keys[row].tolist()
        if me.set_size == 0:
            keys = keys[-1:]
        verdict = self._decide(me, keys)
        if verdict.verdict == "unique":
            self.documents[me.ordinal] = me
            for key in keys:
                bucket = self.buckets.setdefault(key, [])
                if len(bucket) < self.cap:
                    bucket.append(me.ordinal)
        return verdict

    def _decide(self, me: Stored, keys: list[int]) -> Verdict:
        for ordinal in sorted(self.buckets.get(keys[-1], [])):
            if self.documents[ordinal].fingerprint == me.fingerprint:
                return Verdict("exact_duplicate", [(self.documents[ordinal].id, 1.0, 0)])
        shared: dict[int, int] = {}
        for key in keys[:-1]:
            for ordinal in self.buckets.get(key, []):
                shared[ordinal] = shared.get(ordinal, 0) + 1
        ordered = sorted(shared, key=lambda o: (-shared[o], o))
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
        return Verdict("near_duplicate", matches, len(hopeful) > self.max_candidates)

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
            least -= 3.5 * sqrt(least * (1 - least) / len(me.signature))
        return estimated >= least
