"""Row 28: a filter is started on a directory that is an older backup, or another partition's."""

from __future__ import annotations

import random
from collections.abc import Callable

from streamfilter.cli import main
from tests.kafka.story import (
    STATIC,
    assert_as_undisturbed,
    finish,
    records,
    texts,
    wipe,
)
from tests.support.stage import Stage

SEED = 20_261_145
REFUSED = 78


def test_a_backup_of_a_working_process_is_brought_back_and_reads_what_it_lacks(
    make_stage: Callable[..., Stage],
) -> None:
    stage, undisturbed = make_stage(), make_stage()
    story = records(texts(random.Random(SEED), 90))
    undisturbed.produce(story)
    finish(undisturbed)
    state, backup = stage.directory / "state", str(stage.directory / "backup")
    seed = f"index.seed_file={stage.directory / 'seed'}"
    stage.produce(story[:30])
    process = stage.start(**STATIC)
    stage.drain(process)
    assert main(["backup", "--set", seed, "--state", str(state), backup]) == 0
    stage.produce(story[30:60])
    stage.drain(process)
    process.kill()
    wipe(state)
    assert main(["restore", backup, "--state", str(state)]) == 0
    stage.produce(story[60:])
    finish(stage)
    assert_as_undisturbed(stage, undisturbed)


def test_the_directory_of_another_partition_is_refused_and_nothing_is_written(
    make_stage: Callable[..., Stage],
) -> None:
    stage = make_stage(partitions=2)
    stage.produce(records(texts(random.Random(SEED), 60), partitions=2))
    settings = {**STATIC, "index": {"scope": "partition"}, "batch": {"documents": 6}}
    finish(stage, settings)
    before = {name: len(found) for name, found in stage.outputs().items()}
    one, other = sorted((stage.directory / "state").glob("partition-*"))
    other.rename(other.with_name("aside"))
    one.rename(other)
    other.with_name("aside").rename(one)
    stage.produce(records(texts(random.Random(SEED + 1), 20), partitions=2, first=60))
    process = stage.start(**settings)
    assert process.wait_for_exit() == REFUSED, process.told("was not refused")
    assert "belongs to another changelog" in process.log.read_text()
    assert {name: len(found) for name, found in stage.outputs().items()} == before


def test_a_directory_of_another_format_is_refused_by_a_running_service(stage: Stage) -> None:
    stage.produce(records(texts(random.Random(SEED), 30)))
    finish(stage)
    marker = stage.directory / "state" / "index.json"
    marker.write_text(marker.read_text().replace('"format": 2', '"format": 3'))
    process = stage.start(**STATIC)
    assert process.wait_for_exit() == REFUSED, process.told("was not refused")
    said = process.log.read_text()
    assert "format: it has 3, this version 2" in said
    assert "ways out" in said
