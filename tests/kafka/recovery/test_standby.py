"""A standby is up to date before it is needed, and never says anything that is not so."""

import random
import re
from collections.abc import Callable

from tests.kafka.recovery.test_takeover import SETTINGS, replayed
from tests.kafka.story import records, texts, verdicts
from tests.support.filter_process import FilterProcess
from tests.support.stage import Stage

SEED = 20_261_129
RESTORES = re.compile(r"restores (\d+) changelog offsets")


def scraped(process: FilterProcess, name: str) -> float:
    """Return one value of /metrics; -1 while nothing answers."""
    body = process.get("/metrics") or ""
    found = re.search(rf"^streamfilter_{name} (\S+)$", body, re.MULTILINE)
    return float(found[1]) if found else -1.0


def wait_until_abreast(worker: FilterProcess, waiting: FilterProcess) -> None:
    """Return when the standby's index has applied what the worker's has, and is not behind."""
    waiting.wait_for(
        lambda s: (
            scraped(waiting, "changelog_offset") == scraped(worker, "changelog_offset") >= 0
            and s["restore_remaining_records"] == 0
            and s["index_documents"] == worker.status()["index_documents"] > 0
        ),
        what="a standby that is abreast of the worker",
    )
    assert waiting.status()["state"] == "standby"


def restored(process: FilterProcess) -> list[int]:
    """Return how many changelog offsets each start of the process's task had still to read."""
    return [int(count) for count in RESTORES.findall(process.log.read_text())]


def test_a_standby_has_read_everything_before_it_takes_over_and_judges_as_one_process_would(
    make_stage: Callable[..., Stage],
) -> None:
    stage = make_stage(partitions=2)
    stories = texts(random.Random(SEED), 450)
    thirds = [
        records(stories[first : first + 150], partitions=2, first=first) for first in (0, 150, 300)
    ]
    stage.produce(thirds[0])
    # The session of the first would outlast each wait here: it leaves the group as it ends.
    times = SETTINGS["kafka"] | {"session_timeout": "5m"}
    worker = stage.start(state="one", **SETTINGS | {"kafka": times})
    worker.wait_for_state("running")
    waiting = stage.start(state="another", **SETTINGS)
    stage.drain(worker)
    wait_until_abreast(worker, waiting)
    assert worker.status()["owners"] == {}
    assert list(waiting.status()["owners"].values()) == [worker.status()["instance"]]
    assert worker.terminate() == 0
    assert "stopped; everything taken is committed" in worker.log.read_text()
    stage.produce(thirds[1])
    stage.drain(waiting)
    # The record that it knows, and the markers behind it: nothing else was left to read.
    assert restored(waiting)[0] <= 3, waiting.with_log("had not read the changelog before")
    third = stage.start(state="third", **SETTINGS)
    wait_until_abreast(waiting, third)
    assert list(third.status()["owners"].values()) == [waiting.status()["instance"]]
    waiting.kill()
    stage.produce(thirds[2])
    stage.drain(third)
    assert restored(third)[0] <= 3, third.with_log("had not read the changelog before")
    assert third.terminate() == 0
    found = verdicts(stage)
    assert len(found) == 450
    assert found == replayed(make_stage, stage)
