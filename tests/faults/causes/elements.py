"""Faults of the network and of the brokers, for a life whose clients go through proxies.

Rows 8 and 19 wait for one request (EndTxn) and wrong it; the others are weather and outages.
"""

import signal
import time
from collections.abc import Callable

from deploy.local.jars import BrokerUnavailableError
from tests.faults.causes.nemesis import Fault, Nemesis
from tests.faults.causes.proxy import CLEAR, END_TXN, HOLE, ONE_WAY, ORPHANED, Weather
from tests.faults.feeder import CLIENT as FEEDER
from tests.faults.life import SOCKET_SECONDS
from tests.faults.supervisor import KILLED, Worker
from tests.support.machine.quotas import PRODUCER, set_quota

TRAP_SECONDS = 15.0


def weather(weather: Weather, *seconds: float) -> Callable[[Nemesis, Worker], bool]:
    """Return the fault of this *weather* at all proxies, for one of so many seconds."""

    def strike(nemesis: Nemesis, _: Worker) -> bool:
        for proxy in nemesis.life.proxies:
            proxy.weather = weather
        nemesis.later(nemesis.rng.choice(seconds), lambda: clear(nemesis))
        return bool(nemesis.life.proxies)

    return strike


def clear(nemesis: Nemesis) -> None:
    for proxy in nemesis.life.proxies:
        proxy.weather = CLEAR


def cut(nemesis: Nemesis, _: Worker) -> bool:
    return sum(proxy.cut() for proxy in nemesis.life.proxies) > 0


def orphan(nemesis: Nemesis, worker: Worker) -> bool:
    """Let all begin anew with brokers that name no one, as one does that was fenced."""
    return weather(ORPHANED, 3, 6)(nemesis, worker) and cut(nemesis, worker)


def half_close(nemesis: Nemesis, _: Worker) -> bool:
    for proxy in nemesis.life.proxies:
        proxy.half_close()
    return bool(nemesis.life.proxies)


def isolate(nemesis: Nemesis, _: Worker) -> bool:
    """Cut the clients off from one of three brokers, which the others still see."""
    if len(nemesis.life.proxies) < 3:
        return False
    proxy = nemesis.rng.choice(nemesis.life.proxies)
    proxy.weather = nemesis.rng.choice((HOLE, Weather(refusing=True)))
    proxy.cut()

    def mend() -> None:
        proxy.weather = CLEAR

    nemesis.later(nemesis.rng.uniform(3, 8), mend)
    return True


def lose_a_reply_and_kill(nemesis: Nemesis, worker: Worker) -> bool:
    """Let a commit reach the broker and its reply no one, and kill who waits for it."""
    life = nemesis.life
    traps = [proxy.mute_after(END_TXN) for proxy in life.proxies]
    caught = life.wait(TRAP_SECONDS, until=lambda: any(trap.caught.is_set() for trap in traps))
    for each in life.supervisor.workers if caught else ():
        life.supervisor.signal(each, signal.SIGKILL, fault="killed", expected={KILLED})
    for proxy, trap in zip(life.proxies, traps, strict=True):
        proxy.forget(trap)
        trap.release()
    return caught


def delay_the_end(nemesis: Nemesis, _: Worker) -> bool:
    """Hold an EndTxn until its producer has given it up, and let it come in later then."""
    life = nemesis.life
    traps = [proxy.hold(END_TXN) for proxy in life.proxies]
    caught = life.wait(TRAP_SECONDS, until=lambda: any(trap.caught.is_set() for trap in traps))
    for proxy, trap in zip(life.proxies, traps, strict=True):
        proxy.forget(trap)
        late = SOCKET_SECONDS + nemesis.rng.uniform(0.1, 3.0)
        nemesis.later(late if trap.caught.is_set() else 0.0, trap.release)
    return caught


def kill_broker(nemesis: Nemesis, _: Worker) -> bool:
    return _outage(nemesis, lambda node: node.kill(), lambda node: node.start())


