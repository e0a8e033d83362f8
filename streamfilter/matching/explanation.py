"""Why a text gets its verdict: each step of the pipeline, shown for one document.

Nothing is decided here. The verdict comes from `decision`, the result of each candidate from
`verification`, and the wording of both from `decision`. So the output of `explain` and `query`
always agrees with what the filter does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from streamfilter.index.bands.bucket_overflow import DEPTH
from streamfilter.index.bucket_levels import Level
from streamfilter.index.memory import MemoryIndex
from streamfilter.index.progress import Progress
from streamfilter.index.protocol import Additions, Changes, Documents, Readable
from streamfilter.matching.blocking.candidate_limit import LimitedCandidates
from streamfilter.matching.blocking.candidates import Candidates, collect, merged
from streamfilter.matching.pipeline import Batch, Locate, described, judge
from streamfilter.matching.search import BEHIND_ALL, Candidate, candidate_of, met_in, named_by
from streamfilter.matching.verdict.decision import SAME_FIELD, SHORT, UNIQUE, Fate, Outcome, decide
from streamfilter.matching.verdict.policy import MatchPolicy
from streamfilter.matching.verdict.verification import Verifier
from streamfilter.model import Decision, Match, Origins, Source, Verdict
from streamfilter.similarity.columns import I64, U64, Contents, Flags, distinct
from streamfilter.similarity.sketch import Sketcher, Sketches
from streamfilter.stops import counted

NOWHERE: Locate = Origins().locate  # a source without a topic


class SharedBucket(Struct, frozen=True):
    """A key of the document that earlier documents have, too."""

    band: int  # number of the column from 0; the last one is the fingerprint of the whole text
    documents: int
    whole_text: bool
    full: bool  # whether the bucket is full, so that later documents are listed under longer keys
    longer: int = 0  # documents found under longer keys, which are used because the bucket is full


class Explanation(Struct, frozen=True):
    """All steps of one verdict."""

    shingles: int  # distinct shingles of the text; 0: shorter than one shingle
    sample: int  # how many of them are kept for verification
    columns: int  # number of band keys, without the key of the whole text
    buckets: tuple[SharedBucket, ...]
    candidates: tuple[Candidate, ...]  # matches first, then the others; each the most similar first
    decision: Decision
    reason: str  # why it is this decision, in words


def explain(
    index: Readable,
    sketches: Sketches,
    *,
    policy: MatchPolicy,
    before: int = BEHIND_ALL,
    reach: int = 0,
    locate: Locate = NOWHERE,
) -> Explanation:
    """Explain the verdict on the document in *sketches*, by those *before* an ordinal."""
    short, least = policy.judges_short, policy.least_set
    present = sketches.keys_that_count(short=short, least=least)
    since = index.progress.horizon

    def meets(_: I64, ordinals: I64) -> Flags:
        return (ordinals >= max(since, reach)) & (ordinals < before)

    levels = met_in(index, sketches, meets, short=short, least=least)
    met = _met_under(levels, range(since, before))
    candidates = collect(levels, columns=sketches.keys.shape[1])
    too_old = candidates.where((candidates.ordinals >= since) & (candidates.ordinals < reach))
    candidates = candidates.where(meets(candidates.rows, candidates.ordinals))
    named = named_by(index, sketches.contents, reach)
    too_old = merged(too_old, named.where(named.ordinals < min(reach, before)))
    named = named.where(meets(named.rows, named.ordinals))
    if len(named):  # nothing else is looked at
        candidates = named = named.at(np.arange(1))
    limited = LimitedCandidates.of([candidates], documents=1, most=policy.estimated)
    outnumbered = ~np.isin(candidates.ordinals, limited.candidates.ordinals)
    stored = index.fetch(distinct(np.append(candidates.ordinals, too_old.ordinals)))
    verifier = Verifier(stored, sketches.contents, policy, first_ordinal=BEHIND_ALL)
    outcome = verifier.verify(candidates, outnumbered=outnumbered)
    if len(named):
        decision = _by_field(stored, named.ordinals, locate)
    elif present.any():
        decision = _decided(outcome, stored, locate)
    else:
        decision = SHORT[policy.short_text]
    shared = _bands_of(met, sketches.keys.shape[1] - 1)
    steps = _steps(outcome, stored, sketches.contents, shared)
    old = verifier.verify(too_old, every=True)
    steps += _steps(old, stored, sketches.contents, shared, reach=reach)
    return Explanation(
        shingles=int(sketches.contents.set_sizes[0]),
        sample=len(sketches.contents.samples.tokens),
        columns=sketches.keys.shape[1] - 1,
        buckets=_hits(met, index.bucket_cap, sketches.keys.shape[1] - 1),
        candidates=steps,
        decision=decision,
        reason=_reason(decision, steps, int(outcome.missing.sum()), policy.minimum_fields),
    )


def _by_field(stored: Documents, ordinals: I64, locate: Locate) -> Decision:
    """Return the decision on a document that has a field's value of the first of *ordinals*."""
    row = np.searchsorted(stored.ordinals, ordinals)
    id_, source = described(stored, row, locate)[0]
    match = Match(id_, 1.0, 0, source, int(ordinals[0]))
    return Decision(Verdict.EXACT_DUPLICATE, (match,), SAME_FIELD)


