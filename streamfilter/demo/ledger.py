"""The demo's ledger: the records sent, and the output and evidence of each."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

from msgspec import Struct, field

from streamfilter.demo.wire import Encode, as_json
from streamfilter.matching.verdict.evidence_headers import PREFIX
from streamfilter.model import Record, Source, Verdict
from streamfilter.quality.run import Given, Placed, Run, digest
from streamfilter.stories.stream import Story

INPUT = "stories"
OUTPUTS = {
    "stories.unique": "unique",
    "stories.duplicates": "duplicates",
    "stories.dead-letter": "dead_letter",
}
"""Output topics, and the place that each one stands for."""


class Sent(Struct, frozen=True):
    """One record of the input topic."""

    source: Source
    story: Story
    value: bytes
    broken: bool
    """Cut in the middle, so that it cannot be read. The filter must not lose such records."""


class OutputRecord(Struct, frozen=True):
    """One record of an output topic."""

    document_id: str
    placed: Placed
    matches: tuple[dict[str, Any], ...]  # matches of the evidence, best first

    @property
    def verdict(self) -> Verdict:
        return self.placed.verdict

    @classmethod
    def of(cls, record: Record) -> OutputRecord:
        ours = {
            name.removeprefix(PREFIX): value.decode()
            for name, value in record.headers
            if name.startswith(PREFIX) and value is not None
        }
        place, matches = OUTPUTS[record.source.topic], json.loads(ours.get("matches", "[]"))
        rejected = place == "dead_letter"
        placed = Placed(
            place,
            Verdict.REJECTED if rejected else Verdict(ours.get("verdict", "unique")),
            raw=digest(record.value or b""),
            source=_source(ours, "error." if rejected else "source."),
            match_id=matches[0]["id"] if matches else None,
            similarity=matches[0]["similarity"] if matches else 0.0,
            match_sources=tuple(Source(m["topic"], m["partition"], m["offset"]) for m in matches),
        )
        return cls((record.key or b"").decode(), placed, tuple(matches))


def _source(ours: dict[str, str], prefix: str) -> Source | None:
    """Return where the evidence says that a record came from; a unique one carries none."""
    if f"{prefix}offset" not in ours:
        return None
    topic, partition, offset = (ours[prefix + name] for name in ("topic", "partition", "offset"))
    return Source(topic, int(partition), int(offset))


class Ledger(Struct):
    """All records sent and received."""

    encode: Encode = as_json
    partitions: int = 1  # stories go to them in turn
    order: Callable[[Source], tuple[int, ...]] = lambda source: (source.offset,)
    """Returns the place of a record in the order of judgement; several partitions need another."""
    sent: list[Sent] = field(default_factory=list)
    outcomes: list[OutputRecord] = field(default_factory=list)
    verdicts: Counter[Verdict] = field(default_factory=Counter)
    _sources: dict[str, Source] = field(default_factory=dict)

    @property
    def under_way(self) -> int:
        """Return how many records have not come out yet."""
        return len(self.sent) - len(self.outcomes)

    def send(self, story: Story, *, broken: bool = False) -> Sent:
        value, number = self.encode(story.id, story.text), len(self.sent)
        source = Source(INPUT, number % self.partitions, number // self.partitions)
        sent = Sent(source, story, value[: len(value) // 2] if broken else value, broken)
        self.sent.append(sent)
        self._sources[story.id] = source
        return sent

    def receive(self, record: Record) -> None:
        self.outcomes.append(OutputRecord.of(record))
        self.verdicts[self.outcomes[-1].verdict] += 1

    def source_of(self, record: Record) -> Source | None:
        """Return the input record of an output *record*; None: none was sent."""
        return self._sources.get((record.key or b"").decode())

    def number_of(self, source: Source) -> int:
        """Return the number of a story by its place in the input."""
        return source.offset * self.partitions + source.partition

    def stories(self) -> dict[str, Story]:
        return {sent.story.id: sent.story for sent in self.sent if not sent.broken}

    def as_run(self, texts: dict[str, str]) -> Run:
        """Return the run for an evaluation; *texts* are the normalised texts by id."""
        given = [
            Given(
                source=sent.source,
                order=self.order(sent.source),
                raw=digest(sent.value),
                id=None if sent.broken else sent.story.id,
                text=b"" if sent.broken else digest(texts[sent.story.id].encode()),
            )
            for sent in self.sent
        ]
        given.sort(key=lambda each: each.order)
        return Run(given, [each.placed for each in self.outcomes])
