"""A changelog of every released format is restored, and written on.

`formats/N.json` holds the records (as hex) that the version with batches of version N wrote: the
first 20 documents of `world.VALUES`. None of them is to be written again, for that would test
nothing.
"""

import json
from pathlib import Path

import pytest

from streamfilter.engine.messages.changelog_header import BATCH, DATED, NAMED
from streamfilter.matching.blocking.retention import UNLIMITED, Retention
from tests.engine.world import World

FORMATS = Path(__file__).parent / "formats"
FORGETS = Retention(documents=12, least=4)
RELEASED = {NAMED: UNLIMITED, DATED: FORGETS}
"""The versions of a batch, and the retention of the index that has such batches."""


def versions_of(world: World) -> set[int]:
    return {value[0] for value in world.log.changelog if value[1] == BATCH}


@pytest.mark.parametrize("number", RELEASED)
def test_a_changelog_of_a_released_format_is_restored_and_written_on(number: int) -> None:
    calm = World(retention=RELEASED[number])
    calm.until(40)
    assert number in versions_of(calm), "the present format has a sample"
    world = World(retention=RELEASED[number])
    stored = json.loads((FORMATS / f"{number}.json").read_text())
    world.log.changelog = [bytes.fromhex(each) for each in stored]
    world.log.offsets = {0: 20}
    world.until(40)
    world.turn(3)
    assert world.result() == calm.result()[-20:], "what came before is known"
    assert len(world.store.index) == len(calm.store.index)
    assert world.store.index.progress.positions == {0: 40}
