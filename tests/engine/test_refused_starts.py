"""Starts that find another changelog, directory or group than before: the words and the ways out.

The simulator meets the same in its stories; here are the sentences that an operator reads.
"""

from collections.abc import Callable

import pytest

from streamfilter.matching.blocking.retention import Retention
from streamfilter.stops import ExitCode, Stop
from tests.engine.world import GAINED, VALUES, MemoryStore, World
from tests.support.values import replace

DAY = 24 * 3_600_000


def lost_changelog(world: World) -> None:
    world.log.changelog.clear()


def recreated_changelog(world: World) -> None:
    world.log.changelog.clear()
    world.log.offsets.clear()


def shortened_changelog(world: World) -> None:
    del world.log.changelog[5:]


def changelog_of_another_index(world: World) -> None:
    other = World(values=VALUES[:20])
    other.index_id = "11" * 16
    other.until(20)
    world.log.changelog[:] = other.log.changelog


def changelog_without_its_beginning(world: World) -> None:
    world.log.trim(5)
    world.store.wipe()


def another_group(world: World) -> None:
    world.names = replace(world.names, group="other")


def another_bucket_cap(world: World) -> None:
    world.bucket_cap = 4


def another_bucket_cap_and_no_directory(world: World) -> None:
    world.bucket_cap = 4
    world.store.wipe()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lost_changelog, ["changelog/0 is empty or missing", "`streamfilter reset --yes`"]),
        (recreated_changelog, ["kafka.group or index.changelog was changed", "input.take_over"]),
        (shortened_changelog, ["truncated or recreated", "remove the directory"]),
        (changelog_of_another_index, ["belongs to another changelog", "name the right directory"]),
        (changelog_without_its_beginning, ["its first records were deleted", "directory is whole"]),
        (another_group, ["belongs to the group 'group', and kafka.group is 'other'"]),
        (another_bucket_cap, ["does not fit the configuration", "bucket_cap: it has 8, wanted is"]),
        (another_bucket_cap_and_no_directory, ["changelog/0 does not fit the configuration"]),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_a_start_that_cannot_trust_what_it_finds_is_refused_and_writes_nothing(
    change: Callable[[World], None], words: list[str]
) -> None:
    world = World()
    world.until(40)
    change(world)
    before = world.result(), list(world.log.changelog)
    world.membership.moves.append(GAINED)
    with pytest.raises(Stop) as stop:
        world.turn(5)
    assert stop.value.exit_code == ExitCode.CONFIG
    assert [word for word in words if word not in str(stop.value)] == []
    assert "ways out: " in str(stop.value)
    assert (world.result(), world.log.changelog) == before


def test_an_older_copy_of_the_index_and_none_are_restored_from_the_changelog(caplog) -> None:
    caplog.set_level("INFO", "streamfilter.run")
    world, copied = World(), World()
    copied.until(20)
    world.until(40)
    calm = list(world.store.index.dump())
    world.store.index = copied.store.index  # twenty documents behind
    for wiped in (False, True):
        if wiped:
            world.store.wipe()
        world.membership.moves.append(GAINED)
        world.turn(5)
        assert list(world.store.index.dump()) == calm, wiped
    assert caplog.text.count(" changelog offsets") == 2
    assert len(world.result()) == 40


def test_a_changelog_that_was_cut_off_in_a_live_window_is_no_shorter_memory() -> None:
    """It began with a later window's header, and half of what is remembered was gone in silence."""
    world = World(retention=Retention(time=20 * DAY))
    world.clock.now, log = 100 * DAY / 1_000, world.log  # or all of it would be of the future
    log.input = [replace(each, timestamp=n * DAY) for n, each in enumerate(log.input)]
    world.until(40)
    oldest, later, *_ = world.store.index.windows
    assert oldest.offset < later.offset
    log.trim(later.offset)
    whole, world.store = world.store, MemoryStore()
    for _ in range(2):  # and not after half of it was restored either
        world.membership.moves.append(GAINED)
        with pytest.raises(Stop, match="its first records were deleted"):
            world.turn(5)
    world.store = whole
    world.membership.moves.append(GAINED)
    world.turn(5)  # the whole one goes on
    assert world.store.index is whole.index
