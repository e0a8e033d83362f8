"""The state directory of a run over files: an index, kept or temporary.

    DIR/
      sources.json    the numbers of the inputs (`sources`)
      index/          the index, locked while a run has it open
      unfinished/     a copy of the index while a run with a retention limit is incomplete

Without a directory the index is in a temporary one, so memory is bounded in both cases.
"""

import json
import logging
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from functools import partial
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from streamfilter.assembly import index_for, retention_for
from streamfilter.collection.identity import wanted_identity
from streamfilter.config.configuration import Config
from streamfilter.files.outputs import AS_THEY_WERE
from streamfilter.index.directory.closed_copy import bring_back, copy_closed, is_whole
from streamfilter.index.directory.lock_and_marker import MARKER_NAME, refuse_link
from streamfilter.index.directory.seed_file import seed_at
from streamfilter.index.errors import DiskFull, IndexFault, IndexRefused, as_stop, file_errors
from streamfilter.index.protocol import Index
from streamfilter.stops import NoRoom, no_room

logger = logging.getLogger("streamfilter.filter")

UNFINISHED, RUN = "unfinished", "run.json"


class BegunRun(Struct, frozen=True):
    """The identity of a run."""

    inputs: Sequence[str]  # names of the inputs in the index
    began: int  # milliseconds since the epoch


class Unfinished:
    """The copy of the index that a state directory keeps for an unfinished run.

    If that run is run again, it starts from the same index and gives the same result. An index with
    a retention limit is not enough for that. It may have dropped windows that the lines were
    compared with, and the timestamp of a line is the start of its run. So such a run keeps a copy
    of the index (`index.directory.closed_copy`) until its outputs are complete, and `RUN`: its
    inputs and its start time.

    The copy is restored if the inputs are the same, also if other inputs follow them. With any
    other input the copy is dropped, and the index keeps the documents that the unfinished run has
    judged.
    """

    def __init__(self, state: Path, index: Path) -> None:
        """Read *state*; the *index* in it must not be open."""
        self._kept, self._index = state / UNFINISHED, index
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
                self._partial.mkdir(mode=0o700)
                copy_closed(self._index, self._partial)
                fields = {"inputs": [*run.inputs], "began": run.began}
                with (self._partial / RUN).open("x", encoding="utf-8") as file:
                    json.dump(fields, file)
                    file.flush()
                    os.fsync(file.fileno())
                self._partial.replace(self._kept)
        return run

    def _read(self) -> BegunRun | None:
        try:
            fields = json.loads((self._kept / RUN).read_bytes())
            return BegunRun([*fields["inputs"]], int(fields["began"]))
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return None  # no file, or one damaged by a power cut

    def finish(self) -> None:
        """Drop the copy, because the outputs of the run are published."""
        if self._kept.exists():
            self._kept.replace(self._partial)  # atomic: a partly removed copy must not be used
        shutil.rmtree(self._partial, ignore_errors=True)


DIRECTORY = "index"

WAYS = """
    ways out: go back to the settings it was built with (if format or scheme.algorithm differs: \
to the version of streamfilter that made it); or
    1. new memory: name another directory (--state), and run it over all inputs once more
    2. reset: delete this directory; everything counts as new"""


class OpenState(Struct):
    """An open index, and the data of its run."""

    index: Index
    seed: bytes
    began: int  # start of the run, or of the one that it repeats; milliseconds since the epoch
    finish: Callable[[], None] = lambda: None  # call this when all outputs are published


@contextmanager
def opened(
    config: Config, state: Path | None, *, seed: bytes | None = None, inputs: Sequence[str] = ()
) -> Iterator[OpenState]:
    """Yield the index in *state* (None: a temporary one) for a run over *inputs*, or raise `Stop`.

    The seed of a new index is *seed*, else the content of ``index.seed_file``, else random.
    """
    try:
        if state is not None:
            refuse_link(state)
            if os.path.exists(state / MARKER_NAME):  # ours beside it would be refused too
                raise IndexRefused(
                    f"{state}: is the index of a Deduplicator or a service; name another directory"
                )
            kept = retention_for(config)
            unfinished = Unfinished(state, state / DIRECTORY)
            run = unfinished.begin(
                BegunRun(inputs, _now()),
                forgets=kept.limited or kept.timed or config.input.updates,
                create=partial(_open, config, state / DIRECTORY, seed),
            )
            with _open(config, state / DIRECTORY, seed) as found:
                yield OpenState(*found, run.began, unfinished.finish)
        else:
            with (
                scratch() as directory,
                _open(config, directory / DIRECTORY, seed, temporary=True) as found,
            ):
                yield OpenState(*found, _now())
    except IndexFault as fault:
        stays = f"{AS_THEY_WERE}; {state} knows what was judged before"
        cure = "make room, and run it again with the same inputs: it writes the outputs whole"
        raise as_stop(fault, WAYS, stays=stays, cure=cure) from fault


def _now() -> int:
    return time.time_ns() // 1_000_000


@contextmanager
def _open(
    config: Config, path: Path, seed: bytes | None, *, temporary: bool = False
) -> Iterator[tuple[Index, bytes]]:
    place = index_for(config, path, seed=seed or seed_at(config.index.seed_file))
    place = replace(place, temporary=temporary)
    identity = wanted_identity(place.identity(), config.scheme(), seed=place.seed)
    with closing(place.open(identity)) as index:
        yield index, identity.seed


@contextmanager
def scratch() -> Iterator[Path]:
    """Yield a directory that is removed afterwards; raise `NoRoom` if its disk is full."""
    with tempfile.TemporaryDirectory(prefix="streamfilter-") as directory:
        try:
            yield Path(directory)
        except NoRoom as full:
            if directory not in full.fact:  # an output's disk is full, not this one
                raise
            raise _no_room(full.fact) from full
        except DiskFull as fault:
            raise _no_room(fault.fact) from fault
        except OSError as error:
            if not no_room(error):
                raise
            raise _no_room(f"{directory}: {error.strerror}") from error


def _no_room(fact: str) -> NoRoom:
    cure = "make room there, or set TMPDIR to a directory on another disk, and run it again"
    return NoRoom(fact, stays=AS_THEY_WERE, cure=cure)
