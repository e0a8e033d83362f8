"""What happens to the state of a running service: damage, a full disk, too few descriptors."""

import random
import re
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from streamfilter.kafka.broker.child import Child
from tests.kafka.story import records, texts, verdicts
from tests.kafka.test_takeover import SETTINGS, replayed
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


def test_an_index_with_broken_blocks_is_restored_loudly_and_misjudges_nothing(
    make_stage: Callable[..., Stage],
) -> None:
    stage = make_stage(partitions=2)
    stories = texts(random.Random(SEED), 400)
    stage.produce(records(stories[:250], partitions=2))
    process = stage.start(**SETTINGS)
    stage.drain(process)
    assert process.terminate() == 0
    damage(stage.directory / "state", random.Random(SEED))
    process = stage.start(**SETTINGS)
    stage.produce(records(stories[250:], partitions=2, first=250))
    stage.drain(process)
    assert "is removed and restored from" in process.log.read_text()
    assert process.terminate() == 0
    assert verdicts(stage) == replayed(make_stage, stage)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 24 MiB."""
    path = tmp_path / "disk"
    path.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=24m", "none", str(path)]
    try:
        done = subprocess.run(command, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        done = False
    if not done:
        pytest.skip("needs the right to mount a file system of a few megabytes")
    yield path
    subprocess.run(["umount", "-l", str(path)], check=True)


def fill(ballast: Path) -> None:
    with ballast.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(1 << 12))


def test_a_full_disk_pauses_the_service_and_free_space_lets_it_go_on_without_a_restart(
    make_stage: Callable[..., Stage], small_disk: Path
) -> None:
    stage = make_stage()
    stories = texts(random.Random(SEED + 1), 400)
    stage.produce(records(stories[:100]))
    memory = {"index_cache": "4Mi", "memtable": "4Mi"}
    index = {"path": str(small_disk / "state"), "seed_file": str(stage.directory / "seed")}
    process = stage.start(**SETTINGS, memory=memory, index=index)
    stage.drain(process)
    ballast = small_disk / "ballast"
    with pytest.raises(OSError, match="No space"):
        fill(ballast)
    stage.produce(records(stories[100:], first=100))
    status = process.wait_for_state("paused:disk", timeout_seconds=30)
    assert "free some space" in status["detail"]
    assert '"ready": false' in (process.get("/readyz") or "")
    assert '"live": true' in (process.get("/livez") or "")
    ballast.unlink()
    stage.drain(process)
    assert process.status()["state"] == "running"
    assert process.terminate() == 0
    assert verdicts(stage) == replayed(make_stage, stage)


def with_descriptors(stage: Stage, count: int) -> FilterProcess:
    """Start a filter that may open *count* files."""
    config = stage.configuration(**SETTINGS)
    process = FilterProcess.__new__(FilterProcess)
    port = re.search(r'"port": (\d+)', config.read_text())
    assert port is not None
    process.url = f"http://127.0.0.1:{port[1]}"
    process.log = config.with_suffix(".log")
    run = [sys.executable, "-m", "streamfilter.cli", "run", "--config", str(config)]
    process.child = Child(["prlimit", f"--nofile={count}:{count}", *run], log=process.log)
    stage.processes.append(process)
    return process


def test_256_descriptors_are_enough_and_too_few_are_a_clear_end(stage: Stage) -> None:
    stories = texts(random.Random(SEED + 2), 200)
    stage.produce(records(stories))
    process = with_descriptors(stage, 256)
    stage.drain(process)
    assert process.terminate() == 0
    assert len(verdicts(stage)) == 200
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 256
    starved = with_descriptors(stage, 24)
    assert starved.wait_for_exit() == 78, starved.told("ended otherwise")
    assert "this process may open 24 files; expected at least 128" in starved.log.read_text()
