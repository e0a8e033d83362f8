"""What happens to the state of a running service: damage, too few descriptors."""

import random
import resource
from pathlib import Path

from tests.kafka.recovery.test_takeover import SETTINGS, replayed
from tests.kafka.story import records, texts, verdicts
from tests.support.filter_process import FilterProcess
from tests.support.stage import Stage

SEED = 20_261_131


def damage(state: Path, rng: random.Random) -> None:
    """Flip a bit in every block or so of every table, but for the parts an opening reads."""
    for table in sorted((state / "rocksdb").glob("*.sst")):
        data = bytearray(table.read_bytes())
        for at in range(0, max(1, len(data) - 4_096), 3_000):
            data[at + rng.randrange(min(3_000, len(data) - at))] ^= 1 << rng.randrange(8)
        table.write_bytes(data)


def test_an_index_with_broken_blocks_is_restored_loudly_and_misjudges_nothing(make_stage):
    stage = make_stage(partitions=2)
    stories = texts(random.Random(SEED), 400)
    stage.produce(records(stories[:250], partitions=2))
    stage.run(**SETTINGS)
    damage(stage.directory / "state", random.Random(SEED))
    process = stage.start(**SETTINGS)
    stage.produce(records(stories[250:], partitions=2, first=250))
    stage.drain(process)
    assert "is removed and restored from" in process.log.read_text()
    assert process.terminate() == 0
    assert verdicts(stage) == replayed(make_stage, stage)


def with_descriptors(stage: Stage, count: int) -> FilterProcess:
    """Start a filter that may open *count* files."""
    return stage.start(prefix=("prlimit", f"--nofile={count}:{count}"), **SETTINGS)


def test_256_descriptors_are_enough_and_too_few_are_a_clear_end(stage: Stage) -> None:
    stories = texts(random.Random(SEED + 2), 200)
    stage.produce(records(stories))
    process = with_descriptors(stage, 256)
    stage.end(process)
    assert len(verdicts(stage)) == 200
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 256
    starved = with_descriptors(stage, 64)
    assert starved.wait_for_exit() == 78, starved.told("ended otherwise")
    assert "this process may open 64 files; expected at least 128" in starved.log.read_text()
