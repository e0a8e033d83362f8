"""The data model: records, documents and decisions, as frozen values.

A record arrives and is read into a document, or into the reason why it is not one. The document is
judged, and the record leaves with its decision. Nothing here computes, reads a clock or imports a
library but msgspec.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeVar, dataclass_transform

import msgspec
from msgspec import Struct

Noun = TypeVar("Noun")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def noun(*, order: bool = False) -> Callable[[type[Noun]], type[Noun]]:
    """Make a class a dataclass that is frozen for type checkers only: for values of each record.

    To forbid assignment at run time too, Python would set every field by a function call. That
    costs three quarters of making a value, and a twentieth of all work for a short record.
    """
    return dataclass(slots=True, unsafe_hash=True, order=order)


S3 = "s3://"  # how a path or a target in S3 begins
Headers = tuple[tuple[str, bytes | None], ...]
"""Record headers in order, with repeats and null values."""


class Verdict(StrEnum):
    """The result for a record: where it goes, and why. Every record gets exactly one."""

    UNIQUE = "unique"
    EXACT_DUPLICATE = "exact_duplicate"
    NEAR_DUPLICATE = "near_duplicate"
    PASSTHROUGH = "passthrough"
    """Forwarded without being judged (tombstone, empty or short text), by policy."""
    DROPPED = "dropped"  # withheld without being judged, because the configuration says so
    REJECTED = "rejected"  # unreadable: goes to the dead-letter topic with a code


SEED_BYTES = 16  # size of the secret that keys an index's hash functions

DUPLICATES = frozenset({Verdict.EXACT_DUPLICATE, Verdict.NEAR_DUPLICATE})

OUTPUTS = {
    Verdict.UNIQUE: "unique",
    Verdict.PASSTHROUGH: "unique",
    **dict.fromkeys(DUPLICATES, "duplicates"),
    Verdict.REJECTED: "dead_letter",
}
"""The output of a record by its verdict; a dropped record has none. In shadow mode, all records
that are not rejected go to ``unique``."""


class ErrorCode(StrEnum):
    """The closed set of reasons for a dead letter. deploy/README.md has the same list."""

    INVALID_JSON = "invalid_json"
    MISSING_TEXT = "missing_text"
    MISSING_ID = "missing_id"
    WRONG_TYPE = "wrong_type"  # of the value at a pointer, or of one on the way to it
    BAD_UTF8 = "bad_utf8"
    BAD_HEADER = "bad_header"  # its name is not UTF-8
    TOO_LARGE = "too_large"  # for a limit of ours, an output, or the changelog
    TOO_DEEP = "too_deep"
    SCHEMA_UNKNOWN = "schema_unknown"  # to the registry
    SCHEMA_DECODE = "schema_decode"  # the bytes do not fit the schema, or have no frame
    REFUSED = "refused"  # by an output's broker: its timestamp, or a missing key
    INTERNAL = "internal"  # a bug of ours


class Reason(StrEnum):
    """Why a record was forwarded or dropped without being judged."""

    TOMBSTONE = "tombstone"
    EMPTY = "empty"
    SHORT = "short"


SEEDS_FROM = 64_536
"""First number of a seed: an input that `streamfilter seed` read. No topic has so many partitions,
and a stored document has 16 bits for the number."""


@noun(order=True)
class Source:
    """Position of a record. For a file: its path as given, 0, and the line number from 1.

    For a seed: its name, its number, and the line number.
    """

    topic: str
    partition: int
    offset: int
    numbered: int = field(default=-1, compare=False)
    """Number of the partition among all inputs (`index.input_table`); -1: there is one topic."""

    @property
    def number(self) -> int:
        """Return the number that positions and stored documents hold for the partition."""
        return self.partition if self.numbered < 0 else self.numbered

    @property
    def seeded(self) -> bool:
        """Return whether it is of a seed."""
        return self.partition >= SEEDS_FROM

    def __str__(self) -> str:
        if self.seeded:
            return f"line {self.offset} of the seed {self.topic}"
        return f"{self.topic}/{self.partition} at {self.offset}"

    @property
    def place(self) -> dict[str, str | int]:
        """Return where the record came from, as evidence spells it."""
        if self.seeded:
            return {"seed": self.topic, "line": self.offset}
        return {"topic": self.topic, "partition": self.partition, "offset": self.offset}


class InputTopic(Struct, frozen=True):
    """One of several input topics."""

    name: str
    id: str  # its topic id; empty: unknown
    partitions: int


class Origins(Struct, frozen=True):
    """Where the documents of an index came from, by the number under which it stores the source."""

    topic: str = ""  # the topic; each number without a name is one of its partitions
    names: Mapping[int, str] = msgspec.field(default_factory=dict)
    """The name of each number that stands for a file."""
    spots: Mapping[int, tuple[str, int]] = msgspec.field(default_factory=dict)
    """The topic and partition of each number, if the index has several topics; the name and number
    of each seed."""

    def locate(self, number: int, offset: int) -> Source:
        """Return the source of a document, as its evidence spells it."""
        if number in self.spots:
            return Source(*self.spots[number], offset)
        name = self.names.get(number)
        return Source(self.topic, number, offset) if name is None else Source(name, 0, offset)

    def described(self, number: int, offset: int) -> dict[str, object]:
        """Return the source of a document, as a person knows it."""
        if number in self.names:
            return {"path": self.names[number], "line": offset}
        if number in self.spots:
            return dict(Source(*self.spots[number], offset).place)
        return {"partition": number, "offset": offset}


@noun()
class Record:
    """One consumed record, byte for byte as the broker or the file returned it."""

    source: Source
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    timestamp: int = -1  # milliseconds since the epoch; -1 when the record has none
    headers_error: str | None = None
    """Why the headers could not be read (then ``headers`` is empty), or None."""


class Document(Struct, frozen=True):
    """A record that was read: it can be judged."""

    id: str
    text: str
    """Empty if a worker process has read and sketched it: the text is then not needed here."""
    values: tuple[str | None, ...] = ()
    """The values compared beside the text, as canonical strings, in the scheme's order. None: the
    record has no such value. Empty as `text` is, and if the scheme compares none."""


class Unjudged(Struct, frozen=True):
    """A record that is not judged, by policy: PASSTHROUGH or DROPPED, and why."""

    verdict: Verdict
    reason: Reason
    forgets: tuple[str, ...] | None = None
    """Ids of the documents to forget: one, or empty if the key cannot be a document's id. None: the
    record is not a request to forget. The reason says whether it is a tombstone or an update."""
    scope: tuple[str | None, ...] = ()
    """The scope in which they are forgotten, as in `Document.values`; empty: all scopes."""


class Malformed(Struct, frozen=True):
    """A record that cannot be read: it goes to the dead-letter topic and is counted."""

    code: ErrorCode
    message: str  # text for a person; never contains text of the record
    stage: str = "read"


Reading = Document | Unjudged | Malformed  # the result of reading a record


class Match(Struct, frozen=True):
    """An earlier, forwarded document that this one was verified against."""

    document_id: str
    similarity: float
    """Jaccard similarity in [0, 1] (for records: their score), by the decision's ``method``."""
    bands: int  # how many bands the two share; 0 for an exact duplicate
    source: Source
    ordinal: int
    containment: float | None = None
    """Share of one text's shingles that the other has; None if containment is not configured."""


