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


def estimate(a: Stored, b: Stored) -> float:
    share = sum(x == y for x, y in zip(a.signature, b.signature, strict=True)) / len(a.signature)
    return max((share - 1 / 256) / (1 - 1 / 256), 0.0)


class SequentialModel:
    def __init__(self, *, threshold=0.8, max_candidates=8, cap=8):
        self.threshold, self.max_candidates, self.cap = threshold, max_candidates, cap
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
        least = self.threshold - 3.5 * sqrt(
            self.threshold * (1 - self.threshold) / len(me.signature)
        )
        ordered = sorted(shared, key=lambda o: (-shared[o], o))
        hopeful = [o for o in ordered if estimate(me, self.documents[o]) >= least]
        confirmed = []
        for ordinal in hopeful[: self.max_candidates]:
            similarity = jaccard(me, self.documents[ordinal])
            if similarity >= self.threshold:
                confirmed.append((-similarity, ordinal))
        if not confirmed:
            return Verdict("unique")
        matches = [
            (self.documents[o].id, round(-s, ROUND), shared[o]) for s, o in sorted(confirmed)
        ]
        return Verdict("near_duplicate", matches, len(hopeful) > self.max_candidates)