def bounce_broker(nemesis: Nemesis, _: Worker) -> bool:
    return _outage(nemesis, lambda node: node.stop(), lambda node: node.start())


def pause_broker(nemesis: Nemesis, _: Worker) -> bool:
    return _outage(nemesis, lambda node: node.pause(), lambda node: node.resume())


def _outage(nemesis: Nemesis, begin: Callable, end: Callable) -> bool:  # type: ignore[type-arg]
    """Take one node away for some seconds; never two at once: a majority must stay."""
    life = nemesis.life
    if time.monotonic() < life.whole_at:
        return False
    node = nemesis.rng.choice(life.kafka.nodes)
    seconds = nemesis.rng.choice((1.0, 5.0, 5.0, 12.0))
    # A node that is back needs time to catch up before the next one may go.
    life.whole_at = time.monotonic() + seconds + 25.0
    begin(node)

    def restore() -> None:
        end(node)
        _until_ready(nemesis)

    nemesis.later(seconds, restore)
    return True


def _until_ready(nemesis: Nemesis) -> None:
    """Keep a plan open until every broker answers: so long no one can be blamed for waiting."""
    try:
        nemesis.life.kafka.wait_until_ready(timeout_seconds=0.0)
    except BrokerUnavailableError:
        nemesis.later(1.0, lambda: _until_ready(nemesis))


def quota(nemesis: Nemesis, _: Worker) -> bool:
    """Let the filters have little of each broker for a while; the feeder has its own quota."""
    address = nemesis.life.kafka.bootstrap

    def lift() -> None:
        try:
            set_quota(address, PRODUCER, None)
        except OSError:  # that broker is away: a quota is never left behind
            nemesis.later(1.0, lift)

    try:
        set_quota(address, PRODUCER, PLENTY, client=FEEDER)
        set_quota(address, PRODUCER, nemesis.rng.choice(QUOTAS))
    except OSError:
        return False
    nemesis.later(nemesis.rng.uniform(5, 15), lift)
    return True


def full_disk(nemesis: Nemesis, worker: Worker) -> bool:
    """Leave no room on a filter's own disk for a while."""
    disks, disk = nemesis.life.disks, worker.state.parent
    if disk not in disks.paths:
        return False
    disks.fill(disk)
    nemesis.later(nemesis.rng.uniform(2, 10), lambda: disks.free(disk))
    return True


QUOTAS = (50_000, 100_000, 400_000)
PLENTY = 1e12
LIMIT_FAULTS = (
    Fault("a quota that comes and goes", (49,), quota, 3.0),
    Fault("a disk that is full for a while", (24,), full_disk, 3.0),
)
NETWORK_FAULTS = (
    Fault("network: all connections cut", (17,), cut, 2.0),
    Fault("network: all connections half-closed", (17,), half_close),
    Fault("network: metadata that names no broker", (17,), orphan),
    Fault("network: a hole", (17,), weather(HOLE, 3, 8), 1.0),
    Fault("network: a hole longer than the session", (17,), weather(HOLE, 18), 0.2),
    Fault("network: replies lost", (17,), weather(ONE_WAY, 3, 6)),
    Fault("network: 200 ms slow", (17,), weather(Weather(latency=0.2), 5)),
    Fault("network: 50 kB/s", (17,), weather(Weather(rate=50_000), 5)),
    Fault("network: one of three brokers out of reach", (18,), isolate),
    Fault("a commit whose reply is lost, then killed", (8,), lose_a_reply_and_kill, 2.0),
    Fault("a late EndTxn", (19,), delay_the_end, 2.0),
)
ONE_BROKER_FAULTS = (
    Fault("the broker killed and restarted", (14,), kill_broker, 0.4),
    Fault("the broker frozen", (16,), pause_broker, 0.4),
)
THREE_BROKER_FAULTS = (
    Fault("one of three brokers killed", (15,), kill_broker),
    Fault("one of three brokers bounced", (15,), bounce_broker),
    Fault("one of three brokers frozen", (16,), pause_broker),
)
