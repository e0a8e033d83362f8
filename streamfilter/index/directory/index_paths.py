"""The index directories of a state directory.

`filter --state DIR` keeps one in ``DIR/index``; the service and a `Deduplicator` keep theirs in
``DIR`` itself, and with ``index.scope: partition`` in ``DIR/partition-N``.
"""

from pathlib import Path

from streamfilter.index.directory.lock_and_marker import MARKER_NAME, PARTITION
from streamfilter.index.errors import IndexRefused, file_errors


def index_of(state: Path, task: int, *, whole: bool) -> Path:
    """Return where the service keeps the index of a task; *whole*: there is only one."""
    return state if whole else state / f"{PARTITION}{task}"


def indexes_in(state: Path) -> list[Path]:
    with file_errors(state):
        candidates = [state, state / "index"]
        if state.is_dir():
            candidates += sorted(
                state.glob(f"{PARTITION}*"), key=lambda each: (len(each.name), each)
            )
        found = [path for path in candidates if (path / MARKER_NAME).is_file()]
    if not found:
        raise IndexRefused(
            f"{state}: there is no index here\n    cure: name the directory of filter --state, of "
            "a Deduplicator, or the service's index.path, on the machine where it runs"
        )
    return found
