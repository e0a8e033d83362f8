"""What was tried, how often, and what came of it: the figures of a run."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from tests.faults.standstill import Standstill

ROWS = {
    1: "killed after the poll",
    2: "killed after begin",
    3: "killed in the middle of produce",
    4: "killed before the state is written",
    5: "killed while runs are written and merged",
    6: "killed after the state is written",
    7: "killed after send_offsets",
    8: "commit sent, reply lost, then killed",
    9: "killed after the commit",
    10: "killed in start, restore or close",
    11: "killed in a callback of the group, or at any moment",
    12: "SIGTERM or SIGINT at any moment",
    13: "SIGSTOP for longer than the session, then SIGCONT",
    14: "broker killed and restarted",
    15: "one of three brokers killed or bounced",
    16: "broker stopped for a while",
    17: "network cut, swallowed, one-way, slow, half-closed",
    18: "cut off from one of three brokers",
    19: "a late EndTxn",
    20: "joins, leaves and kills in one group",
    21: "a double with the same transactional id",
    22: "stopped inside a transaction while the group moves on",
    23: "state moved to a worker without it",
    24: "a full disk that has room again",
    49: "a quota that comes and goes",
    52: "a worker process killed",
    59: "killed while a backup is taken or restored",
    60: "an edge or a judge killed",
    61: "sketch ranges deleted before they were used",
}
POINTS = {
    "batch.consumed": (1,),
    "batch.member": (1,),
    "batch.decided": (1, 4),
    "transaction.begun": (2,),
    "transaction.producing": (3,),
    "transaction.outputs": (3,),
    "transaction.produced": (3,),
    "transaction.flushed": (3,),
    "transaction.offsets": (7,),
    "transaction.committed": (4, 9),
    "forget.begun": (4, 9),
    "window.begun": (4, 9),
    "window.written": (6, 9),
    "run.piece": (5,),
    "run.listed": (5,),
    "merge.piece": (5,),
    "merge.listed": (5,),
    "merge.removed": (5,),
    "index.applied": (6, 9),
    "window.dropped": (6,),
    "changelog.trimmed": (6,),
    "window.prepared": (6,),
    "transaction.aborted": (11,),
    "start.given": (11,),
    "start.producer": (10,),
    "start.committed": (10,),
    "start.bounds": (10,),
    "start.identity": (10,),
    "start.assigned": (10,),
    "restore.read": (10,),
    "restore.applied": (10,),
    "backup.file": (59,),
    "backup.uploaded": (59,),
    "backup.published": (59,),
    "backup.pruned": (59,),
    "backup.deleted": (59,),
    "backup.begun": (59,),
    "backup.fetched": (59,),
    "backup.restored": (59,),
    "close.revoked": (11,),
    "close.begun": (10,),
    "close.done": (10,),
}
"""Kill points, and the rows of the matrix that a death there is a trial of."""


@dataclass(slots=True)
class Tally:
    """Counts."""

    trials: Counter[int] = field(default_factory=Counter)
    """By row."""
    faults: Counter[str] = field(default_factory=Counter)
    """By the fault's own name."""
    exits: Counter[int] = field(default_factory=Counter)
    kills: int = 0
    """Processes that ended by SIGKILL."""
    findings: list[str] = field(default_factory=list)
    records: int = 0
    """Judged by the oracle."""
    standstill: Standstill = field(default_factory=Standstill)
    """The longest time without a committed record, while faults come one after the other."""
    recovery: Standstill = field(default_factory=Standstill)
    """The longest time without one since the last fault."""

    def count(self, name: str, rows: tuple[int, ...]) -> None:
        self.faults[name] += 1
        self.trials.update(rows)

    def add(self, other: Tally) -> None:
        self.trials += other.trials
        self.faults += other.faults
        self.exits += other.exits
        self.kills += other.kills
        self.records += other.records
        self.findings += other.findings
        self.standstill = max(self.standstill, other.standstill)
        self.recovery = max(self.recovery, other.recovery)

    def as_json(self) -> dict[str, Any]:
        return {
            "kills": self.kills,
            "records": self.records,
            "findings": self.findings,
            "longest_standstill_seconds": round(self.standstill.seconds, 1),
            "processor_share_in_standstill": round(self.standstill.processor_share, 3),
            "longest_recovery_seconds": round(self.recovery.seconds, 1),
            "processor_share_in_recovery": round(self.recovery.processor_share, 3),
            "rows": {
                str(row): {"fault": ROWS[row], "trials": self.trials[row]}
                for row in sorted(self.trials)
            },
            "faults": dict(sorted(self.faults.items())),
            "exit_codes": {str(code): n for code, n in sorted(self.exits.items())},
        }
