"""Disasters and operators: everybody is down, something is changed, and everybody starts again.

A rewind must give every record the verdict it had. What makes the changelog or the input
another one must be refused, with exit code 78 and nothing written, until it is repaired.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from streamfilter.engine.messages.changelog import decode_batch, encode_batch, writer_of
from streamfilter.engine.transactor import PASS_SECONDS
from streamfilter.model import BatchMark
from tests.simulator import events
from tests.simulator.cluster.broker import Partition, Txn
from tests.simulator.cluster.log import CHANGELOG, INPUT
from tests.simulator.life.backups import cluster_set_back, hosts_lost
from tests.support.values import replace
from tests.truth.changelog import BATCH, HEADER, WRITER_BYTES, Failure, read_batches
from tests.truth.history import DEAD, DUPLICATES, UNIQUE

if TYPE_CHECKING:
    from tests.simulator.story import Story

Repair = Callable[[], None]
REFUSAL_ROUNDS = 40
SHARED_ROUNDS = 200
"""In which everything is judged, and someone waits for more."""
STARTING_ROUNDS = 10
"""In which a process reads the changelog up to what is not decided."""
RESTS_MAX = 12
RESTING_ROUNDS = 200


def next_one(story: Story) -> None:
    """Let one chapter happen, if the world is far enough for any."""
    story.all_down()
    if CHANGELOG not in story.world.broker.topics:
        return
    kind = story.rng.random()
    if story.shape.backups and story.people.rng.random() < 0.8:
        story.people.rng.choice((cluster_set_back, hosts_lost))(story)
        return
    if story.losses.random() < 0.05:
        changelog_written_anew(story)
    elif kind < 0.40 and story.shape.corrections == "both":
        story.people.mend()  # a rewind would read letters again, as the documents that they are now
    elif kind < 0.40:
        rewind(story)
    elif kind < 0.45:
        retention_behind_us(story)
    elif kind < 0.55:
        forget_offsets(story)
    elif kind < 0.63:
        skip_and_accept(story)
    elif kind < 0.68:
        add_partition(story)
    elif kind < 0.74:
        beginning_deleted(story)
    else:
        refusal(story)


def rewind(story: Story) -> None:
    """An operator rewinds the group over several partitions."""
    for p in story.inputs:
        reached = story.position(p)
        skipped = [to for (q, _), to in story.skipped.items() if q == p]
        floor = max([story.world.broker.topics[INPUT][p].start, *skipped])
        if reached > floor and story.known(story.task_of(p)) and story.rng.random() < 0.7:
            turned = story.rng.randrange(floor, reached + 1)
            _turn(story, p, turned)
            story.world.broker.offsets[p] = turned


def _turn(story: Story, p: int, turned: int) -> None:
    reached = story.position(p)
    if turned != reached:
        story.world.tell("operator", f"moves the group on {p} from {reached} to {turned}")
        story.turns[p].append((reached, turned))


def forget_offsets(story: Story) -> None:
    """The group's offsets expire: the changelog's positions count."""
    story.world.tell("operator", "deletes the group's offsets")
    for p in story.inputs:
        known = story.known(story.task_of(p))
        if known:
            _turn(story, p, known.get(p, 0))
    story.world.broker.offsets.clear()


def retention_behind_us(story: Story) -> None:
    """All is judged, the input ends with markers and rests, and retention removes all of it."""
    world = story.world
    for p in story.inputs:
        if story.rng.random() < 0.7:
            story.abort_upstream(p)
    world.calm = True
    for _ in range(RESTING_ROUNDS):
        story.round()
        if story.done:
            break
    for _ in range(RESTS_MAX):  # a task that has just begun, or moves, is no idle one yet
        if all(story.position(p) == world.broker.topics[INPUT][p].end for p in story.inputs):
            break
        world.advance(PASS_SECONDS)
        for _ in range(3):
            story.round()
    world.calm = False
    done = story.done
    story.all_down()
    if done and all(_working(story, p) for p in story.inputs):
        world.tell("broker", "removes all of the input, which was judged")
        for p in story.inputs:
            partition = world.broker.topics[INPUT][p]
            partition.start = partition.end


def skip_and_accept(story: Story) -> None:
    """An operator skips forward, and says so with --accept-positions."""
    p = story.rng.choice(list(story.inputs))
    known = story.known(story.task_of(p)).get(p)
    end = story.world.broker.topics[INPUT][p].end
    if known is None or known >= end:
        return
    turned = story.rng.randint(known + 1, end)
    _turn(story, p, turned)
    story.world.broker.offsets[p] = turned
    story.skipped[p, known] = turned
    story.accept = True


def beginning_deleted(story: Story) -> None:
    """Someone deletes the changelog's beginning: a process with a whole index continues with it."""
    changelog = story.world.broker.topics[CHANGELOG][0]
    disks = [process.disks[0] for process in story.processes]
    whole = [disk.index.progress.changelog_offset for disk in disks if not disk.damaged]
    before, most = changelog.start, max(whole, default=-1)
    if story.shape.tasks > 1 or most <= before or not all(_working(story, p) for p in story.inputs):
        return
    changelog.start = story.rng.randint(before + 1, most)
    story.world.tell("operator", f"deletes the changelog before {changelog.start}")
    watcher, world = story.watcher, story.world
    watcher.refusals, world.calm = [], True
    refused: set[str] = set()  # who may not be started again: it would disturb the others
    for _ in range(RESTING_ROUNDS):
        before_it = len(watcher.refusals)
        for process in story.processes:
            if process.life is None and process.name not in refused:
                process.start(accept_positions=story.accept)
            if process.free:
                process.turn()
            if len(watcher.refusals) > before_it:
                before_it = len(watcher.refusals)
                refused.add(process.name)
        world.advance(0.01)
        if story.done:
            break
    else:
        raise Failure("stuck", f"no process continues with a whole index: {watcher.refusals[-1:]}")
    story.all_down()
    watcher.refusals, world.calm = None, False
    changelog.start = before  # and brings it back


