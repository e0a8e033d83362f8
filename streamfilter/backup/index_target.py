"""The backups of one index directory in one target, for a task: list, fetch, take."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from streamfilter.backup.download import BackupsFound, candidates, fetch
from streamfilter.backup.manifest import Copied
from streamfilter.backup.take import snapshot
from streamfilter.backup.targets import store_at
from streamfilter.backup.upload import Throttle, Uploaded, upload
from streamfilter.index.protocol import Index


@dataclass(frozen=True, slots=True)
class IndexTarget:
    """Where the index in the directory *path* has its backups."""

    where: str
    path: Path
    name: str  # of the index in a state directory: ``index`` or ``partition-N``
    ids: bool  # whether the index must find documents by their ids
    every: float  # seconds
    keep: int
    rate: int  # bytes a second

    def candidates(self, index_id: str) -> BackupsFound:
        """Return the whole backups of an index, or raise `IndexFault`."""
        return candidates(store_at(self.where), index_id)

    def fetch(
        self, copied: Copied, advanced: Callable[[int], None], stopping: Callable[[], bool]
    ) -> None:
        """Restore a backup into the directory, or leave no index there and raise `IndexFault`."""
        fetch(
            store_at(self.where), copied, self.path, Throttle(stopping=stopping, advanced=advanced)
        )

    def take(self, index: Index, stopping: Callable[[], bool]) -> Callable[[], Uploaded]:
        """Make a checkpoint of the open *index* now; return the call that uploads it."""
        checkpoint, copied = snapshot(index, self.path, self.name)

        def uploaded() -> Uploaded:
            try:
                throttle = Throttle(self.rate, stopping)
                return upload(store_at(self.where), checkpoint, copied, throttle, keep=self.keep)
            finally:
                if not stopping():  # else the index may be open again, with a copy of its own there
                    shutil.rmtree(checkpoint, ignore_errors=True)

        return uploaded
