"""The demo's books: what was sent, where each record came out, and with which evidence."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

from streamfilter.engine.outgoing import PREFIX
from streamfilter.evaluation.run import Given, Placed, Run
from streamfilter.model import Record, Source, Verdict
from streamfilter.stories.stream import Story

INPUT = "stories"
OUTPUTS = {
    "stories.unique": "unique",
    "stories.duplicates": "duplicates",
    "stories.dead-letter": "dead_letter",
}
"""Output topics and the places they are."""


@dataclass(frozen=True, slots=True)
class Sent:
    """One record of the input topic; its offset is its number."""

    story: Story
    value: bytes
    broken: bool
    """Cut in the middle, so that it is no JSON: such things happen, and must not be lost."""


@dataclass(frozen=True, slots=True)
class OutputRecord:
    """One record that came out."""

    place: str
    verdict: Verdict
    value: bytes
    document_id: str
    source: Source | None
    matches: tuple[dict[str, Any], ...] = ()
    """As the evidence has them, best first."""


@dataclass(slots=True)
class Ledger:
    """Everything that went in and came out."""

    sent: list[Sent] = field(default_factory=list)
    outcomes: list[OutputRecord] = field(default_factory=list)
    verdicts: Counter[Verdict] = field(default_factory=Counter)

    @property
    def under_way(self) -> int:
        """Return how many records have not come out yet."""
        return len(self.sent) - len(self.outcomes)

    def send(self, story: Story, *, broken: bool = False) -> Sent:
        """Enter *story* and return the record to produce."""
        value = json.dumps({"id": story.id, "text": story.text}, ensure_ascii=False).encode()
        sent = Sent(story, value[: len(value) // 2] if broken else value, broken)
        self.sent.append(sent)
        return sent

    def receive(self, record: Record) -> OutputRecord:
        """Enter what came out."""
        outcome = _outcome(record)
        self.outcomes.append(outcome)
        self.verdicts[outcome.verdict] += 1
        return outcome

    def stories(self) -> dict[str, Story]:
        """Return the readable stories by their ids."""
        return {sent.story.id: sent.story for sent in self.sent if not sent.broken}

    def as_run(self, texts: dict[str, str]) -> Run:
        """Return it as an evaluation wants it; *texts* are the normalised ones, by id."""
        given = [
            Given(
                source=Source(INPUT, 0, number),
                order=(number,),
                raw=_digest(sent.value),
                id=None if sent.broken else sent.story.id,
                text=b"" if sent.broken else _digest(texts[sent.story.id].encode()),
            )
            for number, sent in enumerate(self.sent)
        ]
        return Run(given, list(map(_placed, self.outcomes)))


def _outcome(record: Record) -> OutputRecord:
    ours = {
        name.removeprefix(PREFIX): value.decode()
        for name, value in record.headers
        if name.startswith(PREFIX) and value is not None
    }
    place = OUTPUTS[record.source.topic]
    verdict = Verdict.REJECTED if place == "dead_letter" else Verdict(ours.get("verdict", "unique"))
    return OutputRecord(
        place,
        verdict,
        value=record.value or b"",
        document_id=(record.key or b"").decode(),
        source=_source(ours),
        matches=tuple(json.loads(ours.get("matches", "[]"))),
    )


def _source(ours: dict[str, str]) -> Source | None:
    """Return where the evidence says that the record came from; a unique one carries none."""
    for prefix in ("source.", "error."):
        if f"{prefix}offset" in ours:
            partition, offset = int(ours[f"{prefix}partition"]), int(ours[f"{prefix}offset"])
            return Source(ours[f"{prefix}topic"], partition, offset)
    return None


def _placed(outcome: OutputRecord) -> Placed:
    best: dict[str, Any] = next(iter(outcome.matches), {})
    return Placed(
        outcome.place,
        outcome.verdict,
        raw=_digest(outcome.value),
        source=outcome.source,
        match_id=best.get("id"),
        similarity=best.get("similarity", 0.0),
        match_sources=tuple(_match_sources(outcome)),
    )


def _match_sources(outcome: OutputRecord) -> Iterator[Source]:
    for match in outcome.matches:
        yield Source(match["topic"], match["partition"], match["offset"])


def _digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=16).digest()
