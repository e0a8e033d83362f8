"""Takes the input over from another group, in one transaction (`input.take_over`).

    1   fence the old group: open a producer with its transactional id. Its open transaction ends
    2   read its committed offsets, after a check that they fit its changelog
    3   commit under that id: a successor record in its changelog, and a batch in ours that judges
        nothing and has its positions; with the same offsets for our group

Each record is judged by exactly one of the two groups. A kill before the commit leaves the old
group as it was, and it may go on. After the commit its next start reads the successor record, and
refuses. If a process of it starts between 1 and 3, it fences our producer, and nothing is taken.

Our start begins again after 3, and finds the successor record. So a repeated call takes nothing.
If the new group's own changelog ends with the name of the old one, the input comes back.

Example: the old group has judged a/0 up to 70. Its changelog becomes [… batch 9, successor "new"],
and ours [header, batch 0 at 0, document 1, batch 1 of a seed, batch 2 at 70].
"""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from streamfilter.engine import start_checks
from streamfilter.engine.messages.changelog import Update
from streamfilter.engine.messages.changelog_header import Header, Successor
from streamfilter.engine.parts import Parts
from streamfilter.engine.ports import Predecessor
from streamfilter.engine.task_position import TaskPosition
from streamfilter.engine.transaction import Load, Transactions
from streamfilter.engine.writer_check import WriterCheck
from streamfilter.killpoints import kill_point
from streamfilter.matching.blocking.retention import EVERYTHING
from streamfilter.model import SEEDS_FROM
from streamfilter.process.health import State
from streamfilter.tasks.index_storage import Opened
from streamfilter.tasks.plan import Plan, Script, patiently, tried


def fenced(before: Predecessor | None) -> Script[None]:
    """Do step 1, if there is a group *before*: its open transaction may also be our last try."""
    if before is not None:
        yield from patiently(State.STARTING, before.sink.open)
        kill_point("takeover.fenced")


class TakingOver:
    """One start's steps 2 and 3."""

    def __init__(
        self, plan: Plan, parts: Parts, opened: Opened, position: TaskPosition,
        *, successor: Successor | None,
    ) -> None:  # fmt: skip
        """Prepare them; our own changelog ends with a *successor*, or not."""
        self._plan, self._parts, self._index = plan, parts, opened.index
        self._id, self._own, self._successor = opened.identity.index_id, position, successor

    def position(self) -> Script[TaskPosition | None]:
        """Return the position to take; None: there is nothing to take. Raises `Refusal`."""
        plan, parts, own = self._plan, self._parts, self._own
        before, names, successor = plan.predecessor, plan.names, self._successor
        if parts.seeds is not None:
            return None
        if successor and (before is None or before.group != successor.group):
            raise start_checks.refuse_succeeded(names, successor.group)
        if before is None:
            return None
        ours = sorted(number for number in own.known if number < SEEDS_FROM)
        taken = yield from patiently(State.STARTING, before.positions, ours)
        if taken is None:
            before.sink.close()
            return None
        if not successor and self._has_judged():
            raise start_checks.refuse_judged(names, before.group)
        kill_point("takeover.read")
        progress = replace(own.progress, positions=own.known | taken)
        return replace(own, positions=own.positions | taken, progress=progress)

    def _has_judged(self) -> bool:
        known = {n: at for n, at in self._own.known.items() if n < SEEDS_FROM}
        last = {number: offset - 1 for number, offset in known.items() if offset > 0}
        numbers, offsets = (np.array([*each], np.int64) for each in (last, last.values()))
        return any(mark is not None for mark in self._index.marks_covering(numbers, offsets))

    def take(
        self, taken: TaskPosition, writer_check: WriterCheck, header: Header | None
    ) -> Script[None]:
        """Do step 3. The caller starts again.

        A *header* opens a changelog that is empty, or numbers further partitions.
        """
        parts, before = self._parts, self._plan.predecessor
        assert before is not None
        rest = EVERYTHING if header and not header.anew else parts.retention.rest(self._index)
        _, batch = taken.opened(rest)
        update = Update.encoded(batch, header)
        load = Load(taken.positions, leaving=[before.farewell(self._id)], update=update)
        transactions = Transactions(replace(parts, sink=before.sink), writer_check)
        while not (yield from tried(parts, transactions, load)):
            pass
        kill_point("takeover.done")
        before.sink.close()
        places = self._plan.names.places(taken.positions)
        parts.observer.process.loudly(f"took over from the group {before.group} at {places}")
