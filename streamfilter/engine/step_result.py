"""How a step of a task's work ended, for the code that decides when the next one comes."""

from __future__ import annotations

from enum import Enum


class StepResult(Enum):
    """How a step of the loop ended."""

    STARTED = "started"  # a piece of a task's start is done; no record was moved
    MOVED = "moved"
    IDLE = "idle"
    RETRY = "retry"  # no transaction was committed: poll the membership, then step again
    DISK_FULL = "disk full"  # committed, but not written: only the write may be tried again
    SCHEMAS_AWAY = "schemas away"  # the batch waits, no transaction was begun
    TRIPPED = "tripped"  # the dead-letter breaker has tripped: no records are taken
    REPLACE = "replace"  # moved, but the producer must be replaced before the next transaction
