"""The fault of each row as a function of a chain: it does it, and returns what was seen of it.

The empty string: it did not happen this time (a kill point was not reached, a commit was not
caught), which is no trial. What must not happen is a finding, or raises.
"""

from __future__ import annotations

import shutil
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from tests.faults.chain import FENCED, KILLED, Chain, frozen, says
from tests.faults.life import PROGRESS_SECONDS
from tests.faults.tally import POINTS
from tests.support.filter_process import FilterProcess

Strike = Callable[[Chain], str]
NTH_MAX = 6
IN_TRANSACTION = tuple(
    point for point in POINTS if point.startswith("transaction.") and point != "transaction.aborted"
)


@dataclass(frozen=True, slots=True)
class Directed:
    """How one row is tried."""

    strikes: tuple[Strike, ...]
    """Each trial takes one of these."""
    static: bool = True
    proxied: bool = False


def killed_at(*points: str, nth_max: int = NTH_MAX) -> Strike:
    """Return the death at one of *points*, some hits after the start."""

    def strike(chain: Chain) -> str:
        point = chain.rng.choice(points)
        process = chain.start(armed=f"{point}:{chain.rng.randint(1, nth_max)}")
        return f"killed at {point}" * chain.ended(process, KILLED)

    return strike


def killed_closing(*points: str) -> Strike:
    """Return the death at one of *points* after SIGTERM."""

    def strike(chain: Chain) -> str:
        point = chain.rng.choice(points)
        process = chain.moving(chain.start(armed=point))
        process.child._signal(signal.SIGTERM)
        return f"killed at {point}" * chain.ended(process, KILLED)

    return strike


def killed_restoring(*points: str) -> Strike:
    """Return the death at one of *points*, in a process whose index is to be restored."""

    def strike(chain: Chain) -> str:
        _need_a_changelog(chain)
        shutil.rmtree(chain.directory, ignore_errors=True)
        return killed_at(*points, nth_max=1)(chain)

    return strike


def _need_a_changelog(chain: Chain) -> None:
    if not chain.watcher.count:
        chain.kill(chain.moving(chain.start()))


def killed_at_any_moment(chain: Chain) -> str:
    process = chain.moving(chain.start())
    time.sleep(chain.rng.uniform(0, 0.5))
    chain.kill(process)
    return "killed at any moment"


def terminated(chain: Chain) -> str:
    """Send SIGTERM or SIGINT as soon as somebody listens, or some moment later."""
    number = chain.rng.choice((signal.SIGTERM, signal.SIGINT))
    process = chain.start()
    chain.demand(lambda: says(process, "listening on"), "itself to listen", process)
    if chain.rng.random() < 0.75:
        chain.moving(process)
        time.sleep(chain.rng.uniform(0, 0.3))
    return _ends_well(chain, process, number, f"{number.name} at any moment")


def terminated_in_a_batch(chain: Chain) -> str:
    """Send it to a process that stands still at a known line of a batch, and let it go on."""
    number = chain.rng.choice((signal.SIGTERM, signal.SIGINT))
    point = chain.rng.choice(("batch.consumed", "batch.decided", *IN_TRANSACTION, "index.applied"))
    process = chain.start(armed=f"{point}:{chain.rng.randint(2, NTH_MAX)}:stop")
    if not chain.waited(lambda: frozen(process)):
        chain.kill(process)
        return ""
    process.child._signal(number)
    process.resume()
    return _ends_well(chain, process, None, f"{number.name} at {point}")


def _ends_well(chain: Chain, process: FilterProcess, number: int | None, seen: str) -> str:
    if number is not None:
        process.child._signal(number)
    if not chain.ended(process, 0):
        chain.result.findings.append(f"E stop: {seen}, and it did not end")
    return seen


def frozen_until_replaced(*points: str) -> Strike:
    """Return a freeze at one of *points* that lasts until another process has taken over."""

    def strike(chain: Chain) -> str:
        point = chain.rng.choice(points)
        process = chain.start(armed=f"{point}:{chain.rng.randint(2, NTH_MAX)}:stop")
        if not chain.waited(lambda: frozen(process)):
            chain.kill(process)
            return ""
        other = chain.moving(chain.start(state="b"))
        process.resume()
        # Thrown out inside a transaction it ends; between two it hears of it and stands by.
        chain.waited(lambda: process.child.exit_code is not None or says(process, '"standby"'))
        if process.child.exit_code is None and not says(process, '"standby"'):
            chain.result.findings.append("E zombie: " + process.told("neither ended nor stands by"))
        chain.progress(other)
        _end_zombie(chain, process)
        chain.kill(other)
        return f"frozen at {point} until replaced"

    return strike


