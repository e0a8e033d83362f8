"""From a log's error to the end of the process, for where nobody can go on from it."""

from __future__ import annotations

from streamfilter.engine.ports import Denied, Fenced, InputLost, LogError, Retriable
from streamfilter.stops import ExitCode, Refused, Stop, Temporary
from streamfilter.stops import Fenced as FencedStop


def as_stop(error: LogError) -> Stop:
    """Return *error* as the end of the process, for where nobody can go on from it."""
    if isinstance(error, Retriable):
        return Temporary(f"{error}; the broker may be away: try again later")
    if isinstance(error, Denied):
        return Refused(f"{error}; grant this right or mend the credentials")
    if isinstance(error, Fenced):
        return FencedStop(f"{error}; another process has our place")
    if isinstance(error, InputLost):
        return Stop(str(error), exit_code=ExitCode.CONFIG)
    return Stop(str(error))
