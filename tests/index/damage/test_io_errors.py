"""The system refuses at the n-th call: the index stops or pauses, and what is left is a prefix.

`strace` makes a system call of the writing process fail, from its n-th time on or once. The
process must end by a fault of ours, and never continue. The next process finds whole batches
only, or reports the damage.
"""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from streamfilter.index.errors import IndexDamaged
from streamfilter.similarity.columns import Widths
from tests.index.damage.test_crash import CAP, batch, opened
from tests.index.plain_index import PlainIndex
from tests.index.samples import SLOTS
from tests.support.machine.strace import needs_strace
from tests.support.session.trials import short_and_long
from tests.support.texts import ROOT

WORKER = """
import os, sys
from pathlib import Path
from streamfilter.index.errors import DiskFull, IndexDamaged, IndexFault, IndexUnavailable
from tests.index.damage.test_crash import batch, opened
CODES = {IndexUnavailable: 75, DiskFull: 77, IndexDamaged: 78}
number, index = -1, None
try:
    index = opened(Path(sys.argv[1]))
    for number in range(index.progress.next_batch, 60):
        index.apply(batch(number))
        index.probe(batch(number).additions.keys)
except IndexFault as fault:
    sys.stderr.write(f"{type(fault).__name__}: {fault}")
    os._exit(CODES.get(type(fault), 70))
os._exit(0)
"""
CALLS = ("write", "fdatasync", "fsync", "openat", "pread64", "rename")
ERRORS = ("EIO", "ENOSPC")
SEED = 20_261_132


def fail_at(state: Path, call: str, error: str, nth: str) -> tuple[int, str]:
    """Run the worker with one failing call; return its exit code and what it said."""
    inject = f"inject={call}:error={error}:when={nth}"
    strace = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={call}", "-e", inject]
    only = ["-P", str(state / "rocksdb"), *_files(state)]
    command = [*strace, *only, "--", sys.executable, "-c", WORKER, str(state)]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    return done.returncode, done.stderr


def _files(state: Path) -> list[str]:
    """Name files that RocksDB is going to make: strace fails calls on these alone."""
    names = [f"{n:06d}.{kind}" for n in range(1, 200) for kind in ("log", "sst")]
    names += [f"MANIFEST-{n:06d}" for n in range(1, 60)] + ["CURRENT"]
    return [part for name in names for part in ("-P", str(state / "rocksdb" / name))]


def check_prefix(state: Path) -> int | None:
    """Return how many batches are there, None for reported damage; fail otherwise."""
    try:
        index = opened(state)
    except IndexDamaged:
        return None
    try:
        reached = index.progress.next_batch
        model = PlainIndex(Widths(SLOTS), bucket_cap=CAP)
        for number in range(reached):
            model.apply(batch(number))
        assert list(index.dump()) == list(model.dump())
        index.apply(batch(reached))  # and it can be worked with again
    finally:
        index.close()
    return reached


def trial(state: Path, call: str, error: str, nth: str) -> int:
    """Let one call fail; return the exit code, after all that must be true whatever it is."""
    code, told = fail_at(state, call, error, nth)
    what = f"{call} {error} {nth}: {code} {told}"
    assert code in (0, 75, 77, 78), what
    reached = check_prefix(state)
    assert code != 0 or reached == 60, f"it went on with a part: {what}"
    return code


@needs_strace
@pytest.mark.parametrize(
    ("call", "error", "nth", "code"),
    [("write", "EIO", "40+", 75), ("write", "ENOSPC", "40+", 77), ("fdatasync", "EIO", "1+", 75)],
)
def test_a_call_that_fails_stops_the_index_and_leaves_whole_batches(
    tmp_path: Path, call: str, error: str, nth: str, code: int
) -> None:
    assert trial(tmp_path / "state", call, error, nth) == code


@needs_strace
@short_and_long(3, 500)
def test_many_calls_that_fail_stop_the_index_and_leave_whole_batches(tmp_path, trials):
    for rng in trials.of("25", "a system call fails from its n-th time on", seed=SEED):
        nth = f"{int(2 ** rng.uniform(0, 8))}{rng.choice(('', '+'))}"
        call, error = rng.choice(CALLS), rng.choice(ERRORS)
        code = trial(tmp_path / "state", call, error, nth)
        trials.saw(f"exit code {code}")
        shutil.rmtree(tmp_path / "state")
    if trials.count >= 200:
        assert min(trials.seen["exit code 75"], trials.seen["exit code 77"]) > 10