KILLED = {"crash": 0.06, "produce_fails": 0.02, "commit_lost": 0.05, "disk_full": 0.02}
"""Rates of what befalls a changelog that is written anew. No disk loses what it had: then nothing
could be written."""


def changelog_written_anew(story: Story) -> None:
    """The beginning is deleted for good; its owner writes the changelog anew, all else is lost."""
    world, shape, watcher = story.world, story.shape, story.watcher
    changelog = world.broker.topics[CHANGELOG][0]
    disks = [process.disks[0] for process in story.processes]
    whole = [disk.index.progress.changelog_offset for disk in disks if not disk.damaged]
    before, most = changelog.start, max(whole, default=-1)
    # A full bucket does not know any more what it lost: it lists those that it turned away.
    if shape.tasks > 1 or shape.forgets or shape.thin or most <= before:
        return
    if not all(_working(story, p) for p in story.inputs):
        return
    changelog.start = story.rng.randint(before + 1, most)
    world.tell("operator", f"deletes the changelog before {changelog.start}, to be written anew")
    ended, refused, rates = _ended_anew(changelog), set[str](), dict(shape.rates)
    watcher.refusals = []
    shape.rates.update({**dict.fromkeys(shape.rates, 0.0), **KILLED})
    for count in range(2 * RESTING_ROUNDS):
        world.calm = count >= RESTING_ROUNDS
        _turns(story, refused, rewrites=True)
        if _ended_anew(changelog) > ended and story.rng.random() < 0.3:
            world.tell("world", "the changelog is written anew, and whole")
            break
    shape.rates.update(rates)
    story.all_down()
    world.calm, watcher.refusals = True, None
    lost = [disk for disk in disks if story.rng.random() < 0.8] or disks
    for disk in lost:
        world.tell("operator", f"deletes {disk.name}, which was written anew")
        disk.forget()
    for _ in range(RESTING_ROUNDS):
        _turns(story, set(), rewrites=False)
        if story.done:
            break
    else:
        raise Failure("stuck", "no process continues with what was written anew")
    story.all_down()
    world.calm = False


def _turns(story: Story, refused: set[str], *, rewrites: bool) -> None:
    """Let each process take a turn, but those that were *refused*: they have no whole index."""
    refusals = story.watcher.refusals
    for process in story.processes:
        before = len(refusals or ())
        if process.life is None and process.name not in refused:
            process.start(accept_positions=story.accept, rewrites=rewrites)
        if process.free:
            process.turn()
        if len(refusals or ()) > before:
            refused.add(process.name)
    story.world.advance(0.01)


def _ended_anew(changelog: Partition) -> int:
    return sum(v[1] == HEADER and b'"anew":"end"' in v for _, v in changelog.committed(0))


def add_partition(story: Story) -> None:
    """The input gets another partition: it is read from its beginning."""
    if story.shape.tasks == 1:
        events.widen(story)


def refusal(story: Story) -> None:
    """Break something that no process may put up with; see them refuse; repair it."""
    p = story.rng.choice(list(story.inputs))
    disaster = story.rng.choice(DISASTERS)
    if story.accept and disaster in ACCEPTABLE:
        return
    repair = disaster(story, p)
    if repair is None:
        return
    before = _visible(story, p)
    story.world.tell("operator", f"{(disaster.__doc__ or '').strip()} (of partition {p})")
    _must_refuse(story, disaster.__name__)
    story.all_down()
    if _visible(story, p) != before:
        raise Failure("refusal", f"{disaster.__name__}: something was written all the same")
    repair()
    story.world.tell("operator", "repairs it")


