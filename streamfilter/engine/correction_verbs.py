"""What `release` and `replay` choose, and the record that each sends."""

from collections.abc import Callable, Collection, Mapping

from msgspec import Struct

from streamfilter.engine.messages.forwarding import partition_for, size_of
from streamfilter.engine.ports import Layout, Outgoing
from streamfilter.matching.verdict import envelope
from streamfilter.matching.verdict.side_records import ATTEMPTS, RELEASED, SideRecord
from streamfilter.model import Document, Headers, Malformed, Reading, Record

NO_KEY = "it has no key, and {} is compacted (cleanup.policy)"
TOO_LARGE = "with our header it is too large for {} (max.message.bytes)"


class Surroundings(Struct, frozen=True):
    """The topics that records are sent to, and how a record is read."""

    layout: Layout
    limits: Mapping[str, int]  # largest record of each topic, in bytes
    inputs: Mapping[str, int]  # partitions of each input topic
    compacted: Collection[str]  # topics that refuse a record without a key
    read: Callable[[Record], Reading]

    def sent(
        self, original: Record, topic: str, partition: int, headers: Headers
    ) -> Outgoing | str:
        out = Outgoing(topic, partition, original.key, original.value, headers, original.timestamp)
        if out.key is None and out.topic in self.compacted:
            return NO_KEY.format(out.topic)
        fits = size_of(out.key, out.value, out.headers) <= self.limits[out.topic]
        return out if fits else TOO_LARGE.format(out.topic)


class WithheldRelease(Struct, frozen=True):
    """Sends withheld records to the unique topic: those with an id, a match, or at one place."""

    around: Surroundings
    unique: str
    time: str  # the present, as the header says it
    id: str | None = None
    matched: str | None = None
    place: tuple[str | None, int, int] | None = None
    """Topic (None: the only one), partition and offset of the record in the input."""

    def wanted(self, side: SideRecord) -> bool:
        evidence, source = side.evidence, side.source
        if evidence is None or source.topic not in self.around.inputs:
            return False
        if self.place is not None:
            topic, *spot = self.place
            return topic in (None, source.topic) and spot == [source.partition, source.offset]
        if self.id is not None:
            return evidence.id == self.id
        return any(each.id == self.matched for each in evidence.matches)

    def label(self, side: SideRecord) -> str:
        return "" if side.evidence is None else side.evidence.verdict.value

    def copy(self, side: SideRecord, original: Record) -> Outgoing | str:
        evidence = side.evidence
        assert evidence is not None
        if side.original is None:
            reading = self.around.read(original)
            if not isinstance(reading, Document) or reading.id != evidence.id:
                return "the input has another record in its place"
        match = evidence.matches[0] if evidence.matches else None
        said = {
            "time": self.time,
            "verdict": evidence.verdict.value,
            "match": None if match is None else {"id": match.id, "similarity": match.similarity},
            "from": side.record.source.place,
        }
        headers = (*original.headers, (RELEASED, envelope.encode(said)))
        return self.around.sent(original, self.unique, self._partition(original), headers)

    def _partition(self, original: Record) -> int:
        outputs, placing = self.around.layout.outputs[self.unique], self.around.layout.placing
        same = original.source.partition < outputs  # the topic may have been made anew, smaller
        return partition_for(original, inputs=placing if same else 0, outputs=outputs)


class LetterReplay(Struct, frozen=True):
    """Sends dead letters back to the partition of the input that they came from."""

    around: Surroundings
    codes: Collection[str]  # empty: all
    attempts: int  # a letter that was sent back so often stays

    def wanted(self, side: SideRecord) -> bool:
        known = side.code and side.source.topic in self.around.inputs
        return bool(known) and (not self.codes or side.code in self.codes)

    def label(self, side: SideRecord) -> str:
        return side.code

    def copy(self, side: SideRecord, original: Record) -> Outgoing | str:
        if side.attempts >= self.attempts:
            return f"sent back {side.attempts} times already (--attempts)"
        if original.headers_error is not None:
            return "its headers cannot be read, so they cannot be copied"
        if isinstance(reading := self.around.read(original), Malformed):
            return f"it would fail again: {reading.code.value}"
        source, partitions = original.source, self.around.inputs[original.source.topic]
        if source.partition >= partitions:
            return f"{source.topic} has no partition {source.partition} any more"
        others = tuple(each for each in original.headers if each[0] != ATTEMPTS)
        headers = (*others, (ATTEMPTS, b"%d" % (side.attempts + 1)))
        return self.around.sent(original, source.topic, source.partition, headers)
