"""Runs that did not finish: run again, they begin where they began, with the same result.

    DIR/unfinished/
      index.json, rocksdb/    the index as it was when the run began (`index.closed_copy`)
      run.json                its inputs, and when it began

An index that forgets is not enough to run it again. What its lines met may be gone by then, window
by window, and lines count as come when their run began. So such a run leaves a copy of the index
until its outputs are complete. The same inputs bring it back, also with others behind them. With
any other input the copy is dropped, and the index knows what the unfinished run has judged.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from streamfilter.index.closed_copy import bring_back, copy_closed, is_whole
from streamfilter.index.errors import file_errors

logger = logging.getLogger("streamfilter.filter")

DIRECTORY, RUN = "unfinished", "run.json"


@dataclass(frozen=True, slots=True)
class BegunRun:
    """What a run is known by."""

    inputs: Sequence[str]
    """As the index knows them."""
    began: int
    """Milliseconds since the epoch."""


class Unfinished:
    """The copy that one state directory keeps of an unfinished run."""

    def __init__(self, state: Path, index: Path) -> None:
        """Look into *state*; the *index* in it is not open."""
        self._kept, self._index = state / DIRECTORY, index
        self._partial = self._kept.with_suffix(".partial")

    def begin(self, run: BegunRun, *, forgets: bool, create: Callable[[], None]) -> BegunRun:
        """Begin *run*; return the one that did not finish if this is the same.

        Of an index that *forgets*, and that *create* makes if there is none, a copy is kept until
        `finish`.
        """
        with file_errors(self._kept):
            shutil.rmtree(self._partial, ignore_errors=True)
            before = self._read()
            same = before is not None and [*run.inputs[: len(before.inputs)]] == [*before.inputs]
            if before is not None and (same or not is_whole(self._index)):
                bring_back(self._kept, self._index)
            if before is not None and same:
                logger.info("the last run over these inputs did not finish: it begins again")
                return before
            self.finish()
            if forgets:
                create()
                self._keep(run)
        return run

    def _read(self) -> BegunRun | None:
        try:
            fields = json.loads((self._kept / RUN).read_bytes())
            return BegunRun([*fields["inputs"]], int(fields["began"]))
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return None  # nothing, or what a power cut left of it

    def _keep(self, run: BegunRun) -> None:
        self._partial.mkdir(mode=0o700)
        copy_closed(self._index, self._partial)
        fields = {"inputs": [*run.inputs], "began": run.began}
        with (self._partial / RUN).open("x", encoding="utf-8") as file:
            json.dump(fields, file)
            file.flush()
            os.fsync(file.fileno())
        self._partial.replace(self._kept)

    def finish(self) -> None:
        """Drop the copy: the outputs of the run are there."""
        if self._kept.exists():
            self._kept.replace(self._partial)  # at once: what is half dropped is no copy
        shutil.rmtree(self._partial, ignore_errors=True)
