"""Rows 26, 27 and 29 on real runs: the files of an index spoilt between two lives of a filter.

Each trial spoils what the life before left; the next life has to notice, or to replay what is
missing, and goes on with new records. After all of them outputs and index are as if nothing had
happened, byte for byte.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

from tests.index.samples import as_a_kill_leaves_it
from tests.index.test_torn_logs import FAULTS, logs_of
from tests.kafka.lives import BATCHES, Lives, outcome
from tests.kafka.story import BATCH, wipe
from tests.support.filter_process import FilterProcess
from tests.support.stage import Stage
from tests.support.trials import Trials, short_and_long

SEED = 20_261_141


def cut(file: Path, rng: random.Random) -> None:
    file.write_bytes(file.read_bytes()[: rng.randrange(file.stat().st_size)])


def flip(file: Path, rng: random.Random) -> None:
    data = bytearray(file.read_bytes())
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    file.write_bytes(data)


def delete(file: Path, _: random.Random) -> None:
    file.unlink()


SPOILS = [
    (what, pattern)
    for pattern in ("*.sst", "MANIFEST-*", "CURRENT")
    for what in (flip, cut, delete)
]


@short_and_long(3, 100)
def test_spoilt_tables_and_manifests_are_told_and_change_nothing(
    make_stage: Callable[..., Stage], trials: Trials
) -> None:
    lives = Lives(make_stage, trials.count + 1, seed=SEED)
    lives.drained(lives.next(), kill=False)
    for number, rng in enumerate(trials.of("26", "files of a real run", seed=SEED)):
        what, pattern = SPOILS[4 * number % len(SPOILS)]
        what(rng.choice(sorted((lives.state / "rocksdb").glob(pattern))), rng)
        said = outcome(lives.drained(lives.next(), kill=False))
        trials.saw(f"{pattern} {what.__name__}: {said}")
        assert (what, pattern) != (delete, "CURRENT") or said == "restored, and told"
    lives.judge()


def copied_meanwhile(lives: Lives, process: FilterProcess, rng: random.Random) -> Path:
    """Copy the directory as soon as some of this life's records were committed."""
    wanted = lives.told - rng.randrange(1, BATCHES + 1) * BATCH
    process.wait_for(
        lambda status: sum(status.get("positions", {}).values()) >= wanted, what="some progress"
    )
    copy = lives.stage.directory / "copy"
    wipe(copy)
    return as_a_kill_leaves_it(lives.state, copy)


@short_and_long(3, 100)
def test_torn_and_lost_logs_and_power_cuts_are_replayed_from_the_changelog(
    make_stage: Callable[..., Stage], trials: Trials
) -> None:
    lives = Lives(make_stage, trials.count + 1, seed=SEED + 1)
    lives.drained(lives.next(), kill=True)
    for number, rng in enumerate(trials.of("27, 29", "logs of a real run", seed=SEED + 1)):
        fault = FAULTS[number % len(FAULTS)]
        if logs := logs_of(lives.state):
            fault(logs, rng)
        process = lives.next()
        copy = copied_meanwhile(lives, process, rng) if number % 3 == 2 else None
        trials.saw(f"{fault.__name__}: {outcome(lives.drained(process, kill=True))}")
        if copy is not None:  # the power went when the copy was made
            wipe(lives.state)
            shutil.move(copy, lives.state)
    lives.judge()
