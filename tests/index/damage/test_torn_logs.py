"""Logs that are torn, flipped, emptied or gone: an older whole prefix, or damage that is reported.

The states are those of a process with small buffers, copied as it works: up to four logs at a
time, for each family is flushed on its own. A log that is gone from their middle is the worst:
RocksDB replays what is behind it (seen: the newest progress with documents missing before it).
"""

import random
import shutil
from pathlib import Path

import pytest

from streamfilter.index.errors import IndexDamaged, IndexFault
from streamfilter.index.rocks.wal_gaps import (
    BATCH_HEAD,
    BLOCK_BYTES,
    FIRST,
    FRAGMENT_HEAD,
    FULL,
    LAST,
    STAMP,
    written,
)
from tests.index.damage.test_crash import batch, opened
from tests.index.damage.test_io_errors import check_prefix
from tests.index.samples import as_a_kill_leaves_it
from tests.support.session.trials import short_and_long

pytestmark = pytest.mark.slow

SEED = 20_261_140
BATCHES = (30, 150, 260)
"""Applied when a copy is made: with one log, two, and up to four."""


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Directories as a kill leaves them, with more and more logs."""
    path = tmp_path_factory.mktemp("killed")
    index, copies = opened(path / "state"), []
    for number in range(max(BATCHES)):
        index.apply(batch(number))
        if number + 1 in BATCHES:
            copies.append(as_a_kill_leaves_it(path / "state", path / f"copy-{number}"))
    index.close()
    return copies


def logs_of(state: Path) -> list[Path]:
    """Return the logs that hold something, oldest first."""
    found = (state / "rocksdb").glob("*.log")
    return sorted((log for log in found if log.stat().st_size), key=lambda log: int(log.stem))


def delete(logs: list[Path], rng: random.Random) -> None:
    rng.choice(logs).unlink()


def empty(logs: list[Path], rng: random.Random) -> None:
    rng.choice(logs).write_bytes(b"")


def tear(logs: list[Path], rng: random.Random) -> None:
    log = rng.choice(logs)
    log.write_bytes(log.read_bytes()[: rng.randrange(log.stat().st_size)])


def flip(logs: list[Path], rng: random.Random) -> None:
    log = rng.choice(logs)
    data = bytearray(log.read_bytes())
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    log.write_bytes(data)


def zero(logs: list[Path], rng: random.Random) -> None:
    """Keep the length and lose the content, as a file system does that writes its data late."""
    log = rng.choice(logs)
    data = log.read_bytes()
    kept = rng.randrange(len(data))
    log.write_bytes(data[:kept] + bytes(len(data) - kept))


def lose_power(logs: list[Path], rng: random.Random) -> None:
    """Drop the end of everything that was never synced: of one log, and all behind it."""
    first = rng.randrange(len(logs))
    tear(logs[first : first + 1], rng)
    for log in logs[first + 1 :]:
        rng.choice((lambda log: log.write_bytes(b""), Path.unlink))(log)


FAULTS = (delete, empty, tear, flip, zero, lose_power)


@pytest.mark.slow
@short_and_long(6, 200)
def test_whatever_happens_to_a_log_is_an_older_prefix_or_told(killed, tmp_path, trials):
    for number, rng in enumerate(trials.of("27, 29", "logs of an index", seed=SEED)):
        state = Path(shutil.copytree(rng.choice(killed), tmp_path / "state"))
        fault = FAULTS[number % len(FAULTS)]
        fault(logs_of(state), rng)
        prefix = check_prefix(state)
        trials.saw(f"{fault.__name__}: {'damage is told' if prefix is None else 'older prefix'}")
        shutil.rmtree(state)


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("fault", [Path.unlink, lambda log: log.write_bytes(b"")])
def test_a_log_that_is_gone_before_others_is_damage(killed, tmp_path, which, fault):
    state = Path(shutil.copytree(killed[-1], tmp_path / "state"))
    logs = logs_of(state)
    assert len(logs) > 2
    fault(logs[which])  # type: ignore[operator]
    with pytest.raises(IndexDamaged, match="its logs lack writes"):
        opened(state)


def test_a_whole_state_has_no_gap_and_its_logs_are_read_to_their_end(killed: list[Path]) -> None:
    for state, batches in zip(killed, BATCHES, strict=True):
        numbers = [n for log in logs_of(state) for n in written(log.read_bytes())]
        assert numbers == [*range(numbers[0], batches + 2)], state  # the first is of its making


def test_the_numbers_of_a_log_that_is_cut_anywhere_are_its_first_ones(killed: list[Path]) -> None:
    data = logs_of(killed[0])[-1].read_bytes()[: 3 * BLOCK_BYTES]
    whole = [number for number in written(data) if number is not None]
    assert whole == [*range(1, len(whole) + 1)]
    for cut in (*range(60), *range(BLOCK_BYTES - 40, BLOCK_BYTES + 40), len(data) - 1):
        numbers = [number for number in written(data[:cut]) if number is not None]
        assert numbers == whole[: len(numbers)]


def test_a_write_may_begin_with_an_empty_fragment_at_the_end_of_a_block() -> None:
    def fragment(kind: int, data: bytes) -> bytes:
        return bytes(4) + len(data).to_bytes(2, "little") + bytes([kind]) + data

    write = bytes(BATCH_HEAD + 1) + bytes([len(STAMP)]) + STAMP + b"\x08" + (7).to_bytes(8, "big")
    filled = fragment(FULL, bytes(BLOCK_BYTES - 2 * FRAGMENT_HEAD))
    assert list(written(filled + fragment(FIRST, b"") + fragment(LAST, write))) == [7]


def test_garbage_is_torn_and_no_fault_of_ours() -> None:
    rng = random.Random(SEED)
    for size in (0, 1, 6, 7, 8, 100, 40_000):
        for _ in range(50):
            assert all(n is None or n >= 0 for n in written(rng.randbytes(size)))


def test_a_directory_in_the_place_of_a_log_is_a_fault_that_names_it(killed, tmp_path):
    state = Path(shutil.copytree(killed[0], tmp_path / "state"))
    log = logs_of(state)[0]
    log.unlink()
    log.mkdir()
    with pytest.raises(IndexFault, match=log.name):
        opened(state)
