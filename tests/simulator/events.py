"""What may befall the world at any moment: each event at its own rate."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.simulator.cluster.broker import Partition, Transactional
from tests.simulator.cluster.log import CHANGELOG, INPUT
from tests.simulator.world import OUTPUTS
from tests.truth.history import UNIQUE

if TYPE_CHECKING:
    from tests.simulator.story import Story

SQUATTER = "squatter"


def befall(story: Story) -> None:
    """Let each event happen that is due by chance."""
    for fault, event in _EVENTS.items():
        if story.world.chance(fault):
            event(story)


def rebalance(story: Story) -> None:
    """The group moves a task to another."""
    story.world.tell("group", "rebalances")
    story.world.group.rebalance(move=True)


def evict(story: Story) -> None:
    """The group throws a healthy member out, for it was too slow for once."""
    group = story.world.group
    if group.seats:
        member = story.rng.choice(list(group.seats))
        story.world.tell("group", f"throws {member} out")
        group.leave(member)


def fence(story: Story) -> None:
    """Someone uses one of our transactional ids, once."""
    broker = story.world.broker
    tid = f"group.{story.rng.randrange(story.shape.tasks)}"
    if tid in broker.ids:
        story.world.tell("broker", f"fences {tid} for a stranger")
        broker.init(tid)


def squatter(story: Story) -> None:
    """A stranger's transaction stays open on a partition, and holds its last stable offset."""
    broker, world = story.world.broker, story.world
    topic = story.rng.choice((CHANGELOG, CHANGELOG, INPUT, UNIQUE))
    known = broker.ids.setdefault(SQUATTER, Transactional(epoch=0))
    if topic not in broker.topics or (known.txn is not None and not known.txn.complete):
        return
    partition = story.rng.choice(broker.topics[topic])
    if topic == CHANGELOG and not partition.end:
        return  # else the changelog would not begin with what it must
    known.txn = None
    txn = broker.begin(SQUATTER, known.epoch, world.now)
    broker.produce(txn, known.epoch, partition, None)
    world.tell("broker", f"{SQUATTER} opens a transaction on {partition.name}")


def stop(story: Story) -> None:
    """Someone is asked to end."""
    if free := [process for process in story.processes if process.free]:
        story.rng.choice(free).stop()


def clock(story: Story) -> None:
    """The wall clocks jump."""
    story.world.wall_offset = story.rng.choice((-86_400.0, -3_600.0, 0.0, 3_600.0, 86_400.0))


def hour(story: Story) -> None:
    """No one does anything for more than an hour: idle tasks commit their offsets again."""
    story.world.tell("world", "an hour passes")
    story.world.advance(3_700.0)


def directory(story: Story) -> None:
    """Something happens to an index directory of a process that is down."""
    down = [process for process in story.processes if process.life is None]
    if not down:
        return
    disk = story.rng.choice(story.rng.choice(down).disks)
    what = story.rng.choice(("deleted", "damaged", "older"))
    story.world.tell("disk", f"{disk.name}: {what}")
    if what == "deleted":
        disk.forget()
    elif what == "damaged":
        disk.damaged = True
    else:
        disk.cut(story.rng)


def grow(story: Story) -> None:
    """Someone adds a partition to the input, or to the changelog, while all work."""
    if story.shape.tasks > 1:
        return
    kind = story.world.growths.choice(("input", "changelog", "both"))
    if kind != "changelog":
        widen(story)
        for _ in range(min(story.left, story.world.growths.randrange(4))):  # no one has noticed
            story.append(story.world.partitions - 1)
    if kind != "input" and CHANGELOG in story.world.broker.topics:
        changelog = story.world.broker.topics[CHANGELOG]
        changelog.append(Partition(f"{CHANGELOG}/{len(changelog)}"))
        story.world.group.tasks += 1
        story.world.tell("operator", "adds a partition to the changelog")
        story.world.group.rebalance()


def widen(story: Story) -> None:
    """The input and the outputs get another partition."""
    world, p = story.world, story.world.partitions
    for topic in (INPUT, *OUTPUTS):
        world.broker.topics[topic].append(Partition(f"{topic}/{p}"))
    story.inputs[p], story.turns[p] = [], []
    # A name that comes first by name, once a table has numbered the others.
    world.topics.append(f"{'a' if story.known(0) else 'm'}{p}")
    world.partitions, world.grown_at = p + 1, world.now
    world.tell("operator", f"adds partition {p}")


def hide_or_show(story: Story) -> None:
    """One of several topics is gone, or those that were gone are back."""
    world = story.world
    if not world.shape.several or not story.known(0):
        return
    if world.hidden:
        world.tell("brokers", f"show {sorted(world.hidden)} again")
        world.hidden.clear()
    else:
        # A hidden one without a number would get a later one than its partition has.
        numbered = [each for p, each in enumerate(world.topics) if p in story.known(0)]
        world.hidden.add(story.hides.choice(numbered))
        world.tell("brokers", f"do not show {sorted(world.hidden)} any more")


_EVENTS = {
    "rebalance": rebalance,
    "evict": evict,
    "fence": fence,
    "squatter": squatter,
    "stop": stop,
    "clock": clock,
    "hour": hour,
    "directory": directory,
}
