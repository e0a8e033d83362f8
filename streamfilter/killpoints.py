"""Kill points: a crash at a named line, so that crashes are test data.

``STREAMFILTER_KILL_POINT=transaction.committed:3`` makes the process send itself SIGKILL when it
passes that line for the third time: no cleanup runs, nothing is flushed, exactly as when the
machine takes it. With ``:3:stop`` it stops itself instead (SIGSTOP), as a machine that freezes,
until somebody lets it go on. Unset, a kill point is one comparison. The numbers are the steps of
the transactional loop (`engine/transactor.py`).
"""

from __future__ import annotations

import os
import signal

VARIABLE = "STREAMFILTER_KILL_POINT"

KILL_POINTS = (
    "start.given",  # before 1: inside the callback in which the group gives us a task
    "start.producer",  # 1 done: predecessor fenced, its open transaction ended
    "start.committed",  # 2 done
    "start.bounds",  # 3 done
    "start.identity",  # 4 done: nothing restored yet
    "restore.read",  # 5: a chunk was read, not applied
    "restore.applied",  # 5: a chunk was applied
    "start.assigned",  # 6 done
    "batch.consumed",  # 7 done
    "batch.member",  # 8 done
    "batch.decided",  # 9 done
    "transaction.begun",  # 10: nothing produced
    "transaction.producing",  # 10: half of the outputs produced
    "transaction.outputs",  # 10: outputs produced, changelog not
    "transaction.produced",  # 10: everything produced, not flushed
    "transaction.flushed",  # 10 done
    "transaction.offsets",  # 11 done
    "transaction.committed",  # 12 done, 13 not
    "forget.begun",  # 13: of a batch that forgets documents, nothing is written
    "window.begun",  # 13: the next window's families are there, nothing is written
    "window.written",  # 13: which windows are alive is written; those that are not are still there
    "index.applied",  # 13 done
    "window.dropped",  # a part of a window that is gone was dropped: one with each later batch
    "changelog.trimmed",  # what restores a window that is gone was cut off
    "window.prepared",  # the next window's families were made ahead of the batch that begins it
    "transaction.aborted",  # an abortable error was answered
    "close.revoked",  # inside the callback in which the group takes a task
    "close.begun",
    "close.done",
)

_name, _nth, _how, *_ = (*os.environ.get(VARIABLE, "").split(":"), "", "")
if _name and _name not in KILL_POINTS:
    raise SystemExit(f"{VARIABLE}={_name}: no such kill point; known: {', '.join(KILL_POINTS)}")
if _how not in ("", "stop"):
    raise SystemExit(f"{VARIABLE}: {_how!r} is not how to die; use POINT, POINT:N or POINT:N:stop")
_left = int(_nth or 1)


def kill_point(name: str) -> None:
    """Die or stop here if the environment says so; otherwise do nothing."""
    global _left
    if name != _name:
        return
    _left -= 1
    if _left == 0:
        os.kill(os.getpid(), signal.SIGSTOP if _how == "stop" else signal.SIGKILL)
