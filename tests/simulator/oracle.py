"""What must be true: while it happens (`Watcher`), and of what is left (`judge`).

| check     | oracle       | what it finds                                                      |
|-----------|--------------|--------------------------------------------------------------------|
| lost      | A            | an input record that is in no output                               |
| doubled   | B            | one that came out more often than it was read                      |
| order     | B            | one that came out before its predecessor                           |
| later     | C            | a match with itself, or with what was judged later                 |
| misjudged | C            | another verdict, match, similarity or content than the model's     |
| withheld  | C            | a match that was not itself forwarded                              |
| forgotten | C            | a match with what is older than the retention                      |
| changelog | D            | gaps or repeats in what the changelog tells                        |
| state     | D            | an index that is not a prefix of the model's                       |
| ahead     | D            | an index that was written before its transaction was committed     |
| trimmed   | D            | a changelog that was cut off behind the beginning of a live window |
| kept      | D            | a document that was refused by an output, and is still remembered  |
| prefix    | –            | a reader during the faults saw what was not to stay                |
| stop      | E            | a process that ended with a code it should not                     |
| refusal   | E            | one that went on where it had to refuse                            |
| stuck     | E            | no end although all faults are over                                |
| locked    | –            | an index opened twice, or used after it was closed                 |
| released  | –            | a withheld record that was released twice, not at all, or changed  |
| replayed  | –            | a dead letter that came back twice, or not at all                  |
| bug       | –            | any other exception                                                |
"""

from collections import Counter
from collections.abc import Sequence, Set

from streamfilter.engine.ports import Outgoing
from streamfilter.index.protocol import Changes
from streamfilter.matching.verdict.evidence_headers import PREFIX
from streamfilter.matching.verdict.side_records import NOTE, RELEASED
from streamfilter.stops import ExitCode
from tests.simulator.cluster.broker import Partition
from tests.simulator.cluster.log import CHANGELOG
from tests.simulator.disk import Disk
from tests.simulator.life import corrections
from tests.simulator.world import World
from tests.truth.changelog import Failure, anew_at, read_batches, windows_at
from tests.truth.history import DEAD, DUPLICATES, UNIQUE, Expected, History
from tests.truth.outputs import counted, difference
from tests.truth.state import state_differences


