"""The start of an edge, a little at a time: what it owns, where it goes on, and for which index.

    1   open the producer: it fences a predecessor of the same name
    2   read the index's identity from the changelog's header: it has the seed
    3   read the group's offsets of the verdicts, each with the input offset behind them
    4   a partition without one is new: wait for the judge's resume, and commit the position
        behind it before anything is signed
    5   read verdicts and input from these positions on

Step 4 tells a new partition from one whose offsets have expired. If a verdict range comes first,
records were judged and perhaps forwarded: the edge stops, because it would forward them again.
"""

from collections.abc import Callable

from msgspec import Struct

from streamfilter.cluster.ranges import VerdictRange, decode_verdicts
from streamfilter.cluster.signing import Signer, Signing
from streamfilter.cluster.waiting import PendingLimits, PendingRecords
from streamfilter.engine import start_checks
from streamfilter.engine.messages.changelog import writer_of
from streamfilter.engine.messages.changelog_header import HEADER, decode_header, kind_of
from streamfilter.engine.parts import Parts
from streamfilter.engine.ports import RecordSource
from streamfilter.engine.start_checks import BEGIN_ANEW, Refusal
from streamfilter.engine.transaction import Load, Transactions
from streamfilter.engine.writer_check import WriterCheck
from streamfilter.index.directory.identity import Identity, refuse_other_scheme
from streamfilter.killpoints import kill_point
from streamfilter.model import Positions
from streamfilter.process.health import State
from streamfilter.similarity.sketch import Sketcher
from streamfilter.tasks.plan import Plan, Script, patiently

HEADER_SECONDS, FIRST_SECONDS = 0.05, 0.2
MESSAGES_MAX = 64


class EdgeParts(Struct, frozen=True):
    """The components of an edge, beside those that every task has."""

    verdicts: RecordSource  # the verdicts' topic, read committed
    noted: Callable[[tuple[int, ...]], Positions]
    """Returns the input offset that was committed with each offset of the verdicts."""
    signer: Signer
    owned: Callable[[], frozenset[int]]  # the partitions that the group gives to this process
    identity_of: Callable[[bytes], Identity]  # decodes a changelog's header
    sketcher_of: Callable[[Identity], Sketcher]
    topic: str  # of the verdicts
    pending: PendingLimits  # of what waits
    counted: Callable[[str, int], None] = lambda name, count: None  # adds to a metric
    shown: Callable[[str, float], None] = lambda name, number: None  # sets a metric


class Begun(Struct):
    """The parts that a start makes, and that the loop of an edge then uses."""

    sketcher: Sketcher
    mark: bytes
    waiting: PendingRecords
    signing: Signing
    transactions: Transactions


