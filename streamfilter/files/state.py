"""The state directory of a run over files: an index, kept or temporary.

    DIR/
      sources.json    the numbers of the inputs (`sources`)
      index/          the index, locked while a run has it open
      unfinished/     a copy of the index while a run with a retention limit is incomplete
                      (`resume`)

Without a directory the index is in a temporary one, so memory is bounded in both cases.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from streamfilter.assembly import index_for, retention_for
from streamfilter.collection.identity import wanted_identity
from streamfilter.config.configuration import Config
from streamfilter.files.outputs import AS_THEY_WERE
from streamfilter.files.resume import BegunRun, Unfinished
from streamfilter.index.directory.lock_and_marker import MARKER_NAME, refuse_link
from streamfilter.index.directory.seed_file import seed_at
from streamfilter.index.errors import DiskFull, IndexFault, IndexRefused, as_stop
from streamfilter.index.protocol import Index
from streamfilter.stops import NoRoom, no_room

DIRECTORY = "index"

WAYS = """
    ways out: go back to the settings it was built with (if format or scheme.algorithm differs: \
to the version of streamfilter that made it); or
    1. new memory: name another directory (--state), and run it over all inputs once more
    2. reset: delete this directory; everything counts as new"""


@dataclass(slots=True)
class OpenState:
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
            with scratch() as directory, _open(config, directory / DIRECTORY, seed) as found:
                yield OpenState(*found, _now())
    except IndexFault as fault:
        stays = f"{AS_THEY_WERE}; {state} knows what was judged before"
        cure = "make room, and run it again with the same inputs: it writes the outputs whole"
        raise as_stop(fault, WAYS, stays=stays, cure=cure) from fault


def _now() -> int:
    return time.time_ns() // 1_000_000


@contextmanager
def _open(config: Config, path: Path, seed: bytes | None) -> Iterator[tuple[Index, bytes]]:
    place = index_for(config, path, seed=seed or seed_at(config.index.seed_file))
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
