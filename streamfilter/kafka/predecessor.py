"""The group that `input.take_over` names, as brokers show it.

Its changelog says how far it has judged, and its committed offsets must agree. A group that works,
that reads something else, that was rewound, or that has a successor is refused by its name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from msgspec import Struct

from streamfilter.config.configuration import Config, edges_of, sketches_of, verdicts_of
from streamfilter.engine.batches.inputs import Inputs
from streamfilter.engine.messages.changelog import decode_batch
from streamfilter.engine.messages.changelog_header import (
    BATCH,
    Successor,
    encode_successor,
    kind_of,
)
from streamfilter.engine.ports import Outgoing, Retriable, Sink
from streamfilter.engine.start_checks import owed_by_edges
from streamfilter.index.input_table import Spot
from streamfilter.kafka.brokers.broker_queries import INPUT_PREFIX, ask_for_id, committed_spots
from streamfilter.kafka.changelog_ends import UNKNOWN_INDEX, beginning_of, index_of, judges, last_of
from streamfilter.kafka.connection.clients import consumer, reader_properties
from streamfilter.kafka.connection.errors import kafka_errors
from streamfilter.kafka.connection.one_shot_calls import CALL_SECONDS, listed
from streamfilter.kafka.group_reset import members_of, owner_of
from streamfilter.kafka.topic_reader import TopicReader
from streamfilter.model import Positions
from streamfilter.stops import ConfigError, Problem, Temporary, counted

_TOOK = "if this group took it over before, remove input.take_over"


class OldState(Struct, frozen=True):
    """How the old group stands."""

    changelog: str
    offsets: Mapping[Spot, int]  # committed positions of the input
    last: int  # offset of its changelog's last record
    successor: Successor | None = None  # what that record says; None: it is a batch

    @property
    def places(self) -> dict[str, int]:
        return {f"{topic}/{partition}": at for (topic, partition), at in self.offsets.items()}


def settled(config: Config, admin: AdminClient, topic: str) -> None:
    """Raise `Retriable` while a transaction is open in *topic*: what lies behind it is not read."""
    with TopicReader(config, topic) as reader:
        ends = reader.bounds(admin, stable=False)
        stable = reader.bounds(admin, stable=True)
    if held := [p for p, (_, end) in ends.items() if stable[p][1] < end]:
        raise Retriable(
            f"a producer left a transaction open in {topic} (partitions {held}); brokers end it "
            "after its transaction timeout (kafka-transactions.sh find-hanging)"
        )


class OldGroup(Struct, frozen=True):
    """The group that is to be taken over."""

    config: Config  # of the new group
    admin: AdminClient
    name: str

    def refusal(self, got: str, cure: str) -> ConfigError:
        return ConfigError([Problem("input.take_over", f"the group {self.name!r}: {got}", cure)])

    def look(self, *, fenced: bool = True) -> OldState | None:
        """Return how it stands now; None: it has no changelog, or that was deleted.

        Unless its last process is *fenced*, that process may have a transaction open. Raises
        `ConfigError`: it cannot be taken over; `LogError`.
        """
        known = listed(self.config, self.admin)
        changelog = self._changelog({}, known)
        changelog = changelog or self._changelog(_ids_in(self._offsets(known)[1]), known)
        if not changelog:
            return None
        end = last_of(self.config, self.admin, changelog)
        if end is None:
            raise self.refusal(f"its changelog {changelog} is empty", "start it once, and stop it")
        if end.successor:  # all else may be gone: brokers delete the offsets of an idle group
            return OldState(changelog, {}, end.last, self._ours(end.successor))
        offsets, texts = self._offsets(known, stable=fenced)
        noted = _ids_in(texts)
        if not offsets:
            cure = "start it once more, and stop it"
            raise self.refusal("it has no committed offsets, or they have expired", cure)
        self._refuse_tasks(len(known[changelog].partitions))
        by_judge = [spot for spot, text in texts.items() if text.isdecimal()]
        self._refuse_owed(offsets, by_judge, stable=fenced)
        own = {changelog, sketches_of(self.name)}  # what a judge reads is no input
        offsets = {spot: at for spot, at in offsets.items() if spot[0] not in own}
        self._refuse_other_input({topic for topic, _ in offsets}, known)
        offsets = {spot: at for spot, at in offsets.items() if spot[0] in known}
        self._refuse_recreated(offsets, noted.get(changelog, ""))
        odd = Counter(offsets.values()) - Counter(span.end for span in end.spans)
        # One that is not fenced may work, and have committed since its changelog was read.
        if odd and (fenced or last_of(self.config, self.admin, changelog) == end):
            got = (
                f"its committed offsets {sorted(odd)} are not where its changelog {changelog} ends "
                f"({sorted(span.end for span in end.spans)}): it was rewound or skipped"
            )
            raise self.refusal(got, "start it, and let it read on to the end; then stop it")
        return OldState(changelog, offsets, end.last)

    def there(self, *, fenced: bool = True) -> OldState:
        """Return what `look` does; raise `ConfigError` if it has no changelog."""
        if found := self.look(fenced=fenced):
            return found
        if not members_of(self.admin, self.name)[1]:
            cure = (
                "name the old group (its kafka.group); if its offsets have expired, start it once "
                "and stop it; " + _TOOK
            )
            raise self.refusal("there is no such group", cure)
        raise self.refusal(
            "it has no changelog that begins with its name: it is no group of streamfilter, or "
            "that topic was deleted",
            "name the group of the old service; a changelog without its beginning is first written "
            "again (`run --rewrite-changelog` of the old service); " + _TOOK,
        )

    def refuse_anew(self, found: OldState) -> None:
        """Raise `ConfigError` if we took the group over with an index that was reset since."""
        config, admin = self.config, self.admin
        if found.successor is None:
            return
        own = index_of(config, admin, config.changelog_topic)
        if own not in (found.successor.index_id, UNKNOWN_INDEX):
            raise self.refusal(
                f"{config.kafka.group} took it over, and was reset after that: nothing says any "
                "more where to go on, so records would be judged twice, or by no group",
                f"to read the input again from input.start ({config.input.start}), remove "
                "input.take_over",
            )

    def refuse_other_unique(self, found: OldState) -> None:
        """Raise `ConfigError` if our unique topic has received nothing, but the group forwarded."""
        topic = self.config.output.unique
        with TopicReader(self.config, topic) as reader:
            ends = [end for _, end in reader.bounds(self.admin, stable=False).values()]
        if not any(ends) and self._has_forwarded(found.changelog):
            raise self.refusal(
                f"it has forwarded documents, and output.unique ({topic}) has received none: that "
                "is not its unique topic, and copies of them would be forwarded",
                "set output.unique to the old group's",
            )

    def _has_forwarded(self, changelog: str) -> bool:
        with TopicReader(self.config, changelog) as reader:
            for block in reader.newest_first(reader.bounds(self.admin, stable=True)):
                marks = (
                    decode_batch(value).mark
                    for record in block
                    if kind_of(value := record.value or b"") == BATCH
                )
                if any(m.first_ordinal < m.next_ordinal and judges(m.spans) for m in marks):
                    return True
        return False

    def alive(self) -> tuple[str, ...]:
        """Return its members. `list_groups` is the safe call: see `ports/unowned_partitions.py`."""
        with kafka_errors(f"asking for the group {self.name}"):
            groups = self.admin.list_groups(self.name, timeout=CALL_SECONDS)
        members = [each for group in groups for each in group.members]
        return tuple(f"{each.client_id} on {each.client_host}" for each in members)

    def _ours(self, successor: Successor) -> Successor:
        if successor.group != self.config.kafka.group:
            got = f"the group {successor.group!r} took it over already"
            raise self.refusal(got, f"take over that one: input.take_over: {successor.group}")
        return successor

    def _refuse_tasks(self, tasks: int) -> None:
        if tasks > 1:
            cure = "give the new group an input.start in place of input.take_over"
            raise self.refusal(f"it has {tasks} indexes (index.scope: partition)", cure)

    def _refuse_owed(
        self, judged: Mapping[Spot, int], by_judge: Sequence[Spot], *, stable: bool
    ) -> None:
        """Raise `ConfigError` while its edges have not forwarded what its judge has decided."""
        if not by_judge:
            return
        edges, every = edges_of(self.name), [TopicPartition(*spot) for spot in by_judge]
        spots = self._committed(edges, every, stable=stable)
        forwarded = {(each.topic, each.partition): each.offset for each in spots}
        if owed := owed_by_edges(judged, _known(forwarded), by_judge):
            places = {f"{topic}/{p}": at for (topic, p), at in sorted(owed.items())}
            got = f"its edges have forwarded up to {places} only, and its judge has decided more"
            cure = f"start an edge of it, until {edges} has no lag on {verdicts_of(self.name)}"
            raise self.refusal(f"{got}: those records would be lost", cure)

    def _refuse_other_input(self, read: set[str], known: Mapping[str, object]) -> None:
        lost = sorted((read & known.keys()) - set(self.config.input.among(known)))
        if not lost and read & known.keys():
            return
        got = f"it reads {', '.join(sorted(read)) or 'no input'}, and this configuration reads "
        lost_said = f": no group would judge {', '.join(lost)}" if lost else ""
        raise self.refusal(
            got + self.config.input.name + lost_said, "name the group that reads the same input"
        )

    def _offsets(
        self, known: Mapping[str, Any], *, stable: bool = False
    ) -> tuple[dict[Spot, int], dict[Spot, str]]:
        """Return its offsets, and the texts that were committed with them."""
        every = [TopicPartition(name, p) for name in sorted(known) for p in known[name].partitions]
        spots = self._committed(self.name, every, stable=stable)
        texts = {(each.topic, each.partition): each.metadata or "" for each in spots}
        return _known({(each.topic, each.partition): each.offset for each in spots}), texts

    def _committed(
        self, group: str, every: list[TopicPartition], *, stable: bool
    ) -> list[TopicPartition]:
        """Return what a *group* has committed; *stable*: wait for open transactions.

        It uses a consumer. A process once ended with SIGSEGV after the admin client was asked for
        a group without offsets; that this was the cause is not proven.
        """
        level = "read_committed" if stable else "read_uncommitted"
        properties = reader_properties(self.config) | {"group.id": group}
        with closing(consumer(self.config, properties | {"isolation.level": level})) as client:
            return committed_spots(client, every, f"reading the offsets of the group {group}")

    def _changelog(self, noted: Mapping[str, str], known: Mapping[str, object]) -> str:
        """Return its changelog: of the usual name, or with a note of the group; empty: none."""
        for topic in sorted({*noted, f"{self.name}.changelog"} & known.keys()):
            if owner_of(beginning_of(self.config, self.admin, topic) or b"") == self.name:
                return topic
        return ""

    def _refuse_recreated(self, offsets: Mapping[Spot, int], noted: str) -> None:
        topics = {topic for topic, _ in offsets}
        if len(topics) != 1 or not noted:
            return
        (topic,) = topics
        present = ask_for_id(self.admin, topic)
        if present and noted != INPUT_PREFIX + present:
            got = f"{topic} was recreated since it worked last, and its offsets are of the old one"
            raise self.refusal(got, "start the new group without input.take_over")

    def as_text(self, found: OldState, ends: Mapping[Spot, int]) -> str:
        """Return what would happen; *ends* are the next offsets of the input. Raises `LogError`."""
        group, name = self.config.kafka.group, self.name
        if found.successor:
            return f"the group {group} took over from {name} already"
        lines = [f"the group {group} would take over from {name}:"]
        for (topic, partition), at in sorted(found.offsets.items()):
            left = counted(max(0, ends[topic, partition] - at), "offset")
            lines.append(f"  {topic}/{partition} from {at} on; {left} wait")
        members = ", ".join(sorted(members_of(self.admin, name)[0]))
        state = f"works ({members}): stop it first" if members else "is stopped"
        unique = self.config.output.unique
        lines.append(
            f"  what {unique} has received since its last seed would enter the index before"
        )
        return "\n".join([*lines, f"  {name} {state}", "nothing was changed"])


def _known(offsets: Mapping[Spot, int]) -> dict[Spot, int]:
    return {spot: offset for spot, offset in offsets.items() if offset >= 0}


def _ids_in(texts: Mapping[Spot, str]) -> dict[str, str]:
    """Return the group's note of the input's id, by the changelog's topic."""
    return {topic: text for (topic, _), text in texts.items() if text.startswith(INPUT_PREFIX)}


