"""The rows of the network: weather, and one commit that is caught on its way."""

from __future__ import annotations

import time

from tests.faults.chain import FENCED, KILLED, TEMPORARY, Chain
from tests.faults.directed import Directed, Strike
from tests.faults.life import SOCKET_SECONDS
from tests.faults.proxy import CLEAR, END_TXN, HOLE, ONE_WAY, Proxy, Trap, Weather
from tests.support.filter_process import FilterProcess


def _proxy(chain: Chain) -> Proxy:
    assert chain.place.proxy is not None
    return chain.place.proxy


def weather(name: str, weather: Weather, seconds: float) -> Strike:
    """Return so many seconds of *weather*; afterwards there must be progress."""

    def strike(chain: Chain) -> str:
        process, proxy = chain.moving(chain.start()), _proxy(chain)
        links = proxy.connections
        proxy.weather = weather
        try:
            time.sleep(seconds)
        finally:
            proxy.weather = CLEAR
        _goes_on(chain, process)
        return name * (links > 0)

    return strike


def cut(chain: Chain) -> str:
    process = chain.moving(chain.start())
    links = _proxy(chain).cut()
    _goes_on(chain, process)
    return "all connections cut" * (links > 0)


def half_closed(chain: Chain) -> str:
    process, proxy = chain.moving(chain.start()), _proxy(chain)
    links = proxy.connections
    proxy.half_close()
    _goes_on(chain, process)
    return "all connections half-closed" * (links > 0)


def _goes_on(chain: Chain, process: FilterProcess) -> None:
    """Demand progress of *process*, or of the next one if it gave up as the manual says."""
    before = chain.watcher.count
    chain.waited(lambda: chain.watcher.count > before or process.child.exit_code is not None, 90)
    if process.child.exit_code is not None:
        chain.ended(process, TEMPORARY, FENCED)
        process = chain.start()
    chain.progress(process)
    chain.kill(process)


def reply_lost_then_killed(chain: Chain) -> str:
    """Let a commit reach the broker and its reply nobody, and kill who waits for it."""
    process = chain.moving(chain.start())
    trap = _proxy(chain).mute_after(END_TXN)
    caught = trap.caught.wait(chain.patience)
    process.kill()
    _free(chain, trap)
    chain.ended(process, KILLED)
    return "killed waiting for a commit's reply" * caught


def late_end(chain: Chain) -> str:
    """Hold an EndTxn until its producer has given it up, and let it come in later then."""
    process = chain.moving(chain.start())
    trap = _proxy(chain).hold(END_TXN)
    caught = trap.caught.wait(chain.patience)
    time.sleep(SOCKET_SECONDS + chain.rng.uniform(0.1, 3.0) if caught else 0)
    _free(chain, trap)
    _goes_on(chain, process)
    return "an EndTxn came late" * caught


def _free(chain: Chain, trap: Trap) -> None:
    _proxy(chain).forget(trap)
    trap.release()


NETWORK_ROWS: dict[int, Directed] = {
    8: Directed((reply_lost_then_killed,), proxied=True),
    17: Directed(
        (
            cut,
            half_closed,
            weather("a hole of 3 s", HOLE, 3),
            weather("a hole of 8 s", HOLE, 8),
            weather("a hole of 18 s", HOLE, 18),
            weather("replies lost for 5 s", ONE_WAY, 5),
            weather("200 ms slow for 5 s", Weather(latency=0.2), 5),
            weather("50 kB/s for 5 s", Weather(rate=50_000), 5),
        ),
        proxied=True,
    ),
    19: Directed((late_end,), proxied=True),
}