class Decision(Struct, frozen=True):
    """The verdict on one document, with its evidence."""

    verdict: Verdict
    matches: tuple[Match, ...] = ()
    """Confirmed matches, highest similarity first, then lowest ordinal; as many as fit in 3 KB."""
    method: str = ""
    """``exact_text``, ``exact_jaccard``, ``sampled_jaccard``, ``exact_containment``,
    ``sampled_containment``, ``signature`` or ``sketch``. By a name alone: ``same_id``,
    ``same_field``. Empty if unique."""
    matches_truncated: bool = False
    """True if candidates were left out (because better ones matched, or beyond 128), or matches
    (beyond 3 KB)."""
    p_false_positive: float = 0.0
    """Probability that the true similarity is below the threshold, given the evidence."""
    reason: Reason | None = None
    """Why the document was not judged (SHORT, by policy), with PASSTHROUGH or DROPPED."""

    @property
    def match(self) -> Match | None:
        """Return the best match, or None for a unique document."""
        return self.matches[0] if self.matches else None


Positions = dict[int, int]  # next offset to judge, per input partition


class Span(Struct, frozen=True):
    """The offsets of one partition that one batch covered: start <= offset < end."""

    partition: int
    start: int
    end: int


class BatchMark(Struct, frozen=True):
    """One judged batch, as the changelog and the index store it: it makes a re-read exact."""

    number: int
    first_ordinal: int
    next_ordinal: int  # ``first_ordinal`` plus the number of documents judged in this batch
    spans: tuple[Span, ...] = ()
    horizon: int = 0
    """Documents below this ordinal are forgotten after the batch. Without ``ages``, they were
    already forgotten when the batch was judged."""
    stream_time: int = -1
    """The highest timestamp up to its last record, in milliseconds; -1: the index never forgets."""
    ages: bytes = b""
    """When each of its documents arrived, and which documents were forgotten then (`index.ages`).
    Empty: not recorded one by one, and all of them count as arrived at ``stream_time``."""


class Window(Struct, frozen=True):
    """A range of documents in the order of judgement, up to the next window; forgotten at once."""

    number: int = 0
    first_ordinal: int = 0  # ordinal of the first document of its first batch
    first_batch: int = 0
    offset: int = 0
    """Offset of the changelog record that begins it: a restore of the window reads from there. 0 if
    there is no changelog."""


EVER = Window()  # the only window of an index that never forgets