def _decided(outcome: Outcome, stored: Documents, locate: Locate) -> Decision:
    def describe(ordinals: I64) -> list[tuple[str, Source]]:
        return described(stored, np.searchsorted(stored.ordinals, ordinals), locate)

    stands = np.ones(len(outcome.candidates), np.bool_)
    skipped = np.zeros(1, np.bool_)
    return dict(decide(outcome, stands, describe=describe, skipped=skipped)).get(0, UNIQUE)


def _met_under(levels: Sequence[Level], remembered: range) -> tuple[list[tuple[int, int]], ...]:
    """Return (column, ordinal) of the row's candidates, by the length of the shared key."""
    met: tuple[list[tuple[int, int]], ...] = tuple([] for _ in range(DEPTH + 1))
    for level in levels:
        found = zip(level.askers.tolist(), level.ordinals.tolist(), strict=True)
        met[level.depth].extend(pair for pair in found if pair[1] in remembered)
    return met


def _hits(met: tuple[list[tuple[int, int]], ...], cap: int, last: int) -> tuple[SharedBucket, ...]:
    shortest = Counter(column for column, _ in met[0])
    longer = Counter(column for level in met[1:] for column, _ in level)
    return tuple(
        SharedBucket(band, shortest[band], band == last, shortest[band] >= cap, longer[band])
        for band in sorted(shortest | longer)
    )


def _bands_of(met: tuple[list[tuple[int, int]], ...], last: int) -> dict[int, tuple[int, ...]]:
    """Return for each ordinal the bands that the row shares with it."""
    found: dict[int, tuple[int, ...]] = {}
    for column, ordinal in sorted(pair for level in met for pair in level):
        if column < last:
            found[ordinal] = (*found.get(ordinal, ()), column)
    return found


def _steps(
    outcome: Outcome,
    stored: Documents,
    ours: Contents,
    bands: dict[int, tuple[int, ...]],
    *,
    reach: int = 0,
) -> tuple[Candidate, ...]:
    """Return the candidates that still exist: matches first, in the order of the evidence."""
    pairs = outcome.candidates
    order = np.lexsort((pairs.ordinals, -outcome.similarity, ~outcome.confirmed))
    return tuple(
        candidate_of(outcome, pair, stored, ours, bands.get(int(pairs.ordinals[pair]), ()), reach)
        for pair in order.tolist()
        if not outcome.missing[pair]
    )


def _reason(
    decision: Decision, steps: tuple[Candidate, ...], missing: int, minimum: int | None
) -> str:
    if decision.reason is not None:
        what = "the text is shorter than one shingle"
        if minimum is not None:
            what = f"the record has fewer fields than verify.minimum_fields ({minimum})"
        return f"{what} and is not judged (input.short_text)"
    if decision.method == SAME_FIELD and decision.match is not None:
        return f"of {decision.match.document_id}: {steps[0].finding.why}"
    if decision.verdict is Verdict.EXACT_DUPLICATE:
        return "an earlier document has the same text"
    if decision.match is not None:
        return f"of {decision.match.document_id}: {steps[0].finding.why}"
    if not steps and not missing:
        return "no earlier document shares a band"
    reason = f"{counted(len(steps), 'candidate')}, and none is a match"
    fates = Counter(step.finding.fate for step in steps)
    if fates[Fate.DIFFERS]:
        reason += f"; {fates[Fate.DIFFERS]} of them differ in what verify.agree_on names"
    if fates[Fate.TOO_OLD]:
        reason += f"; {fates[Fate.TOO_OLD]} of them arrived earlier than verify.within lets match"
    if fates[Fate.OUTNUMBERED]:
        reason += f"; {fates[Fate.OUTNUMBERED]} of them were outnumbered by better ones"
    return f"{reason}; {missing} more are no longer in the index" if missing else reason