def _must_refuse(story: Story, name: str) -> None:
    world, watcher = story.world, story.watcher
    watcher.refusals, world.calm = [], True
    for _ in range(REFUSAL_ROUNDS):
        story.round()
        if watcher.refusals:
            break
    else:
        raise Failure("refusal", f"{name}: nobody refused")
    watcher.refusals, world.calm = None, False


def _visible(story: Story, p: int) -> tuple[object, ...]:
    """Return what may not change while everybody refuses."""
    topics = story.world.broker.topics
    counts = [len(list(topics[name][p].committed(0))) for name in (UNIQUE, DUPLICATES, DEAD)]
    return counts, story.world.broker.offsets.get(p)


# Disasters: each breaks one thing and returns its repair, or None if it does not apply now.


def _swap(story: Story, topic: str, number: int, other: Partition) -> Repair:
    partitions = story.world.broker.topics[topic]
    original, partitions[number] = partitions[number], other
    return lambda: partitions.__setitem__(number, original)


def _working(story: Story, p: int) -> bool:
    offsets = story.world.broker.offsets
    return all(q in offsets for q in story.partitions_of(story.task_of(p)))


def _all_used(story: Story, task: int) -> bool:
    """Return whether every index remembers a record that the changelog holds still."""
    disks = [process.disks[task] for process in story.processes]
    start = story.world.broker.topics[CHANGELOG][task].start
    return all(
        disk.used and not disk.damaged and disk.index.progress.changelog_offset >= start
        for disk in disks
    )


def changelog_deleted(story: Story, p: int) -> Repair | None:
    """The changelog topic is deleted."""
    topics = story.world.broker.topics
    if not _working(story, p):
        return None
    lost = topics.pop(CHANGELOG)
    return lambda: topics.__setitem__(CHANGELOG, lost)


def changelog_emptied(story: Story, p: int) -> Repair | None:
    """The changelog is deleted, and created again."""
    task = story.task_of(p)
    if not _working(story, p):
        return None
    return _swap(story, CHANGELOG, task, Partition(CHANGELOG))


def changelog_shrunk(story: Story, p: int) -> Repair | None:
    """The changelog loses its end."""
    task, offsets = story.task_of(p), story.world.broker.offsets
    shorter = _shorter(story, task)
    if shorter is None or not _working(story, p):
        return None
    spans = read_batches(shorter)[-1].spans
    if not any(offsets.get(q, 0) > end for q, (_, end) in spans.items()):
        return None  # rewound to before the cut: nothing that is left could tell
    return _swap(story, CHANGELOG, task, shorter)


def _shorter(story: Story, task: int) -> Partition | None:
    """Return the changelog without some of its last batches."""
    changelog = story.world.broker.topics[CHANGELOG][task]
    batches = [o for o, v in changelog.committed(0) if v[1] == BATCH]
    if len(batches) < 2:
        return None
    kept = story.rng.randrange(len(batches) - 1)
    marker = next(o for o in range(batches[kept], changelog.end) if changelog.cells[o].marker)
    return changelog.copy(marker + 1)


def index_from_the_future(story: Story, p: int) -> Repair | None:
    """The changelog loses its end and the group is rewound to hide it: the indexes know."""
    task, offsets = story.task_of(p), story.world.broker.offsets
    shorter = _shorter(story, task)
    if shorter is None or not _working(story, p) or not _all_used(story, task):
        return None
    disks = [process.disks[task] for process in story.processes]
    if any(disk.index.progress.changelog_offset < shorter.end for disk in disks):
        return None
    before = dict(offsets)
    offsets.update({q: end for q, (_, end) in read_batches(shorter)[-1].spans.items()})
    swap_back = _swap(story, CHANGELOG, task, shorter)

    def repair() -> None:
        swap_back()
        offsets.update({q: before[q] for q in story.partitions_of(task)})

    return repair


def changelog_of_another(story: Story, p: int) -> Repair | None:
    """The changelog becomes that of another index."""
    return _changed(
        story, p, HEADER, lambda value: value.replace(b'"index_id":"', b'"index_id":"f')
    )


def changelog_of_another_group(story: Story, p: int) -> Repair | None:
    """The changelog becomes that of another group."""
    return _changed(
        story, p, HEADER, lambda value: value.replace(b'"group":"group"', b'"group":"other"')
    )


def changelog_of_other_buckets(story: Story, p: int) -> Repair | None:
    """The changelog becomes that of an index with another bucket_cap."""
    cap = story.shape.cap
    have, other = (f'"bucket_cap":{each}'.encode() for each in (cap, cap + 1))
    return _changed(story, p, HEADER, lambda value: value.replace(have, other))


