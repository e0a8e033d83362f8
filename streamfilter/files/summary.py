"""Counts of a run over files: every record counts once, by the output that it went to."""

from collections import Counter
from typing import Any

from msgspec import Struct, field

from streamfilter.model import OUTPUTS, ErrorCode, Reason, Verdict
from streamfilter.stops import BrokenInput, counted


def all_broken(records: int) -> BrokenInput:
    """Return the error of a command that could read no record: probably wrong pointers."""
    return BrokenInput(
        f"all {records:,} records are broken, and none was judged\n    cure: name the text "
        "and the id that your records have, such as --text /body --id none; lines of plain text "
        "need --set input.format=text; `streamfilter peek FILE` shows what they have, and what is "
        "wrong with them"
    )


def no_documents(path: str) -> BrokenInput:
    """Return the error of a command whose file has no document with a text."""
    return BrokenInput(
        f"{path}: holds no document with a text\n    cure: name a file that does; "
        "`streamfilter peek FILE` shows how its records are read"
    )


class Summary(Struct):
    """Counts of one run."""

    lines: int = 0
    blank: int = 0  # lines that are not records
    reread: int = 0  # records whose verdict was known from an earlier run on the same state
    updates: int = 0  # records that replaced the earlier version of their document
    verdicts: Counter[Verdict] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)  # why records were not judged
    seconds: float = 0.0  # duration of the run

    def count(
        self, verdict: Verdict, why: Reason | ErrorCode | None = None, *, records: int = 1
    ) -> None:
        """Count one record, or several with the same verdict."""
        self.verdicts[verdict] += records
        if why is not None:
            self.reasons[why.value] += records

    @property
    def records(self) -> int:
        """Return the number of records: lines that are not blank."""
        return self.lines - self.blank

    @property
    def places(self) -> dict[str, int]:
        """Return the number of records in each output; their sum is the number of records."""
        places = dict.fromkeys((*OUTPUTS.values(), "dropped"), 0)
        for verdict, count in self.verdicts.items():
            places[OUTPUTS.get(verdict, "dropped")] += count
        return places

    def as_json(self) -> dict[str, Any]:
        """Return the counts; a verdict without records has 0."""
        return {
            "records": self.records,
            "blank_lines": self.blank,
            "reread": self.reread,
            **({"updates": self.updates} if self.updates else {}),
            "places": self.places,
            "verdicts": {verdict.value: self.verdicts[verdict] for verdict in Verdict},
            "reasons": dict(sorted(self.reasons.items())),
            "seconds": round(self.seconds, 3),
            "records_per_second": round(self._rate),
        }

    def as_text(self) -> str:
        places, verdicts = self.places, self.verdicts
        parts = [
            f"{places['unique']:,} unique",
            f"{places['duplicates']:,} duplicates ({verdicts[Verdict.EXACT_DUPLICATE]:,} exact, "
            f"{verdicts[Verdict.NEAR_DUPLICATE]:,} near)",
            f"{places['dead_letter']:,} broken",
        ]
        if places["dropped"]:
            parts.append(f"{places['dropped']:,} dropped")
        unjudged = verdicts[Verdict.PASSTHROUGH]
        note = f"; {unjudged:,} of the unique were not judged (empty or short)" if unjudged else ""
        again = f"; {self.reread:,} re-read" if self.reread else ""
        again += f"; {self.updates:,} updates" if self.updates else ""
        return (
            f"{counted(self.records, 'record')} = {' + '.join(parts)}{note}{again}; "
            f"{self.seconds:.1f} s, {self._rate:,.0f} records/s"
        )

    @property
    def _rate(self) -> float:
        return self.records / self.seconds if self.seconds > 0 else 0.0
