"""Why a text would get its verdict: each step of the pipeline, taken apart for one document.

The same functions judge here as in the service; this only keeps what they otherwise throw away.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from streamfilter.candidates import Candidates, collect, hits_of
from streamfilter.index.protocol import U64, Buckets, Documents
from streamfilter.model import Verdict
from streamfilter.policy import MatchPolicy
from streamfilter.search import Met, Readable, met, present_keys
from streamfilter.similarity.sketch import Sketches
from streamfilter.verification import Outcome, Verifier

ALL_ORDINALS = 1 << 62
"""Behind every stored document: none of them is of the text's own batch."""


@dataclass(frozen=True, slots=True)
class Bucket:
    """A band key that earlier documents had, too."""

    band: int
    """From 0; the last column is the fingerprint of the whole text."""
    documents: int
    whole_text: bool
    full: bool
    """True if later documents of this key are counted but not listed."""


@dataclass(frozen=True, slots=True)
class Step:
    """One candidate and what became of it."""

    id: str
    ordinal: int
    partition: int
    offset: int
    bands: tuple[int, ...]
    estimate: float
    similarity: float
    exact: bool
    confirmed: bool
    why: str
    """In words: the comparison that decided."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """All steps of one verdict."""

    shingles: int
    """Distinct ones; 0: shorter than one shingle."""
    sample: int
    """How many of them are kept for verification."""
    columns: int
    """Band keys, without that of the whole text."""
    buckets: tuple[Bucket, ...]
    candidates: tuple[Step, ...]
    verdict: Verdict
    reason: str


def explain(
    index: Readable,
    sketches: Sketches,
    *,
    policy: MatchPolicy,
    bucket_cap: int,
    before: int = ALL_ORDINALS,
) -> Explanation:
    """Explain the one document in *sketches* against the documents *before* an ordinal."""
    buckets = index.probe(sketches.keys, present_keys(sketches, sketches.keys.shape[1]))
    buckets = _earlier(buckets, before)
    candidates = collect(hits_of(buckets))
    stored = index.fetch(np.unique(candidates.ordinals))
    outcome = Verifier(stored, sketches, policy, first_ordinal=ALL_ORDINALS).verify(candidates)
    compared = met(sketches, candidates, stored, policy=policy)
    bands = _bands_of(buckets)
    steps = tuple(
        _step(pair, outcome, compared, stored, policy, bands)
        for pair in np.lexsort((candidates.ordinals, -outcome.similarity)).tolist()
        if compared.known[pair]
    )
    verdict, reason = _verdict(steps, outcome, sketches, policy)
    return Explanation(
        shingles=int(sketches.set_sizes[0]),
        sample=len(sketches.tokens),
        columns=sketches.keys.shape[1] - 1,
        buckets=_hits(buckets, bucket_cap),
        candidates=steps,
        verdict=verdict,
        reason=reason,
    )


def _earlier(buckets: Buckets, before: int) -> Buckets:
    """Return the one row of *buckets* without the documents from *before* on."""
    columns = np.repeat(np.arange(buckets.counts.shape[1]), buckets.counts[0])
    kept = buckets.ordinals < before
    counts = np.bincount(columns[kept], minlength=buckets.counts.shape[1])
    return Buckets(counts.astype(np.uint8)[None, :], buckets.ordinals[kept])


def _hits(buckets: Buckets, cap: int) -> tuple[Bucket, ...]:
    counts, last = buckets.counts[0].tolist(), buckets.counts.shape[1] - 1
    return tuple(
        Bucket(band, count, whole_text=band == last, full=count >= cap)
        for band, count in enumerate(counts)
        if count
    )


def _bands_of(buckets: Buckets) -> dict[int, tuple[int, ...]]:
    """Return for each ordinal the bands in which it was met."""
    columns = np.repeat(np.arange(buckets.counts.shape[1]), buckets.counts[0]).tolist()
    found: dict[int, tuple[int, ...]] = {}
    for ordinal, column in zip(buckets.ordinals.tolist(), columns, strict=True):
        if column < buckets.counts.shape[1] - 1:
            found[ordinal] = (*found.get(ordinal, ()), column)
    return found


def _step(
    pair: int,
    outcome: Outcome,
    compared: Met,
    stored: Documents,
    policy: MatchPolicy,
    bands: dict[int, tuple[int, ...]],
) -> Step:
    ordinal = int(outcome.candidates.ordinals[pair])
    row = int(np.searchsorted(stored.ordinals, ordinal))
    return Step(
        id=stored.ids[row],
        ordinal=ordinal,
        partition=int(stored.partitions[row]),
        offset=int(stored.offsets[row]),
        bands=bands.get(ordinal, ()),
        estimate=float(compared.estimates[pair]),
        similarity=float(outcome.similarity[pair]),
        exact=bool(outcome.whole[pair]),
        confirmed=bool(outcome.confirmed[pair]),
        why=_why(pair, outcome, compared, policy),
    )


def _why(pair: int, outcome: Outcome, compared: Met, policy: MatchPolicy) -> str:
    similarity, estimate = outcome.similarity[pair], compared.estimates[pair]
    if outcome.equal_text[pair]:
        return "the whole text is equal after normalisation"
    if outcome.confirmed[pair]:
        return f"similarity {similarity:.4f} reaches the threshold {policy.threshold:g}"
    if outcome.skipped[pair]:
        return f"not compared: verify.max_candidates is {policy.max_candidates}"
    if not outcome.rejected[pair]:
        return "not compared: an equal text had decided already"
    if similarity == estimate and not outcome.whole[pair] and policy.method != "signature":
        return (
            f"not compared: the signatures' estimate {estimate:.4f} is hopelessly far below "
            f"the threshold {policy.threshold:g}"
        )
    return f"similarity {similarity:.4f} misses the threshold {policy.threshold:g}"


def _verdict(
    steps: tuple[Step, ...], outcome: Outcome, sketches: Sketches, policy: MatchPolicy
) -> tuple[Verdict, str]:
    """Return the verdict and its reason in words."""
    if outcome.equal_text.any() and (sketches.set_sizes[0] or policy.short_text == "exact_only"):
        return Verdict.EXACT_DUPLICATE, "an earlier document has the same text"
    if not sketches.set_sizes[0] and policy.short_text != "exact_only":
        dropped = policy.short_text == "drop"
        return (
            Verdict.DROPPED if dropped else Verdict.PASSTHROUGH,
            "the text is shorter than one shingle and is not judged (input.short_text)",
        )
    best = next((step for step in steps if step.confirmed), None)
    if best is not None:
        return Verdict.NEAR_DUPLICATE, f"of {best.id}: {best.why}"
    if steps:
        return Verdict.UNIQUE, f"{len(steps)} documents were met, and none is similar enough"
    return Verdict.UNIQUE, "no earlier document shares a band"


def beside(sketches: Sketches, keys: U64, stored: Documents, their_keys: U64,
           *, policy: MatchPolicy) -> Step:  # fmt: skip
    """Compare the one document in *sketches* with the one in *stored*, met or not."""
    shared = tuple(np.flatnonzero(keys[0, :-1] == their_keys[0, :-1]).tolist())
    signed = bool(sketches.set_sizes[0] and stored.set_sizes[0])
    pair = Candidates(
        np.zeros(1, np.int64), stored.ordinals, np.array([len(shared)]),
        keys[:, -1] == their_keys[:, -1],
    )  # fmt: skip
    compared = met(sketches, pair, stored, policy=policy)
    similarity, same = float(compared.similarity[0]), bool(compared.same_text[0])
    similar = bool(compared.confirmed[0])
    if same:
        why = "the whole text is equal after normalisation"
    elif not signed:
        why = "one of the two is shorter than one shingle: only an equal text would match"
    elif not shared:
        why = f"they share no band, so they never meet; their similarity is {similarity:.4f}"
    else:
        verb = "reaches" if similar else "misses"
        why = f"they meet; similarity {similarity:.4f} {verb} the threshold {policy.threshold:g}"
    return Step(
        stored.ids[0], int(stored.ordinals[0]), int(stored.partitions[0]), int(stored.offsets[0]),
        shared if signed else (), float(compared.estimates[0]), similarity,
        bool(compared.whole[0]), similar and (same or bool(shared)), why,
    )  # fmt: skip