def changelog_shared(story: Story, p: int) -> Repair | None:
    """Another group writes to the changelog while ours works."""
    world, changelog = story.world, story.world.broker.topics[CHANGELOG][story.task_of(p)]
    if story.shape.tasks > 1 or not _working(story, p) or not story.left:
        return None
    world.calm = True
    for _ in range(SHARED_ROUNDS):
        story.round()
        if story.done:
            break
    world.calm = False
    if not story.done:
        return None
    theirs = Txn("other", world.now, committed=True)
    changelog.append([v for _, v in changelog.committed(0) if v[1] == BATCH][-1], theirs)
    changelog.mark(theirs)
    story.append()
    # As if it had never been committed: what is there cannot be removed again.
    return lambda: setattr(theirs, "committed", False)


def changelog_taken_over(story: Story, p: int) -> Repair | None:
    """Another group commits the changelog's very next batch while ours start and wait for it."""
    world, changelog = story.world, story.world.broker.topics[CHANGELOG][story.task_of(p)]
    if story.shape.tasks > 1 or not _working(story, p):
        return None
    last = decode_batch([v for _, v in changelog.committed(0) if v[1] == BATCH][-1])
    mark = last.mark
    ends = tuple(replace(span, start=span.end) for span in mark.spans)
    next_one = BatchMark(mark.number + 1, mark.next_ordinal, mark.next_ordinal, ends)
    theirs = Txn("other", world.now)
    writer = story.rng.choice((b"", writer_of("0", "other")))
    changelog.append(encode_batch(replace(last, mark=next_one, writer=writer)), theirs)
    world.calm = True
    for _ in range(STARTING_ROUNDS):
        story.round()
    world.calm = False
    theirs.committed = True
    changelog.mark(theirs)
    return lambda: setattr(theirs, "committed", False)


def changelog_rewritten(story: Story, p: int) -> Repair | None:
    """The changelog is written anew, and says a little else."""
    at = 2 + WRITER_BYTES + 3 * 8  # the highest timestamp
    return _changed(story, p, BATCH, lambda value: value[:at] + b"\1" * 8 + value[at + 8 :])


def _changed(story: Story, p: int, kind: int, change: Callable[[bytes], bytes]) -> Repair | None:
    task = story.task_of(p)
    if not _working(story, p) or not _all_used(story, task):
        return None
    other = story.world.broker.topics[CHANGELOG][task].copy()
    for offset, value in list(other.committed(0)):
        if value[1] == kind:
            cell = other.cells[offset]
            other.cells[offset] = type(cell)(_same_size(change(value), value), cell.txn)
    return _swap(story, CHANGELOG, task, other)


def _same_size(value: bytes, original: bytes) -> bytes:
    """Drop a digit of the index id if one was added."""
    if len(value) == len(original):
        return value
    at = value.index(b'"index_id":"f') + len(b'"index_id":"f')
    return value[: at + 31] + value[at + 32 :]


def input_recreated(story: Story, p: int) -> Repair | None:
    """The input is deleted and created again, and is shorter now."""
    position = story.position(p)
    if not _working(story, p) or position < 1:
        return None
    shorter = story.world.broker.topics[INPUT][p].copy(story.rng.randrange(position))
    return _swap(story, INPUT, p, shorter)


def input_expired(story: Story, p: int) -> Repair | None:
    """Retention removes input that was not yet read."""
    partition, position = story.world.broker.topics[INPUT][p], story.position(p)
    if not _working(story, p) or position >= partition.end:
        return None
    before, partition.start = partition.start, story.rng.randint(position + 1, partition.end)
    return lambda: setattr(partition, "start", before)


def group_skipped(story: Story, p: int) -> Repair | None:
    """Someone moves the group forward."""
    offsets = story.world.broker.offsets
    known, end = story.known(story.task_of(p)).get(p), story.world.broker.topics[INPUT][p].end
    if not _working(story, p) or known is None or known >= end:
        return None
    before, offsets[p] = offsets[p], story.rng.randint(known + 1, end)
    return lambda: offsets.__setitem__(p, before)


DISASTERS: tuple[Callable[[Story, int], Repair | None], ...] = (
    changelog_deleted,
    changelog_emptied,
    changelog_shrunk,
    index_from_the_future,
    changelog_of_another,
    changelog_of_another_group,
    changelog_of_other_buckets,
    changelog_shared,
    changelog_taken_over,
    changelog_rewritten,
    input_recreated,
    input_expired,
    group_skipped,
)
ACCEPTABLE = frozenset({changelog_shrunk, input_expired, group_skipped})
"""What --accept-positions puts up with."""
