"""Row 24: the disk of the index, or of Kafka itself, is full while a filter works."""

import random
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from confluent_kafka import Producer

from deploy.local.real import RealKafka
from tests.kafka.recovery.test_takeover import SETTINGS, replayed
from tests.kafka.story import records, texts, verdicts
from tests.support import small_runs
from tests.support.filter_process import FilterProcess, Status
from tests.support.machine.disk import fill, small_file_system
from tests.support.session.forge import Forge
from tests.support.session.trials import Trials, short_and_long
from tests.support.stage import Stage
from tests.support.topics import Input

SEED = 20_261_144
DOCUMENTS = 400
SESSION_SECONDS = 2
"""Of `SETTINGS`: a process that does not poll for so long has lost its place."""
LEFT_BYTES_MAX = 100 * 1024
"""Less than the documents of a trial need."""


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    with small_file_system(tmp_path / "disk", mib=48) as path:
        yield path


class Filling:
    """A disk that is full, and records that come until a filter notices."""

    def __init__(self, stage: Stage, ballast: Path) -> None:
        self.stage, self.ballast = stage, ballast
        self._rng, self._sent = random.Random(SEED), 0

    def send(self) -> None:
        """Produce some more records."""
        more = texts(self._rng, DOCUMENTS)
        self.stage.produce(records(more, first=self._sent))
        self._sent += DOCUMENTS

    def until_paused(self, process: FilterProcess, *, leave: int) -> str:
        """Fill the disk but for some bytes; return what *process* says once it has paused."""
        fill(self.ballast, leave=leave)
        self.send()

        def is_paused(status: Status) -> bool:
            if sum(status.get("positions", {}).values()) >= self._sent:
                # RocksDB has merged files meanwhile, and made room itself.
                fill(self.ballast)
                self.send()
            return status.get("state") == "paused:disk"

        return str(process.wait_for(is_paused, what="pause")["detail"])


def assert_told(process: FilterProcess) -> None:
    """Hold the probes and the metrics to a pause."""
    assert '"ready": false' in (process.get("/readyz") or "")
    assert '"live": true' in (process.get("/livez") or "")
    process.wait_for(
        lambda _: 'paused_partitions{reason="disk"} 1.0' in (process.get("/metrics") or ""),
        what="the metric of the alarm",
        timeout_seconds=30,
    )


@short_and_long(2, 20)
def test_a_full_disk_pauses_the_service_and_free_space_lets_it_go_on_without_a_restart(
    forge: Forge, make_stage: Callable[..., Stage], small_disk: Path, trials: Trials
) -> None:
    stage, ballast = make_stage(), small_disk / "ballast"
    stage.launch = small_runs.forged(forge)  # the disk is full in the middle of runs and merges
    filling = Filling(stage, ballast)
    filling.send()
    # Buffers so small that every other trial needs room for a table, and not for a log alone.
    memory = {"index_cache": "4Mi", "memtable": "1Mi"}
    index = {"path": str(small_disk / "state"), "seed_file": str(stage.directory / "seed")}
    process = stage.start(**SETTINGS, memory=memory, index=index)
    stage.drain(process)
    for rng in trials.of("24", "the disk of the index is full", seed=SEED):
        leave = rng.choice((0, rng.randrange(LEFT_BYTES_MAX)))
        detail = filling.until_paused(process, leave=leave)
        assert "free some space" in detail
        assert_told(process)
        file = re.search(r"\.(log|sst)|MANIFEST", detail)
        trials.saw(f"no room for {file[0] if file else 'another file'}")
        ballast.unlink()
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
def test_a_broker_that_died_of_a_full_disk_is_waited_for(make_stage, tmp_path, trials):
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
