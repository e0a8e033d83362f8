"""Unfinished runs: if run again, they start from the same index and give the same result.

    DIR/unfinished/
      index.json, rocksdb/    the index as it was when the run began (`index.directory.closed_copy`)
      run.json                the inputs of the run, and its start time

An index with a retention limit is not enough to repeat a run. It may have dropped windows that the
lines were compared with, and the timestamp of a line is the start of its run. So such a run keeps
a copy of the index until its outputs are complete.

The copy is restored if the inputs are the same, also if other inputs follow them. With any other
input the copy is dropped, and the index keeps the documents that the unfinished run has judged.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from streamfilter.index.directory.closed_copy import bring_back, copy_closed, is_whole
from streamfilter.index.errors import file_errors

logger = logging.getLogger("streamfilter.filter")

DIRECTORY, RUN = "unfinished", "run.json"


@dataclass(frozen=True, slots=True)
class BegunRun:
    """The identity of a run."""

    inputs: Sequence[str]  # names of the inputs in the index
    began: int  # milliseconds since the epoch


class Unfinished:
    """The copy of the index that a state directory keeps for an unfinished run."""

    def __init__(self, state: Path, index: Path) -> None:
        """Read *state*; the *index* in it must not be open."""
        self._kept, self._index = state / DIRECTORY, index
        self._partial = self._kept.with_suffix(".partial")

    def begin(
        self, run: BegunRun, *, forgets: bool, create: Callable[[], AbstractContextManager[object]]
    ) -> BegunRun:
        """Begin *run*; if it repeats an unfinished run, return that one.

        If the index *forgets* documents, a copy of it is kept until `finish`. *create* opens the
        index, and makes a missing one.
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
                with create():
                    pass
                self._keep(run)
        return run

    def _read(self) -> BegunRun | None:
        try:
            fields = json.loads((self._kept / RUN).read_bytes())
            return BegunRun([*fields["inputs"]], int(fields["began"]))
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return None  # no file, or one damaged by a power cut

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
        """Drop the copy, because the outputs of the run are published."""
        if self._kept.exists():
            self._kept.replace(self._partial)  # atomic: a partly removed copy must not be used
        shutil.rmtree(self._partial, ignore_errors=True)