def _end_zombie(chain: Chain, process: FilterProcess) -> None:
    if process.child.exit_code is None:
        chain.stop(process)
    else:
        chain.ended(process, FENCED)


def frozen_alone(chain: Chain) -> str:
    """Stall it past its session before its offsets are sent; nobody else takes its place."""
    process = chain.start(armed=f"transaction.flushed:{chain.rng.randint(2, NTH_MAX)}:stop")
    if not chain.waited(lambda: frozen(process)):
        chain.kill(process)
        return ""
    admin = AdminClient({"bootstrap.servers": chain.place.direct})
    thrown_out = chain.waited(lambda: not _members(admin, chain.stage.group))
    process.resume()
    chain.progress(process)
    seen = "offsets of a stale generation" if says(process, "transaction aborted") else ""
    chain.kill(process)
    return seen if thrown_out else ""


def _members(admin: AdminClient, group: str) -> int:
    described = admin.describe_consumer_groups([group], request_timeout=20)
    return len(described[group].result(20).members)


def doubled_producer(chain: Chain) -> str:
    """Take a task's transactional id for a moment: its owner must notice, and go on."""
    process = chain.moving(chain.start())
    task = chain.rng.randrange(2) if chain.scope == "partition" else 0
    own = {"transactional.id": f"{chain.stage.group}.{task}", "log_level": 2}
    stranger = Producer({"bootstrap.servers": chain.place.direct, **own})
    stranger.init_transactions(PROGRESS_SECONDS)
    stranger.close()
    noticed = chain.waited(lambda: says(process, "begins again with a new producer"))
    chain.progress(process)
    chain.kill(process)
    return "fenced by a double of its producer" * noticed


def doubled_process(chain: Chain) -> str:
    """Start a process with the same identity: the first must end, and say why."""
    first = chain.moving(chain.start())
    second = chain.start(state="b")
    ended = chain.ended(first, FENCED)
    chain.moving(second)
    chain.kill(second)
    return "ended by a process of its identity" * ended


def directory_removed(chain: Chain) -> str:
    """Kill it and take its index away; the next one restores."""
    _need_a_changelog(chain)
    shutil.rmtree(chain.directory, ignore_errors=True)
    return _restored(chain, "its directory removed")


def directory_left_behind(chain: Chain) -> str:
    """Go on at another place with no index; the old one, a day older, comes back some time."""
    _need_a_changelog(chain)
    chain.state = "b" if chain.state == "a" else "a"
    if chain.rng.random() < 0.5:
        shutil.rmtree(chain.directory, ignore_errors=True)
    return _restored(chain, "its directory left behind")


def _restored(chain: Chain, seen: str) -> str:
    process = chain.moving(chain.start())
    restored = says(process, "restored:")
    chain.kill(process)
    return seen * restored


def points_of(row: int) -> tuple[str, ...]:
    return tuple(point for point, rows in POINTS.items() if row in rows)


START = tuple(p for p in points_of(10) if p.startswith("start."))
PROCESS_ROWS: dict[int, Directed] = {
    **{row: Directed((killed_at(*points_of(row)),)) for row in (1, 2, 3, 6, 7, 9)},
    4: Directed((killed_at("batch.decided", "transaction.committed"),)),
    10: Directed(
        (
            killed_at(*START, nth_max=1),
            killed_restoring("restore.read", "restore.applied"),
            killed_closing("close.begun", "close.done"),
        )
    ),
    11: Directed(
        (killed_at("start.given", nth_max=1), killed_closing("close.revoked"), killed_at_any_moment)
    ),
    12: Directed((terminated, terminated_in_a_batch)),
    13: Directed(
        (frozen_until_replaced("batch.consumed", "batch.decided", *IN_TRANSACTION),), static=False
    ),
    21: Directed((doubled_producer, doubled_process)),
    22: Directed((frozen_alone, frozen_until_replaced("transaction.flushed")), static=False),
    23: Directed((directory_removed, directory_left_behind)),
}
