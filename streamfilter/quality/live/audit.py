"""The audit: compares a random sample of arrivals with the whole index, to measure recall.

Withheld documents were verified, so their matches are known. It is not known how many documents
were called unique although the index had a similar one. So the audit chooses a few arrivals by a
keyed hash. In the background it compares each with every document that was remembered before it,
one slice of the index at a time. It compares token samples directly, without signatures, bands or
buckets, and records with fields by their score. It does not check the sketcher (a text that was
split wrongly is wrong here too), nor the estimate for sets above 1,024 tokens.

*Rounds.* While one sample is compared with the index, the next one is gathered from new arrivals.
A sample holds at most `SAMPLE_MAX` documents, those with the lowest hashes. So memory is bounded,
whatever the size of the index and the length of a round. Every arrival of a round is equally
likely to be chosen, which is all that a confidence interval needs (`figures`).

A round has four results. "Similar" means that the policy calls the pair duplicates: by Jaccard
similarity, by containment, or by the score of two records:

- *true positive*: withheld as a near-duplicate, and similar to a document before it.
- *false positive*: withheld as a near-duplicate, and similar to none.
- *false negative*: judged unique, although similar to a document before it. The round also finds
  the cause (`CAUSES`).
- *true negative*: judged unique, and similar to none.

Some arrivals are counted in the round's population, but not compared. Equal texts were already
compared by 128 bits. A known id alone may have decided. A record above 4 KB would take too long: as
an original, it counts as forgotten.

*Forgetting.* A document that the horizon has passed is on disk until its window is dropped, so the
audit can still compare with it. If a window is dropped before a sample was compared with it, that
sample is given up, and the figures are of other arrivals. Documents that tombstones and updates
removed are gone at once: `Round.forgotten` counts them.

The audit does not see these, nor texts too short to be signed. It never changes a verdict. The
choice depends only on the log, but the counts are kept in the process: a restart loses the sample
that was being gathered. A batch that is read again after a rewind is not audited.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from streamfilter.index.protocol import Index
from streamfilter.matching.batch import Decided
from streamfilter.matching.pipeline import Judgement
from streamfilter.matching.verdict.policy import MatchPolicy
from streamfilter.quality.live import audit_sample
from streamfilter.quality.live.audit_sample import AuditSample
from streamfilter.quality.live.audit_scan import Round, Scan
from streamfilter.similarity.columns import I64, KeysOf
from streamfilter.similarity.sketch import Sketches

CREDIT_SECONDS = 0.05
"""Most time that may be saved up. It is the longest delay of a batch, except for one slice."""
SLICE_SECONDS_MIN = 0.0005
"""Least time that a slice counts, so that the loop ends even if the clock stands still."""


class Auditing:
    """Runs the slices of one task's audit, within its share of the engine's one thread.

    Comparing a sample with a large index takes minutes to hours of work. It is done in slices of a
    few milliseconds, after a batch and while no record arrives. No verdict waits for its results.

    A slice begins only when the saved time covers the duration of the previous slice. If a slice
    began with any saved time, each batch would exceed the share by one slice. The slice that ends
    a round takes the longest.
    """

    def __init__(
        self,
        audit: Audit,
        clock: Callable[[], float],
        tell: Callable[[Round], None],
        *,
        share: float,
    ) -> None:
        """Begin with no saved time; *clock* returns monotonic seconds."""
        self._audit, self._clock, self._tell, self._share = audit, clock, tell, share
        self._credit, self._seen = 0.0, clock()
        self._slice = SLICE_SECONDS_MIN

    def batch(self, decided: Decided, *, first_ordinal: int) -> None:
        """Sample from a batch that is new and written; compare, if there is time."""
        judgement, sketches = decided.judgement, decided.prepared.sketches
        if judgement is not None and sketches is not None:
            begun = self._clock()
            self._audit.batch(
                sketches,
                judgement,
                first_ordinal=first_ordinal,
                since=decided.extent.since(len(sketches)),
                removed=len(decided.forgotten.stored),
            )
            self._credit -= self._clock() - begun
        self.look()

    def look(self) -> None:
        """Compare slices while there is time for them; report every round that is completed."""
        now = self._clock()
        self._credit = min(CREDIT_SECONDS, self._credit + self._share * (now - self._seen))
        while self._credit >= self._slice and self._audit.waiting:
            found, begun = self._audit.look(), now
            if found is not None:
                self._tell(found)
            now = self._clock()
            cost = max(now - begun, SLICE_SECONDS_MIN)
            self._credit -= cost
            self._slice = min(cost, CREDIT_SECONDS)
        self._seen = now


class Rates(Struct, frozen=True):
    """How many arrivals are audited, and how much time that may take."""

    arrivals: float = 0.0  # share of the judged documents that may be chosen, 0 to 1; 0: no audit
    time: float = 0.02  # share of the engine's time that comparing may take


OFF = Rates()


class Audit:
    """Audits the verdicts of one index, in the order of judgement; reads nothing at its start."""

    def __init__(self, rates: Rates, policy: MatchPolicy, index: Index, keys_of: KeysOf) -> None:
        """Begin with an empty sample; *index* is read later, a slice at a time."""
        self._rates = rates
        self._policy, self._index, self._keys_of = policy, index, keys_of
        self._stored_from = 0  # first ordinal that the index held when the last batch was written
        self._next = self._sample()
        self._scan: Scan | None = None

    def _sample(self) -> AuditSample:
        most = audit_sample.RECORDS_MAX if self._policy.fields else audit_sample.SAMPLE_MAX
        return AuditSample.up_to(self._rates.arrivals, most)

    @property
    def waiting(self) -> bool:
        return self._scan is not None or self._next.size > 0

    def batch(
        self,
        sketches: Sketches,
        judgement: Judgement,
        *,
        first_ordinal: int,
        since: I64 | None = None,
        removed: int = 0,
    ) -> None:
        """Choose among a new batch that has been written: row i has the ordinal first + i.

        Args:
            sketches: Of the batch.
            judgement: Of the batch.
            first_ordinal: Ordinal of its first document.
            since: (n,) the lowest ordinal that each document might match; None: 0.
            removed: Number of stored documents that its tombstones and updates have removed.
        """
        if self._rates.arrivals <= 0:
            return
        self._end_windows(self._index.windows[0].first_ordinal)
        self._next.take(sketches, judgement.decisions, first_ordinal, since=since)
        self._next.forgotten += removed
        if self._scan is not None:
            self._scan.sample.forgotten += removed

    def _end_windows(self, stored_from: int) -> None:
        """Begin anew where documents have gone, with their window, before they were compared."""
        if stored_from > self._stored_from:
            self._next = self._sample()
            if self._scan is not None and self._scan.cursor < stored_from:
                self._scan = None
        self._stored_from = stored_from

    def look(self) -> Round | None:
        """Compare with the next slice of the index; return the round if this completes it."""
        if self._scan is None:
            if not self._next.size:
                return None
            self._scan = Scan(self._next.closed(), self._policy, self._keys_of)
            self._next = self._sample()
        if not self._scan.slice(self._index):
            return None
        ended, self._scan = self._scan, None
        return ended.result(self._index)