class KafkaPredecessor(Struct, frozen=True):
    """`streamfilter.engine.ports.Predecessor`."""

    taking: TakeOver
    inputs: Inputs
    sink: Sink

    @property
    def old(self) -> OldGroup:
        return self.taking.old

    @property
    def group(self) -> str:
        return self.old.name

    def positions(self, partitions: Sequence[int]) -> Positions | None:
        """Return its last positions; a partition that it did not know yet begins at 0."""
        found = self.old.look()
        if found is None:
            raise Temporary(
                f"the group {self.group} has no changelog any more\n"
                "    what stays: everything\n"
                "    cure: run this again: a group that took over needs it no longer"
            )
        if found.successor:
            self.taking.done = True
            return None
        if alive := ", ".join(sorted(self.old.alive())):
            raise Retriable(f"the group {self.group} works ({alive}); stop its processes")
        if found.last != self.taking.found.last:
            raise Temporary(
                f"what the group {self.group} has forwarded last is not in the index yet\n"
                "    what stays: the old group's positions\n"
                "    cure: keep it stopped, and run this again"
            )
        topics = {topic for topic, _ in found.offsets}
        spots = {number: self.inputs.spot(number) for number in partitions}
        if unheard := sorted(found.offsets.keys() - set(spots.values())):
            raise Temporary(
                f"brokers do not know yet of {unheard}, which {self.group} has read\n"
                "    what stays: the old group's positions\n"
                "    cure: run this again"
            )
        return {n: found.offsets.get(s, 0) for n, s in spots.items() if s[0] in topics}

    def farewell(self, index_id: str) -> Outgoing:
        value = encode_successor(Successor(self.old.config.kafka.group, index_id))
        return Outgoing(self.taking.found.changelog, 0, None, value)


class TakeOver(Struct):
    """A takeover that `lifecycle/take_over.py` has prepared."""

    old: OldGroup
    found: OldState  # its state when the index had everything that it forwarded
    done: bool = False  # then a start does not look at the old group again

    def of(self, inputs: Inputs, sink: Sink) -> KafkaPredecessor:
        """Return the port of a task; *sink* has our transactional id."""
        return KafkaPredecessor(self, inputs, sink)
