"""The audit: a few arrivals, each held against the whole index on the sets.

What is withheld is known: it was verified. What cannot be known without a look is how many of
the documents that were called unique had an original in the index all the same. So a few of the
arrivals are chosen by a keyed hash, and in the background, a slice of the index after the other,
each is compared with every document that was remembered before it: on the token samples, with
no signature, band or bucket in between. What the sketcher made of a text is believed (a text
that was split wrongly is wrong here too), and so is the estimate for sets above 1,024 tokens.

*Rounds.* While one sample is held against the index, the next is gathered from what arrives. A
sample holds at most `SAMPLE_MAX` documents, those whose hashes are the lowest, so memory is
bounded whatever the index's size and however long a round takes, and every arrival of the round
was as likely to be chosen as every other. That is all that an interval needs (`quality`).

What a round finds of a chosen arrival, with "similar" for a Jaccard similarity of at least what
the policy wants of such a pair:

- *true positive*: withheld as a near-duplicate, and similar to some document before it.
- *false positive*: withheld as a near-duplicate, and similar to none.
- *false negative*: judged unique, although similar to a document before it. Why it was missed is
  found out then (`CAUSES`).
- *true negative*: judged unique, and similar to none.

Equal texts are told by 128 bits and are not compared again; a text withheld for containment
claims no similarity. Both are counted in the round's population and are not looked at.

Blind to: what was forgotten before the round came to it (`Round.forgotten` tells), and texts too
short to be signed. Nothing here has a say in a verdict. The choice is a function of the log, the
counts belong to a process: what it had gathered is gone with it, and a batch that is read again
after a rewind is not audited.
"""

from __future__ import annotations

from dataclasses import dataclass

from streamfilter.index.protocol import Index
from streamfilter.matching.audit_sample import AuditSample
from streamfilter.matching.audit_scan import Round, Scan
from streamfilter.matching.pipeline import Judgement
from streamfilter.matching.policy import MatchPolicy
from streamfilter.similarity.columns import KeysOf
from streamfilter.similarity.sketch import Sketches


@dataclass(frozen=True, slots=True)
class Rates:
    """How much is audited."""

    arrivals: float = 0.0
    """Share of the judged documents that may be chosen, 0 to 1; 0: no audit."""
    time: float = 0.02
    """Share of the engine's time that comparing may take."""


OFF = Rates()


class Audit:
    """Audits what one index has judged, in the order of judgement; reads nothing at its start."""

    def __init__(self, rates: Rates, policy: MatchPolicy, index: Index, keys_of: KeysOf) -> None:
        """Begin with nothing: what *index* holds already is read a slice at a time."""
        # It compares sets of shingles, which records have none of.
        self._rates = OFF if policy.comparer.records else rates
        self._policy, self._index, self._keys_of = policy, index, keys_of
        self._documents = len(index)
        self._next = AuditSample.up_to(self._rates.arrivals)
        self._scan: Scan | None = None

    @property
    def waiting(self) -> bool:
        """Return whether there is anything to be compared."""
        return self._scan is not None or self._next.size > 0

    def batch(self, sketches: Sketches, judgement: Judgement, *, first_ordinal: int) -> None:
        """Choose among a batch that is new and has been written: row i is ordinal first + i."""
        if self._rates.arrivals <= 0:
            return
        additions = judgement.additions
        gone = self._documents + (len(additions.documents) if additions else 0) - len(self._index)
        self._documents = len(self._index)
        horizon = self._index.progress.horizon
        self._next.take(sketches, judgement.decisions, first_ordinal, horizon=horizon)
        self._next.forgotten += gone
        if self._scan is not None:
            self._scan.sample.forgotten += gone

    def look(self) -> Round | None:
        """Compare with the next slice of the index; return the round that this completes."""
        if self._scan is None:
            if not self._next.size:
                return None
            self._scan = Scan(self._next.closed(), self._policy, self._keys_of)
            self._next = AuditSample.up_to(self._rates.arrivals)
        if not self._scan.slice(self._index):
            return None
        ended, self._scan = self._scan, None
        return ended.result(self._index)
