"""One story told over many lives of a filter, with something done to its files in between.

Whatever it is, the outputs and the index are those of a filter that nothing happened to.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from streamfilter.index.errors import IndexDamaged
from tests.kafka.story import (
    BATCH,
    STATIC,
    Settings,
    assert_as_undisturbed,
    finish,
    index_of,
    records,
    texts,
    wipe,
)
from tests.support.filter_process import FilterProcess
from tests.support.stage import Stage

BATCHES = 4
"""Of new records, in each life."""
RESTORED = "is removed and restored from"
"""What the log says of a damaged index."""


class Lives:
    """A stage, and the filter that is ended and started again on it."""

    def __init__(self, make_stage: Callable[..., Stage], lives: int, *, seed: int) -> None:
        self.stage = make_stage()
        self.state = self.stage.directory / "state"
        self._make_stage = make_stage
        self._story = records(texts(random.Random(seed), lives * BATCHES * BATCH))
        self.told = 0
        """Records that were produced."""

    def next(self, settings: Settings = STATIC, *, prefix: tuple[str, ...] = ()) -> FilterProcess:
        """Produce a life's records and start a filter, behind *prefix* if given."""
        begin, self.told = self.told, self.told + BATCHES * BATCH
        assert self.told <= len(self._story), "the story is too short"
        self.stage.produce(self._story[begin : self.told])
        return self.stage.start(prefix=prefix, **settings)

    def drained(self, process: FilterProcess, *, kill: bool) -> str:
        """Let *process* come to the end of the input, and end it; return its log."""
        self.stage.drain(process)
        if kill:
            process.kill()
        else:
            assert process.terminate() == 0, process.told("did not end well")
        return process.log.read_text()

    def judge(self) -> str:
        """Hold all that came out to an undisturbed run of the same records; return the last log."""
        said = finish(self.stage)
        try:
            index_of(self.stage)
        except IndexDamaged:  # in a block that no life has read: told now, by whoever reads it
            wipe(self.state)
            finish(self.stage)
        undisturbed = self._make_stage()
        undisturbed.produce(self._story[: self.told])
        finish(undisturbed)
        assert_as_undisturbed(self.stage, undisturbed)
        return said


def outcome(log: str) -> str:
    """Return what a life found of its files, as its log tells."""
    return "restored, and told" if RESTORED in log else "replayed, or not met"