class EdgeStart:
    """One start of an edge."""

    def __init__(self, plan: Plan, parts: Parts, edge: EdgeParts) -> None:
        self._plan, self._parts, self._edge = plan, parts, edge
        self.inputs: Positions = {}
        """Input offsets that the next transaction commits beside those of the verdicts."""

    def run(self) -> Script[Begun]:
        """Do all steps; return what the loop needs."""
        parts, edge = self._parts, self._edge
        yield from patiently(
            State.STARTING, lambda: parts.sink.open(watched=parts.incoming.refusals.watching)
        )
        kill_point("start.producer")
        layout = yield from patiently(State.STARTING, parts.layout)
        identity = yield from self._identity()
        mark = writer_of(identity.index_id, self._plan.names.group)
        partitions = tuple(sorted(edge.owned()))
        # Other edges commit and delete while this one may be frozen. In this order an offset of
        # the input, or a verdict before the end, that has no offset of the verdicts is a loss.
        beside = yield from patiently(State.STARTING, parts.source.committed, partitions)
        ask = edge.verdicts.start_positions
        first = yield from patiently(State.STARTING, ask, partitions, "earliest")
        end = yield from patiently(State.STARTING, ask, partitions, "latest")
        known = yield from patiently(State.STARTING, edge.verdicts.committed, partitions)
        inputs = yield from patiently(State.STARTING, edge.noted, tuple(known))
        remembered, present = yield from patiently(State.STARTING, parts.source.ids)
        accept = self._plan.accept_positions
        for message in start_checks.refuse_other_input(
            self._plan.names, remembered, present, accept=accept
        ):
            parts.observer.process.loudly(message)
        kill_point("start.committed")
        last = yield from patiently(State.STARTING, ask, partitions, "latest")
        self._refuse_lost_verdicts(known, first, last)
        if lost := sorted(beside.keys() - known.keys()):
            raise self._deleted(lost)
        verdicts = {p: known.get(p, first[p]) for p in partitions}
        missing = {p: offset for p, offset in verdicts.items() if p not in inputs}
        found = yield from self._beginnings(missing, known, end, mark)
        inputs |= {p: each.start for p, (_, each) in found.items()}
        fresh = {p: offset + 1 for p, (offset, _) in found.items() if p not in known}
        verdicts |= fresh
        seconds = parts.bounds.transaction_seconds
        check = WriterCheck(
            parts.changelog, parts.clock, self._plan.names, end=0, transaction_seconds=seconds
        )
        transactions = Transactions(parts, check)
        self.inputs = dict(inputs)
        if fresh:
            yield from self._commit(transactions, verdicts)
        begin = yield from self._begin_of(partitions, inputs)
        parts.forwarder.begin(layout, mark)
        parts.incoming.refusals.begin_at(inputs)
        edge.verdicts.assign(verdicts)
        parts.source.assign(begin)
        kill_point("start.assigned")
        signing = Signing(edge.signer, parts.clock, mark, inputs)
        waiting = PendingRecords(verdicts, inputs, accept=self._plan.accept_positions)
        return Begun(edge.sketcher_of(identity), mark, waiting, signing, transactions)

    def _identity(self) -> Script[Identity]:
        """Return the identity in the changelog's header, once a judge has written it."""
        changelog = self._parts.changelog
        while True:
            bounds = yield from patiently(State.STARTING, changelog.bounds)
            reader = changelog.read(bounds.start, bounds.end)
            try:
                while not reader.done:
                    for entry in reader.read(1, HEADER_SECONDS):
                        return self._decoded(entry.value, entry.offset)
                    yield State.STARTING, ""
            finally:
                reader.close()
            yield State.STARTING, f"{self._plan.names.changelog} is empty: no judge has begun"

    def _decoded(self, value: bytes, offset: int) -> Identity:
        names = self._plan.names
        try:
            if kind_of(value) != HEADER:
                raise start_checks.refuse_broken(
                    names, offset, "its first record is no header: start the judge, and see its log"
                )
            header = decode_header(value)
            identity = self._edge.identity_of(header.identity)
        except ValueError as error:
            why = f"it must begin with a header record, but {error}"
            raise start_checks.refuse_broken(names, offset, why) from error
        if header.group not in ("", names.group):
            raise start_checks.refuse_other_group(names, header.group)
        refuse_other_scheme(names.changelog, identity, self._plan.scheme)
        return identity

    def _deleted(self, lost: list[int]) -> Refusal:
        return Refusal(
            f"the group {self._plan.names.group}.edge has forwarded records of partitions {lost}, "
            f"and has no offset of {self._edge.topic} any more: the topic was deleted, and with it "
            "the verdicts on records that were not forwarded yet",
            "bring the topic back, and set the group's offsets to where they were",
            BEGIN_ANEW,
        )

    def _refuse_lost_verdicts(self, known: Positions, first: Positions, last: Positions) -> None:
        if short := {p: (o, last[p]) for p, o in known.items() if o > last[p]}:
            raise Refusal(
                f"{self._edge.topic} ends before the group's offsets (partition: offset, end): "
                f"{short}. It was recreated or truncated, and verdicts are lost",
                "bring the topic back",
                BEGIN_ANEW,
            )
        if lost := {p: (o, first[p]) for p, o in known.items() if o < first[p]}:
            raise Refusal(
                f"verdicts of {self._edge.topic} were deleted before they were used (partition: "
                f"position, first offset left): {lost}. Their records were judged, and have not "
                "been forwarded",
                "bring the topic back, and let it keep its records as long as the input: "
                "retention.ms=-1",
                BEGIN_ANEW,
            )

    def _beginnings(
        self, verdicts: Positions, known: Positions, end: Positions, mark: bytes
    ) -> Script[dict[int, tuple[int, VerdictRange]]]:
        """Return for each partition the message, and its offset, that says where to begin.

        With a *known* offset this is the next message. A new partition has only resumes before
        the *end*: the last one counts, and a verdict range there is refused. A verdict range
        behind the end was caused by another edge, which has the partition now and fences this one.
        """
        source, found = self._edge.verdicts, dict[int, tuple[int, VerdictRange]]()
        if verdicts:
            source.assign(verdicts)
        while waits := [
            p
            for p in verdicts
            if p not in found or not (p in known or source.reached().get(p, -1) >= end[p])
        ]:
            for record in source.consume(MESSAGES_MAX, FIRST_SECONDS):
                p, value = record.source.number, record.value or b""
                one = decode_verdicts(value, mark, self._parts.rules.locate)
                judged = p not in known and not one.resumes
                if judged and record.source.offset < end[p]:
                    raise self._expired(p)
                if not judged and (p not in known or p not in found):
                    found[p] = record.source.offset, one
            yield State.STARTING, f"no judge has said yet where partitions {waits} begin"
        return found

    def _expired(self, p: int) -> Refusal:
        group = self._plan.names.group
        return Refusal(
            f"{self._edge.topic} holds verdicts of partition {p}, and the group {group}.edge has "
            "no offset of it: the offsets have expired (all edges were away for too long), or "
            "were deleted. The records may have been forwarded already",
            f"set the group's offset with kafka-consumer-groups.sh --group {group}.edge "
            f"--topic {self._edge.topic}:{p} --reset-offsets: --to-earliest forwards all again",
            BEGIN_ANEW,
        )

    def _commit(self, transactions: Transactions, verdicts: Positions) -> Script[None]:
        """Commit the positions of new partitions, before anything of them is signed."""
        while True:
            member = self._parts.member()
            if member.has_place and transactions.run(Load(dict(verdicts)), member) is not None:
                return
            yield State.STARTING, "the first transaction was aborted"

    def _begin_of(self, partitions: tuple[int, ...], inputs: Positions) -> Script[Positions]:
        """Return where to read the input, or raise `Refusal`: it lacks what was not forwarded."""
        source, plan = self._parts.source, self._plan
        earliest = yield from patiently(
            State.STARTING, source.start_positions, partitions, "earliest"
        )
        latest = yield from patiently(State.STARTING, source.start_positions, partitions, "latest")
        return start_checks.refuse_lost_input(
            plan.names, inputs, earliest, latest, accept=plan.accept_positions
        )
