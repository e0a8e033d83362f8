"""Placement: the only code that acts on a verdict, for records of files."""

from __future__ import annotations

from streamfilter.documents.rows import place_of
from streamfilter.files.outputs import Outputs
from streamfilter.files.summary import Summary
from streamfilter.matching.verdict import envelope
from streamfilter.model import (
    DUPLICATES,
    Decision,
    ErrorCode,
    Malformed,
    Record,
    Unjudged,
    Verdict,
)
from streamfilter.stops import BrokenInput


class Placement:
    """Writes each record to exactly one place, and counts it by its verdict."""

    def __init__(
        self,
        outputs: Outputs,
        *,
        scheme: str,
        threshold: float,
        payload: bool,
        shadow: bool = False,
    ) -> None:
        """Prepare to write.

        Args:
            outputs: the outputs of the run.
            scheme: fingerprint of the scheme, for the evidence.
            threshold: the lowest similarity of a match, for the evidence.
            payload: whether the evidence of a duplicate contains its original line.
            shadow: every readable line is forwarded; the evidence of each would-be duplicate is
                written too, without the line.
        """
        self.outputs = outputs
        self.summary = Summary()
        self._scheme = scheme
        self._threshold = threshold
        self._payload, self._shadow = payload and not shadow, shadow

    def judged(self, record: Record, document_id: str, decision: Decision) -> None:
        """Write a record that was judged."""
        if decision.verdict not in DUPLICATES:
            return self.unjudged(record, decision)
        evidence = envelope.evidence(
            decision,
            document_id=document_id,
            source=record.source,
            scheme=self._scheme,
            threshold=self._threshold,
        )
        if self._payload:
            evidence = envelope.with_payload(evidence, record.value)
        if self._shadow:
            self.outputs.unique.add(record)
        self.outputs.duplicates.write(envelope.encode(evidence))
        self.summary.count(decision.verdict)

    def unjudged(self, record: Record, outcome: Unjudged | Decision) -> None:
        """Forward or drop a record that was not judged."""
        if self._shadow or outcome.verdict is not Verdict.DROPPED:
            self.outputs.unique.add(record)
        self.summary.count(outcome.verdict, outcome.reason)

    def rejected(self, record: Record, malformed: Malformed) -> None:
        """Write a record that cannot be read to the dead-letter file.

        Raises:
            BrokenInput: there is no dead-letter file; the record is never dropped.
        """
        if self.outputs.dead_letter is None:
            raise BrokenInput(
                f"{place_of(record)}: {malformed.code.value}: {malformed.message}\n"
                f"    cure: {_cure(malformed.code)}set such records aside with --dead-letter PATH"
            )
        self.outputs.dead_letter.write(envelope.dead_letter(malformed, record))
        self.summary.count(Verdict.REJECTED, malformed.code)


def _cure(code: ErrorCode) -> str:
    if code in (ErrorCode.MISSING_TEXT, ErrorCode.MISSING_ID):
        return (
            "name the text and the id that the records have, such as --text /body --id none "
            "(`streamfilter peek FILE` shows them), or "
        )
    return "mend it and run again, or "
