"""The counts of one committed batch: exactly one outcome for every record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray

from streamfilter.index.protocol import Applied
from streamfilter.matching.blocking.forgetting import NOTHING, Forgotten
from streamfilter.matching.verdict.counts import Counts
from streamfilter.matching.verdict.decision import SAME_FIELD, SAME_ID, UNIQUE
from streamfilter.model import (
    DUPLICATES,
    Decision,
    ErrorCode,
    Malformed,
    Reason,
    Record,
    Unjudged,
    Verdict,
)

Values = NDArray[np.float64]


class BatchReport(Struct):
    """The counts of one committed batch; the metrics add them all at once."""

    verdicts: dict[Verdict, int]
    passthrough: Counter[Reason] = field(default_factory=Counter)
    dropped: Counter[Reason] = field(default_factory=Counter)
    dead_letters: Counter[ErrorCode] = field(default_factory=Counter)
    by_topic: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Counts by topic of several inputs, by the name of their metric (`by_topic`)."""
    produced: Mapping[str, int] = field(default_factory=dict)
    """Records written, by destination (`catalogue.DESTINATIONS`)."""
    consumed_bytes: int = 0
    changelog_bytes: int = 0
    counts: Sequence[Counts] = ()
    matched: list[float] = field(default_factory=list)
    """Similarities of the confirmed matches of near-duplicates."""
    same_id: int = 0  # duplicates by their ids alone
    same_field: int = 0  # duplicates by the value of a field alone
    wrong: float = 0.0  # sum of the duplicate verdicts' probabilities of being wrong
    applied: Applied = field(default_factory=Applied)  # result of the write to the index
    forgotten: Forgotten = NOTHING  # documents that tombstones and updates removed
    ages_seconds: Values | None = None  # age of each record: from its timestamp to now

    @classmethod
    def of(cls, outcomes: Sequence[Decision | Unjudged | Malformed], **fields: Any) -> BatchReport:
        """Count *outcomes*, exactly one for every record of the batch; *fields* are the others."""
        others = [each for each in outcomes if each is not UNIQUE]
        report = cls(dict.fromkeys(Verdict, 0), **fields)
        report.verdicts[Verdict.UNIQUE] = len(outcomes) - len(others)
        for outcome in others:
            report._take(outcome)
        return report

    def _take(self, outcome: Decision | Unjudged | Malformed) -> None:
        if isinstance(outcome, Malformed):
            self.verdicts[Verdict.REJECTED] += 1
            self.dead_letters[outcome.code] += 1
            return
        self.verdicts[outcome.verdict] += 1
        if outcome.verdict is Verdict.PASSTHROUGH and outcome.reason is not None:
            self.passthrough[outcome.reason] += 1
        if outcome.verdict is Verdict.DROPPED and outcome.reason is not None:
            self.dropped[outcome.reason] += 1
        if isinstance(outcome, Decision) and outcome.verdict in DUPLICATES:
            if outcome.verdict is Verdict.NEAR_DUPLICATE:
                self.matched += [match.similarity for match in outcome.matches]
            self.same_id += outcome.method == SAME_ID
            self.same_field += outcome.method == SAME_FIELD
            self.wrong += outcome.p_false_positive


class BatchSpan(Struct, frozen=True):
    """What is sent of one committed batch with an `otel.endpoint`."""

    ended: float  # Unix seconds
    records: int
    verdicts: Mapping[Verdict, int]
    stages: Mapping[str, float]  # seconds by stage (`catalogue.STAGES`)


_OF_TOPIC = {
    Verdict.UNIQUE: "topic_unique_total",
    Verdict.EXACT_DUPLICATE: "topic_duplicates_total",
    Verdict.NEAR_DUPLICATE: "topic_duplicates_total",
    Verdict.PASSTHROUGH: "topic_unjudged_total",
    Verdict.DROPPED: "topic_unjudged_total",
    Verdict.REJECTED: "topic_dead_letters_total",
}


def by_topic(
    records: Sequence[Record],
    outcomes: Sequence[Decision | Unjudged | Malformed],
    named: Callable[[str], str],
) -> dict[str, Counter[str]]:
    """Count records and their outcomes by topic; *named* is its name or pattern in input.topics."""
    found: dict[str, Counter[str]] = {"topic_consumed_total": Counter()}
    names: dict[str, str] = {}
    for record, outcome in zip(records, outcomes, strict=True):
        topic = record.source.topic
        name = names.get(topic) or names.setdefault(topic, named(topic))
        verdict = Verdict.REJECTED if isinstance(outcome, Malformed) else outcome.verdict
        found["topic_consumed_total"][name] += 1
        found.setdefault(_OF_TOPIC[verdict], Counter())[name] += 1
    return found
