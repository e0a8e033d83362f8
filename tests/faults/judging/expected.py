"""What a record of a story is, and the history of a task that judged it.

What a record is (a document, passed through, broken) is read here by `json.loads` and four lines,
for we know what the story writes.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from streamfilter.matching.blocking.retention import UNLIMITED, Retention
from streamfilter.matching.law import Arrival
from streamfilter.model import Record
from streamfilter.similarity.scheme import Scheme
from streamfilter.similarity.sketch import Sketcher
from tests.support.arrivals import arrival
from tests.truth.changelog import Failure, read_batches, windows_at
from tests.truth.history import History, Input

LATEST = 10**14
"""No timestamp in milliseconds is larger for a thousand years."""
WORDS_MIN = 3
"""A shorter text has no shingle: it is forwarded unjudged by default, but has its ordinal."""


def kind_of(record: Record) -> tuple[str, str, str]:
    """Return (kind, id, text).

    The kind is ``document``, ``short``, ``passthrough``, ``tombstone`` or a dead letter's code.
    """
    if record.timestamp > LATEST:
        return "refused", "", ""  # by every output, whatever it is
    if record.value is None:
        key = (record.key or b"").decode()
        return ("tombstone", key, "") if key.startswith("d") else ("passthrough", "", "")
    try:
        value: dict[str, Any] = json.loads(record.value)
    except ValueError:
        return "invalid_json", "", ""
    if "text" not in value:
        return "missing_text", "", ""
    text = value["text"]
    if not text.strip():
        return "passthrough", "", ""
    if len(text.split()) < WORDS_MIN:
        return "short", "", ""
    return "document", value["id"], text


@dataclass(slots=True)
class SavedLog:
    """A changelog that was read before."""

    records: Iterable[tuple[int, bytes]]

    def committed(self, _: int) -> Iterable[tuple[int, bytes]]:
        return self.records


def beginning_of(changelog: Sequence[tuple[int, bytes]]) -> int:
    """Return from which offset on a changelog is needed: its oldest window's that is alive."""
    return windows_at(read_batches(SavedLog(changelog)))[0].offset


def history_of(scheme: Scheme, seed: bytes, retention: Retention = UNLIMITED) -> History:
    """Return the history of a task with this scheme."""
    sketcher = Sketcher(scheme, seed=seed)

    def arrivals(inputs: Sequence[Input]) -> Iterator[Arrival]:
        sketches = sketcher.sketch([each.text for each in inputs]) if inputs else None
        return (arrival(each.id, sketches, row) for row, each in enumerate(inputs))

    return History(arrivals, retention=retention)


def follow(
    history: History,
    changelog: Sequence[tuple[int, bytes]],
    records: Mapping[int, Sequence[Record]],
) -> None:
    """Let *history* follow a recorded run.

    Raises:
        Failure: the changelog cannot be true.
    """
    inputs = {p: [Input(each, *kinds_of(each)) for each in known] for p, known in records.items()}
    history.follow(SavedLog(changelog), inputs)
    for p, end in history.known.items():
        if end > len(inputs.get(p, ())):
            raise Failure("changelog", f"partition {p} was judged to {end}: no such input")


def kinds_of(record: Record) -> tuple[str, str, str, str]:
    """Return (kind, name, id, text)."""
    kind, id_, text = kind_of(record)
    return kind, id_, id_, text
