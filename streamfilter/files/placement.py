"""Placement: the only code that acts on a verdict, for records of files."""

from msgspec import Struct, field

from streamfilter.documents.rows import place_of
from streamfilter.files.outputs import Outputs
from streamfilter.files.summary import Summary
from streamfilter.matching.batch import Decided
from streamfilter.matching.verdict import envelope
from streamfilter.matching.verdict.decision import UNIQUE
from streamfilter.model import OUTPUTS, Decision, ErrorCode, Malformed, Record, Verdict
from streamfilter.stops import BrokenInput


class Placement(Struct, frozen=True):
    """Writes each record to exactly one place, and counts it by its verdict."""

    outputs: Outputs
    scheme: str  # fingerprint of the scheme, for the evidence
    threshold: float
    payload: bool  # whether the evidence of a duplicate contains its original line
    shadow: bool = False
    """Every readable line is forwarded; the evidence of each would-be duplicate is written too,
    without the line."""
    summary: Summary = field(default_factory=Summary)

    def write(self, decided: Decided) -> None:
        """Write the records of a batch, or raise `BrokenInput` if there is no dead-letter file."""
        prepared, kept, others = decided.prepared, list[Record](), 0
        ids, judged = prepared.ids, zip(prepared.records, decided.outcomes, strict=True)
        for row, (record, outcome) in enumerate(judged):
            if outcome is UNIQUE:  # nearly all: counted together
                kept.append(record)
                continue
            others += 1
            if isinstance(outcome, Malformed):
                self._reject(record, outcome)
            else:
                withheld = OUTPUTS.get(outcome.verdict) == "duplicates"
                if self.shadow or (outcome.verdict in OUTPUTS and not withheld):
                    kept.append(record)
                if withheld and isinstance(outcome, Decision):
                    self._withhold(record, ids[row], outcome)
                self.summary.count(outcome.verdict, outcome.reason)
        self.outputs.unique.add(kept)
        self.summary.count(UNIQUE.verdict, records=len(decided.outcomes) - others)

    def _withhold(self, record: Record, document_id: str, decision: Decision) -> None:
        evidence = envelope.evidence(
            decision,
            document_id=document_id,
            source=record.source,
            scheme=self.scheme,
            threshold=self.threshold,
        )
        if self.payload and not self.shadow:
            evidence = envelope.with_payload(evidence, record.value)
        self.outputs.duplicates.write(envelope.encode(evidence))

    def _reject(self, record: Record, malformed: Malformed) -> None:
        if self.outputs.dead_letter is None:
            cure = "mend it and run again, or "
            if malformed.code in (ErrorCode.MISSING_TEXT, ErrorCode.MISSING_ID):
                cure = (
                    "name the text and the id that the records have, such as --text /body --id "
                    "none (`streamfilter peek FILE` shows them), or "
                )
            elif malformed.code is ErrorCode.INVALID_JSON:
                cure += "if its lines are plain text, add --set input.format=text, or "
            raise BrokenInput(
                f"{place_of(record)}: {malformed.code.value}: {malformed.message}\n"
                f"    cure: {cure}set such records aside with --dead-letter PATH"
            )
        self.outputs.dead_letter.write(envelope.dead_letter(malformed, record))
        self.summary.count(Verdict.REJECTED, malformed.code)