class Watcher:
    """Looks on while it happens."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.refusals: list[str] | None = None
        """Where refusals go while one is expected."""
        self._seen: dict[tuple[str, int], list[Outgoing]] = {}
        self._read_to: dict[tuple[str, int], int] = {}

    def written(self, where: str, changes: Changes) -> None:
        """Check that what an index is about to write was committed."""
        partition = self._world.broker.topics[CHANGELOG][int(where.partition("/")[2])]
        offset = changes.progress.changelog_offset
        txn = partition.cells[offset].txn if offset < partition.end else None
        if txn is None or not txn.committed:
            self._world.fail("ahead", f"{where} writes offset {offset}, which is not committed")

    def trimmed(self, partition: Partition, before: int) -> None:
        """Check that what is cut off is of no window that is alive, by what is committed."""
        committed = Partition(partition.name)
        committed.cells = partition.cells  # also what is committed, and lacks its marker still
        oldest, *_ = windows_at(read_batches(committed))
        if before > max(oldest.offset, anew_at(committed, oldest.number)):
            self._world.fail("trimmed", f"{partition.name} is cut off before {before}: {oldest}")

    def exited(self, name: str, code: ExitCode, message: str) -> None:
        """Check that a process ended for a reason."""
        if code is ExitCode.CONFIG and self.refusals is not None:
            self.refusals.append(message)
        elif code is ExitCode.CONFIG:
            self._world.fail("stop", f"{name} exits with {code}: {message}")

    def read(self) -> None:
        """Read on in the outputs, as a consumer of committed records does."""
        for topic in (UNIQUE, DUPLICATES, DEAD):
            for p, partition in enumerate(self._world.broker.topics[topic]):
                seen = self._seen.setdefault((topic, p), [])
                begin = self._read_to.get((topic, p), 0)
                seen += [value for _, value in partition.committed(begin)]
                self._read_to[topic, p] = partition.stable

    def begin_again(self) -> None:
        """Forget what was seen: the brokers have lost some of it."""
        self._seen, self._read_to = {}, {}

    def check_prefix(self) -> None:
        """Check that what was seen is how the final outputs begin."""
        for (topic, p), seen in self._seen.items():
            final = outputs(self._world, topic, p)
            if any(a is not b for a, b in zip(seen, final, strict=False)) or len(seen) > len(final):
                raise Failure("prefix", f"a reader of {topic}/{p} saw what did not stay")


def outputs(world: World, topic: str, partition: int) -> list[Outgoing]:
    return [value for _, value in world.broker.topics[topic][partition].committed(0)]


def filtered(world: World, topic: str, partition: int) -> list[Outgoing]:
    """Return what filters wrote, without what was released, and without notes."""
    return [each for each in outputs(world, topic, partition) if not _corrects(each)]


def judge_outputs(
    world: World,
    history: History,
    partition: int,
    segments: Sequence[tuple[int, int]],
    gone: Set[str] = frozenset(),
) -> None:
    """Check one input partition's records in all outputs.

    Args:
        world: with the outputs.
        history: of the task that the partition belongs to.
        partition: of the input, and of each output.
        segments: what was read, from and to: more than one after a rewind.
        gone: names of records that were removed from the input: they may have come out before.
    """
    wanted = [
        known
        for begin, end in segments
        for (p, offset), known in sorted(history.expected.items())
        if p == partition and begin <= offset < end
    ]
    found = {topic: filtered(world, topic, partition) for topic in (UNIQUE, DUPLICATES, DEAD)}
    have = Counter(name_of(record) for records in found.values() for record in records)
    wanted = [each for each in wanted if each.source.name not in gone - have.keys()]
    for check, what in counted(Counter(each.source.name for each in wanted), have):
        raise Failure(check, what)
    # Who is read again does not match what was forgotten since: not the verdict of then, for some.
    times = Counter(each.source.name for each in wanted)
    twice = {name for name, count in times.items() if count > 1}
    by_name = {each.source.name: each for each in history.expected.values()}
    again = {name for name in twice if world.shape.forgets or _is_vague(by_name[name], history)}
    for topic, records in found.items():
        for record in records:
            name = name_of(record)
            want, vague = by_name[name], name in again
            if wrong := difference(topic, record, want, history.expected, again=vague):
                raise Failure(wrong[0], f"{name} {wrong[1]}")
    for topic, records in found.items():
        order = [each.source.name for each in wanted if each.topic == topic]
        if not again and [name_of(record) for record in records] != order:
            raise Failure("order", f"{topic}/{partition} is not in the order of {order}")


def _is_vague(want: Expected, history: History) -> bool:
    """Return whether a record, read again, may get another verdict: who it met may be gone.

    Then it meets fewer, and perhaps others that no one stands before any more, but none later.
    """
    oldest, *_ = windows_at(history.batches)
    judged = want.source.kind == "document" and want.verdict != "refused"
    return judged and want.horizon < oldest.first_ordinal


def name_of(record: Outgoing) -> str:
    """Return which input a record was."""
    return corrections.name_of(record.headers)


def _corrects(record: Outgoing) -> bool:
    """Return whether no filter wrote it: `People.judge` checks what was released, and notes."""
    return not {RELEASED, PREFIX + NOTE}.isdisjoint(dict(record.headers))


def judge_disk(disk: Disk, history: History, start: int) -> None:
    """Check that an index is what the law was after some batch; *start* is its changelog's."""
    if disk.used and not disk.damaged:
        for what in state_differences(disk.index, history, start):
            raise Failure("state", f"{disk.name} {what}")
