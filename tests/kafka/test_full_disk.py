"""Row 24: the disk of the index, or of Kafka itself, is full while a filter works."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from confluent_kafka import Producer

from streamfilter.kafka.broker.real import RealKafka
from tests.kafka.story import records, texts, verdicts
from tests.kafka.test_takeover import SETTINGS, replayed
from tests.support.disk import fill, small_file_system
from tests.support.filter_process import FilterProcess
from tests.support.stage import Stage
from tests.support.topics import Input
from tests.support.trials import Trials, short_and_long

SEED = 20_261_144
DOCUMENTS = 400
LEFT_BYTES_MAX = 100 * 1024
"""Less than the documents of a trial need."""


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    with small_file_system(tmp_path / "disk", mib=48) as path:
        yield path


def paused(process: FilterProcess) -> str:
    """Wait until *process* has paused for its disk; return what it says, once all tell so."""
    status = process.wait_for_state("paused:disk")
    assert "free some space" in status["detail"]
    assert '"ready": false' in (process.get("/readyz") or "")
    assert '"live": true' in (process.get("/livez") or "")
    process.wait_for(
        lambda _: 'paused_partitions{reason="disk"} 1.0' in (process.get("/metrics") or ""),
        what="the metric of the alarm",
    )
    return str(status["detail"])


@short_and_long(2, 20)
def test_a_full_disk_pauses_the_service_and_free_space_lets_it_go_on_without_a_restart(
    make_stage: Callable[..., Stage], small_disk: Path, trials: Trials
) -> None:
    stage, story = make_stage(), texts(random.Random(SEED), DOCUMENTS * (trials.count + 1))
    stage.produce(records(story[:DOCUMENTS]))
    # Buffers so small that every other trial needs room for a table, and not for a log alone.
    memory = {"index_cache": "4Mi", "memtable": "1Mi"}
    index = {"path": str(small_disk / "state"), "seed_file": str(stage.directory / "seed")}
    process = stage.start(**SETTINGS, memory=memory, index=index)
    stage.drain(process)
    for number, rng in enumerate(trials.of("24", "the disk of the index is full", seed=SEED), 1):
        fill(small_disk / "ballast", leave=rng.choice((0, rng.randrange(LEFT_BYTES_MAX))))
        first = number * DOCUMENTS
        stage.produce(records(story[first : first + DOCUMENTS], first=first))
        file = re.search(r"\.(log|sst)|MANIFEST", paused(process))
        trials.saw(f"no room for {file[0] if file else 'another file'}")
        (small_disk / "ballast").unlink()
        stage.drain(process)
        process.wait_for_state("running")
    assert process.terminate() == 0
    assert verdicts(stage) == replayed(make_stage, stage)


def send(stage: Stage, batch: Sequence[Input]) -> None:
    """Send records to a broker that is about to die: some, or none, are in the topic then."""
    client = {"bootstrap.servers": stage.bootstrap, "enable.idempotence": True}
    producer = Producer({**client, "message.timeout.ms": 5_000})
    for each in batch:
        producer.produce(stage.input, each.value, each.key, timestamp=each.timestamp)
    producer.flush(10)


@pytest.mark.parametrize("trials", [pytest.param(3, marks=pytest.mark.long)], indirect=True)
def test_a_broker_that_died_of_a_full_disk_is_waited_for(
    make_stage: Callable[..., Stage], tmp_path: Path, trials: Trials
) -> None:
    (tmp_path / "stage").mkdir()
    with (
        small_file_system(tmp_path / "disk", mib=256) as disk,
        RealKafka(properties={"log.dirs": str(disk / "data")}) as kafka,
    ):
        stage = Stage(kafka.bootstrap, tmp_path / "stage")
        story = texts(random.Random(SEED), DOCUMENTS * (trials.count + 1))
        stage.produce(records(story[:DOCUMENTS]))
        process = stage.start(**SETTINGS)
        stage.drain(process)
        for number, _ in enumerate(trials.of("24", "Kafka's own disk is full", seed=SEED), 1):
            fill(disk / "ballast")
            first = number * DOCUMENTS
            send(stage, records(story[first : first + DOCUMENTS], first=first))
            process.wait_for(
                lambda _: kafka.nodes[0].pid is None, what="end of the broker", timeout_seconds=120
            )
            (disk / "ballast").unlink()
            kafka.nodes[0].start()
            kafka.wait_until_ready()
            stage.drain(process)
            trials.saw("waited for the broker, and went on")
        assert process.terminate() == 0
        assert verdicts(stage) == replayed(make_stage, stage)
        stage.close()