class Beside(Struct, frozen=True):
    """The comparison of a document with a stored one, whether or not they share a key."""

    other: Candidate
    why: str  # whether the two share a key, and the comparison that decided, in words


def beside(
    sketches: Sketches, stored: Documents, their_keys: U64, *, policy: MatchPolicy, reach: int = 0
) -> Beside:
    """Compare the document in *sketches* with the one in *stored*, even if they share no key."""
    keys = sketches.keys
    shared = tuple(np.flatnonzero(keys[0, :-1] == their_keys[0, :-1]).tolist())
    signed = bool(sketches.contents.set_sizes[0] and stored.contents.set_sizes[0])
    bands = np.array([len(shared)])
    pair = Candidates.of(
        np.zeros(1, np.int64), stored.ordinals, bands=bands, weights=bands,
        same_text=keys[:, -1] == their_keys[:, -1],
    )  # fmt: skip
    # A pair that shares a key is judged as in the filter. Any other pair is always compared.
    verifier = Verifier(stored, sketches.contents, policy, first_ordinal=BEHIND_ALL)
    outcome = verifier.verify(pair, every=not (signed and shared))
    other = candidate_of(outcome, 0, stored, sketches.contents, shared if signed else (), reach)
    finding = other.finding
    if finding.fate in (Fate.SAME_FIELD, Fate.SAME_TEXT, Fate.TOO_OLD):
        return Beside(other, finding.why)
    if signed and shared:
        return Beside(other, f"they share a key; {finding.why}")
    unmet = replace(finding, fate=Fate.UNMET)
    if not signed:
        why = "one of the two is shorter than one shingle: only an equal text would match"
        unmet = replace(unmet, similarity=0.0, estimate=0.0)
    else:
        why = f"they share no key, so they are never compared; {finding.why}"
    return Beside(replace(other, finding=unmet), why)


class PairExplanation(Struct, frozen=True):
    """The filter's verdict on a text that arrives after one other text."""

    remembered: bool  # whether the first text is long enough to enter the index
    beside: Beside  # the comparison of the two, whether or not they share a key
    explanation: Explanation


def one_after_the_other(
    one: str, other: str, sketcher: Sketcher, *, policy: MatchPolicy, bucket_cap: int
) -> PairExplanation:
    """Judge *one* with an empty index, as the filter does, then explain *other*."""
    first, second = sketcher.sketch([one]), sketcher.sketch([other])
    stored = _as_stored(first, policy)
    index = MemoryIndex(sketcher.scheme.widths, bucket_cap=bucket_cap, ids=True)
    counts = first.keys_that_count(short=policy.judges_short, least=policy.least_set)
    remembered = bool(counts.any())
    if remembered:
        index.apply(Changes(Progress(next_batch=1, next_ordinal=1), stored))
    return PairExplanation(
        remembered=remembered,
        beside=beside(second, stored.documents, first.keys, policy=policy),
        explanation=explain(index, second, policy=policy),
    )


def _as_stored(sketches: Sketches, policy: MatchPolicy) -> Additions:
    """Return the text as an index stores it, even if it is too short for one."""
    nothing = np.zeros(1, np.int64)
    judgement = judge(
        Batch(["the first"], nothing, nothing, nothing - 1),
        sketches,
        index=MemoryIndex(sketches.contents.widths, ids=True),
        policy=replace(policy, short_text="exact_only"),
        locate=NOWHERE,
        number=0,
        first_ordinal=0,
    )
    assert judgement.additions is not None, "nothing is before it"
    return judgement.additions
