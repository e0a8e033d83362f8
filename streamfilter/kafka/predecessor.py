"""The group that `run --take-over` replaces, as brokers show it.

Its changelog says how far it has judged, and its committed offsets must agree. A group that works,
that reads something else, that was rewound, or that has a successor is refused by its name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from streamfilter.config.configuration import Config
from streamfilter.engine.batches.inputs import Inputs
from streamfilter.engine.messages.changelog import decode_batch
from streamfilter.engine.messages.changelog_header import (
    BATCH,
    SUCCESSOR,
    decode_successor,
    encode_successor,
    kind_of,
)
from streamfilter.engine.ports import Outgoing, Retriable, Sink
from streamfilter.index.errors import FormatError
from streamfilter.index.input_table import Spot
from streamfilter.kafka.brokers.broker_queries import INPUT_PREFIX, ask_for_id, committed_spots
from streamfilter.kafka.connection.clients import consumer, reader_properties
from streamfilter.kafka.connection.errors import kafka_errors
from streamfilter.kafka.connection.one_shot_calls import CALL_SECONDS, listed
from streamfilter.kafka.group_reset import members_of, owner_of
from streamfilter.kafka.topic_reader import TopicReader
from streamfilter.kafka.topic_sample import first_of
from streamfilter.model import Positions
from streamfilter.stops import ConfigError, Problem, Temporary, counted


@dataclass(frozen=True, slots=True)
class OldState:
    """How the old group stands."""

    changelog: str
    offsets: Mapping[Spot, int]  # of the input, as committed
    last: int  # offset of its changelog's last record
    successor: str  # the group in that record; empty: it is a batch
    members: tuple[str, ...] = ()  # if it was asked for them

    @property
    def places(self) -> dict[str, int]:
        """Return the offsets, as messages spell them."""
        return {f"{topic}/{partition}": at for (topic, partition), at in self.offsets.items()}


@dataclass(frozen=True, slots=True)
class OldGroup:
    """The group that is to be taken over."""

    config: Config  # of the new group
    admin: AdminClient
    name: str

    def refusal(self, got: str, cure: str) -> ConfigError:
        """Return the error that it cannot be taken over, with its name."""
        return ConfigError([Problem("--take-over", f"the group {self.name!r}: {got}", cure)])

    def look(self, *, fenced: bool = True) -> OldState:
        """Return how it stands now. Raises `ConfigError`: it cannot be taken over; `LogError`.

        Unless its last process is *fenced*, that process may have a transaction open.
        """
        self._refuse_settings()
        known = listed(self.config, self.admin)
        members = () if fenced else self._found()
        offsets, noted = self._offsets(known, stable=fenced)
        changelog = self._changelog(noted, known)
        self._refuse_tasks(len(known[changelog].partitions), known)
        offsets.pop((changelog, 0), None)
        self._refuse_other_input({topic for topic, _ in offsets}, known)
        offsets = {spot: at for spot, at in offsets.items() if spot[0] in known}
        self._refuse_recreated(offsets, noted.get(changelog, ""))
        last, successor, ends = self._end_of(changelog)
        if not successor and (odd := Counter(offsets.values()) - Counter(ends.values())):
            got = (
                f"its committed offsets {sorted(odd)} are not where its changelog {changelog} ends "
                f"({dict(sorted(ends.items()))}): it was rewound or skipped"
            )
            raise self.refusal(got, "start it, and let it read on to the end; then stop it")
        return OldState(changelog, offsets, last, self._known(successor), members)

    def _found(self) -> tuple[str, ...]:
        members, exists = members_of(self.admin, self.name)
        if not exists:
            cure = "name the group that works now: kafka.group in its configuration"
            raise self.refusal("there is no such group", cure)
        return members

    def alive(self) -> tuple[str, ...]:
        """Return its members; a running task may ask so (`ports/unowned_partitions.py`)."""
        with kafka_errors(f"asking for the group {self.name}"):
            groups = self.admin.list_groups(self.name, timeout=CALL_SECONDS)
        members = [each for group in groups for each in group.members]
        return tuple(f"{each.client_id} on {each.client_host}" for each in members)

    def _known(self, successor: str) -> str:
        if successor not in ("", self.config.kafka.group):
            got = f"the group {successor!r} took it over already"
            raise self.refusal(got, f"take over that one: --take-over {successor}")
        return successor

    def _refuse_settings(self) -> None:
        if self.name == self.config.kafka.group:
            cure = "name the old group; the new one needs a kafka.group of its own"
            raise self.refusal("it is this group itself", cure)
        if self.config.index.scope == "partition":
            cure = "set index.scope: topic, where one index has all documents"
            raise self.refusal("index.scope is partition in this configuration", cure)
        if self.config.cluster.enabled:
            cure = "set cluster.enabled: false to take over, and true afterwards"
            raise self.refusal("cluster.enabled is true in this configuration", cure)

    def _refuse_tasks(self, tasks: int, known: Mapping[str, object]) -> None:
        if tasks > 1:
            cure = "give the new group an input.start, and start it without --take-over"
            raise self.refusal(f"it has {tasks} indexes (index.scope: partition)", cure)
        if f"{self.name}.verdicts" in known:
            got = f"it has edges and a judge (topic {self.name}.verdicts)"
            cure = "stop them, start it once with cluster.enabled: false, and delete that topic"
            raise self.refusal(got, cure)

    def _refuse_other_input(self, read: set[str], known: Mapping[str, object]) -> None:
        """Raise `ConfigError` unless this configuration reads all that the old group reads."""
        lost = sorted((read & known.keys()) - set(self.config.input.among(known)))
        if not lost and read & known.keys():
            return
        got = f"it reads {', '.join(sorted(read)) or 'no input'}, and this configuration reads "
        lost_said = f": no group would judge {', '.join(lost)}" if lost else ""
        raise self.refusal(
            got + self.config.input.name + lost_said, "name the group that reads the same input"
        )

    def _offsets(
        self, known: Mapping[str, Any], *, stable: bool
    ) -> tuple[dict[Spot, int], dict[str, str]]:
        """Return its offsets, and its note of the input's id by the changelog's topic.

        A consumer asks. A process once ended with SIGSEGV after the admin client was asked for a
        group without offsets; that this was the cause is not proven.
        """
        every = [TopicPartition(name, p) for name in sorted(known) for p in known[name].partitions]
        level = "read_committed" if stable else "read_uncommitted"
        properties = reader_properties(self.config) | {"group.id": self.name}
        with closing(consumer(self.config, properties | {"isolation.level": level})) as client:
            doing = f"reading the offsets of the group {self.name}"
            spots = committed_spots(client, every, doing)
        notes = {each.topic: each.metadata or "" for each in spots}
        notes = {topic: text for topic, text in notes.items() if text.startswith(INPUT_PREFIX)}
        found = {(each.topic, each.partition): each.offset for each in spots if each.offset >= 0}
        if not found:
            raise self.refusal(
                "it has no committed offsets, or they have expired",
                "name the group that works now (kafka.group in its configuration); if its offsets "
                "have expired, start it once more, and stop it",
            )
        return found, notes

    def _changelog(self, noted: Mapping[str, str], known: Mapping[str, object]) -> str:
        """Return its changelog: the topic that it has a note for, or that has the usual name."""
        for topic in sorted({*noted, f"{self.name}.changelog"} & known.keys()):
            for record in first_of(self.config, topic):
                if owner_of(record.value or b"") == self.name:
                    return topic
        raise self.refusal(
            "it has no changelog that begins with its name: it is no group of streamfilter, or "
            "that topic was deleted",
            "name the group of the old service; a changelog without its beginning is first written "
            "again (`run --rewrite-changelog` of the old service)",
        )

    def _refuse_recreated(self, offsets: Mapping[Spot, int], noted: str) -> None:
        topics = {topic for topic, _ in offsets}
        if len(topics) != 1 or not noted:
            return
        (topic,) = topics
        present = ask_for_id(self.admin, topic)
        if present and noted != INPUT_PREFIX + present:
            got = f"{topic} was recreated since it worked last, and its offsets are of the old one"
            raise self.refusal(got, "start the new group without --take-over")

    def _end_of(self, changelog: str) -> tuple[int, str, Positions]:
        """Return the last record's offset, the successor in it, and the last batch's positions."""
        with TopicReader(self.config, changelog) as reader:
            for block in reader.newest_first(reader.bounds(self.admin, stable=True)):
                last, successor, ends = -1, "", Positions()
                for record in block:
                    last, value, strange = record.source.offset, record.value or b"", ""
                    try:
                        kind = kind_of(value)
                        if kind == BATCH:
                            successor, ends = "", decode_batch(value).positions
                        elif kind == SUCCESSOR:
                            successor = decode_successor(value)
                    except FormatError as error:
                        strange = str(error)
                    if strange:
                        got = f"its changelog {changelog} at offset {last}: {strange}"
                        raise self.refusal(got, "use the version of streamfilter that wrote it")
                if ends or successor:
                    return last, successor, ends
        raise self.refusal(f"its changelog {changelog} is empty", "start it once, and stop it")

    def as_text(self, found: OldState, waiting: Callable[[Spot], int], unseeded: int | None) -> str:
        """Return what would happen; *waiting* returns how many offsets wait.

        So many offsets of the unique topic are *unseeded*: their documents are not in the index.
        None: they cannot enter it, for its changelog has ended.
        """
        group, name = self.config.kafka.group, self.name
        if found.successor:
            return f"the group {group} took over from {name} already: --take-over changes nothing"
        lines = [f"the group {group} would take over from {name}:"]
        for (topic, partition), at in sorted(found.offsets.items()):
            left = counted(waiting((topic, partition)), "offset")
            lines.append(f"  {topic}/{partition} from {at} on; {left} wait")
        members = ", ".join(sorted(found.members))
        state = f"works ({members}): stop it first" if members else "is stopped"
        unique = self.config.output.unique
        if unseeded is None:
            lines.append(f"  copies of what {name} has forwarded would count as new")
        else:
            count = counted(unseeded, "offset")
            lines.append(f"  {count} of {unique} would enter the index before")
            lines.append(f"  (`streamfilter seed --topic {unique}` reads them while {name} works)")
        return "\n".join([*lines, f"  {name} {state}", "nothing was changed"])


@dataclass(frozen=True, slots=True)
class KafkaPredecessor:
    """`streamfilter.engine.ports.Predecessor`."""

    old: OldGroup
    found: OldState
    inputs: Inputs
    sink: Sink

    @property
    def group(self) -> str:
        """Return its name."""
        return self.old.name

    def positions(self, partitions: Sequence[int]) -> Positions | None:
        """Return its last positions; a partition that it did not know yet begins at 0."""
        found = self.old.look()
        if found.successor:
            return None
        if alive := ", ".join(sorted(self.old.alive())):
            raise Retriable(f"the group {self.group} works ({alive}); stop its processes")
        if found.last != self.found.last:
            raise Temporary(
                f"what the group {self.group} has forwarded last is not in the index yet\n"
                "    what stays: the old group's positions\n"
                "    cure: keep it stopped, and run this again"
            )
        topics = {topic for topic, _ in found.offsets}
        spots = {number: self.inputs.spot(number) for number in partitions}
        return {n: found.offsets.get(s, 0) for n, s in spots.items() if s[0] in topics}

    def farewell(self) -> Outgoing:
        """Return the record that ends its changelog."""
        value = encode_successor(self.old.config.kafka.group)
        return Outgoing(self.found.changelog, 0, None, value)


@dataclass(frozen=True, slots=True)
class TakeOver:
    """What `lifecycle/take_over.py` has prepared."""

    old: OldGroup
    found: OldState  # as it stood when everything that it had forwarded was in the index

    @property
    def transactional_id(self) -> str:
        """Return the id of the old group's only task."""
        return f"{self.old.name}.0"

    def of(self, inputs: Inputs, sink: Sink) -> KafkaPredecessor:
        """Return the port of a task; *sink* has our transactional id."""
        return KafkaPredecessor(self.old, self.found, inputs, sink)
