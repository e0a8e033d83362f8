"""Kill points: tests can crash the process at a named line.

``STREAMFILTER_KILL_POINT=transaction.committed:3`` makes the process send itself SIGKILL when it
passes that line for the third time. No cleanup runs and nothing is flushed, as in a kill by the
system. With ``:3:stop`` it sends itself SIGSTOP, as if the machine froze, until it gets SIGCONT.
If the variable is not set, a kill point costs one comparison. The numbers below are the steps of
the transactional loop (`engine/transactor.py`).
"""

import os
import signal

VARIABLE = "STREAMFILTER_KILL_POINT"

KILL_POINTS = (
    "start.given",  # before 1: inside the callback in which the group assigns a task
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
    "forget.begun",  # 13: a batch that forgets documents: nothing is written
    "window.begun",  # 13: the next window's families exist, nothing is written
    "window.written",  # 13: the list of live windows is written; expired ones still exist
    "run.piece",  # 13: pages of a full run are written; the list of runs does not name it
    "run.listed",  # 13: the list names it, and the rows of its writes are deleted
    "merge.piece",  # 13: pages of a merge of runs are written; the list names its sources
    "merge.listed",  # 13: the list names the merged run; the rows of its sources still exist
    "merge.removed",  # 13: these rows are deleted
    "index.applied",  # 13 done
    "window.dropped",  # a part of an expired window was dropped: one part with each later batch
    "changelog.trimmed",  # the changelog records of an expired window were deleted
    "window.prepared",  # the next window's families were created before the batch that begins it
    "transaction.aborted",  # after an abortable error
    "backup.file",  # a file of a backup was uploaded
    "backup.uploaded",  # all files of a backup were uploaded, its manifest not
    "backup.published",  # the manifest was uploaded; it is not checked, nothing is pruned
    "backup.pruned",  # the manifest of an old backup was deleted, its files not
    "backup.deleted",  # a file of an old backup was deleted
    "backup.begun",  # a restore made the directory; no file is in it
    "backup.fetched",  # a restore has downloaded one more file
    "backup.restored",  # a restore has downloaded all files; they do not count as an index yet
    "takeover.fenced",  # `run --take-over`: the old group's processes are fenced
    "takeover.read",  # its positions are read; one transaction follows, which takes them
    "takeover.done",  # that transaction is committed
    "close.revoked",  # inside the callback in which the group revokes a task
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
    """Kill or stop the process here if the environment says so; otherwise do nothing."""
    global _left
    if name != _name:
        return
    _left -= 1
    if _left == 0:
        os.kill(os.getpid(), signal.SIGSTOP if _how == "stop" else signal.SIGKILL)
