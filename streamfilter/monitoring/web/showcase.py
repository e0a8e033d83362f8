"""The latest near-duplicates for the status page: what was withheld, and for which original.

By default only ids and numbers are kept. With ``http.show_payloads`` the values of recently
forwarded records stay in memory, bounded in bytes. A duplicate is then shown beside its original if
that is recent, because the index itself stores no text.
"""

import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct

from streamfilter.matching.verdict.decision import UNIQUE
from streamfilter.model import Decision, Malformed, Match, Record, Source, Unjudged, Verdict
from streamfilter.process.cures import CURES

LAST_MILLISECOND = 253_402_300_800_000  # the year 10000: no date has a name from then on
PAIRS_MAX = 12
TEXT_CHARACTERS_MAX = 2_000  # most characters shown of a text
ORIGINALS_BYTES_MAX = 16 * 1024 * 1024  # most bytes kept of the values of forwarded records

Read = Callable[[Record], str | None]  # returns the text of a record; None if it has none


class Shown(Struct, frozen=True):
    """The settings that the status shows."""

    topic: str = ""
    group: str = ""
    threshold: float = 0.8
    mode: str = "divert"  # ``divert`` or ``shadow``
    payloads: bool = False  # whether the texts of duplicates are shown


class _Pair(Struct, frozen=True):
    """A near-duplicate and its best match."""

    document_id: str
    decision: Decision
    record: Record
    original: Record | None


class Showcase:
    """Keeps the latest decisions; written by the engine's thread, read by any thread."""

    def __init__(self, read: Read | None = None) -> None:
        """Show the texts that *read* returns; with None no text is kept or shown."""
        self._read = read
        self._lock = threading.Lock()
        self._pairs: deque[_Pair] = deque(maxlen=PAIRS_MAX)
        self._originals: OrderedDict[Source, Record] = OrderedDict()
        self._bytes = 0

    def batch(
        self,
        records: Sequence[Record],
        outcomes: Sequence[Decision | Unjudged | Malformed],
        document_id: Callable[[int], str],
    ) -> None:
        """Add a batch: an outcome for each record, and the id of the document in a row."""
        with self._lock:
            if self._read is not None:
                for record, outcome in zip(records, outcomes, strict=True):
                    if _is(outcome, Verdict.UNIQUE):
                        self._originals[record.source] = record
                        self._bytes += len(record.value or b"")
                        while self._bytes > ORIGINALS_BYTES_MAX:
                            _, gone = self._originals.popitem(last=False)
                            self._bytes -= len(gone.value or b"")
            for row in _latest(outcomes):
                decision, record = outcomes[row], records[row]
                assert isinstance(decision, Decision)
                assert decision.match is not None
                original = self._originals.get(decision.match.source)
                kept = record
                if self._read is None:
                    kept = Record(record.source, None, None, timestamp=record.timestamp)
                self._pairs.append(_Pair(document_id(row), decision, kept, original))

    def as_dicts(self) -> list[dict[str, Any]]:
        """Return the pairs for ``/status``, the latest first; texts are null where not shown."""
        with self._lock:
            pairs = list(reversed(self._pairs))
        return [self._as_dict(pair) for pair in pairs]

    def _as_dict(self, pair: _Pair) -> dict[str, Any]:
        match = pair.decision.match
        assert isinstance(match, Match)
        return {
            "id": pair.document_id,
            "match_id": match.document_id,
            "similarity": round(match.similarity, 6),
            "method": pair.decision.method,
            "bands": match.bands,
            "source": str(pair.record.source),
            "match_source": str(match.source),
            "release": _release(pair.record),
            "text": self._text(pair.record),
            "match_text": self._text(pair.original),
        }

    def _text(self, record: Record | None) -> str | None:
        if record is None or self._read is None:
            return None
        text = self._read(record)
        return None if text is None else text[:TEXT_CHARACTERS_MAX]


def _latest(outcomes: Sequence[Decision | Unjudged | Malformed]) -> list[int]:
    """Return the rows of the last near-duplicates, in their order."""
    others = [row for row, each in enumerate(outcomes) if each is not UNIQUE]  # few
    return [row for row in others if _is(outcomes[row], Verdict.NEAR_DUPLICATE)][-PAIRS_MAX:]


def _is(outcome: Decision | Unjudged | Malformed, verdict: Verdict) -> bool:
    return isinstance(outcome, Decision) and outcome.verdict is verdict


def _release(record: Record) -> str:
    """Return the command that forwards a withheld record; it shows first what would go."""
    source, since = record.source, ""
    if 0 < record.timestamp < LAST_MILLISECOND:
        since = datetime.fromtimestamp(record.timestamp / 1_000, UTC).strftime(" --since %FT%TZ")
    place = f"--topic {source.topic} --partition {source.partition} --offset {source.offset}"
    return CURES.completed(f"`streamfilter release {place}{since}`").strip("`")
