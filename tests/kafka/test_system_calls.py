"""Row 5: SIGKILL as a running filter enters a write to its index's log, on real Kafka."""

from __future__ import annotations

from collections.abc import Callable

from tests.kafka.lives import BATCHES, Lives
from tests.support.stage import Stage
from tests.support.strace import killed_in_write, needs_strace
from tests.support.trials import Trials, short_and_long

SEED = 20_261_143


@needs_strace
@short_and_long(2, 125)
def test_kills_inside_of_a_write_to_the_index_change_nothing(
    make_stage: Callable[..., Stage], trials: Trials
) -> None:
    lives = Lives(make_stage, trials.count, seed=SEED)
    for rng in trials.of("5", "killed inside of the n-th write to the log", seed=SEED):
        nth = rng.randint(1, BATCHES)  # each batch is a write, so as many there surely are
        process = lives.next(prefix=killed_in_write(lives.state / "rocksdb", nth))
        code = process.wait_for_exit(timeout_seconds=240)
        assert code == -9, process.told(f"did not die in write {nth}")
        trials.saw(f"killed in write {nth}")
    lives.judge()
