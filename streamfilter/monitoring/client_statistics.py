"""librdkafka's own statistics as metrics: growth of counters since the last report, and levels.

Each client reports as JSON every ``statistics.interval.ms``, from inside a poll, consume or flush.
An exception in the callback would appear there as a failure of Kafka, so an unreadable report is
dropped. Clients come and go, for example when a producer is replaced. So counters are summed by
their growth, and a client without recent reports has no levels.

A report also lists the brokers that a client can ask. A client without any is stranded. librdkafka
drops brokers that a metadata response does not name. A response may name no broker while the only
one is fenced. librdkafka should then start again from bootstrap.servers, but in a race it never
does (its issue 5301). The whole process then stays in standby, and nothing is processed.
"""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import Struct, field

INTERVAL_MS = 5_000
SILENT_SECONDS = 20.0
"""A client without a report for this time, by the clock of the reports, is gone."""
STRANDED_REPORTS = 2
"""Consecutive reports without a broker that make a client stranded. One may come just before
librdkafka starts again."""
AWAY_REPORTS = 2  # consecutive reports without a connection before the brokers count as unreachable
MEMBER = "owner"  # role of the client that is the member of the consumer group
_ASKED = frozenset({"configured", "learned"})
"""Sources of an address that make it a broker to ask; others are logical, as for a coordinator."""

Tell = Callable[[str, Mapping[str, float], Mapping[str, float]], None]
"""(client's role, counters' growth, gauges), named as in `catalogue` without prefix and suffix."""


class _Window(msgspec.Struct):
    avg: float = 0
    p99: float = 0


class _Broker(msgspec.Struct):
    nodeid: int = -1
    source: str = ""
    state: str = ""
    txerrs: int = 0
    rxerrs: int = 0
    txretries: int = 0
    req_timeouts: int = 0
    connects: int = 0
    disconnects: int = 0
    waitresp_cnt: int = 0
    rtt: _Window = msgspec.field(default_factory=_Window)  # microseconds
    throttle: _Window = msgspec.field(default_factory=_Window)  # milliseconds


class _Partition(msgspec.Struct):
    fetchq_cnt: int = 0
    fetchq_size: int = 0


class _Topic(msgspec.Struct):
    partitions: dict[str, _Partition] = {}


class _Report(msgspec.Struct):
    name: str
    ts: int  # microseconds of a monotonic clock
    time: int = 0  # Unix time in seconds
    msg_cnt: int = 0
    msg_size: int = 0
    tx: int = 0
    tx_bytes: int = 0
    rx: int = 0
    rx_bytes: int = 0
    txmsgs: int = 0
    rxmsgs: int = 0
    brokers: dict[str, _Broker] = {}
    topics: dict[str, _Topic] = {}


class _Client(Struct):
    """One client's last report."""

    seconds: float = 0.0
    counters: Mapping[str, float] = field(default_factory=dict)
    levels: Mapping[str, float] = field(default_factory=dict)
    lonely: int = 0  # reports in a row without a broker to ask


class Statistics:
    """Sums the reports of all clients of a process by their role."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._clients: dict[str, dict[str, _Client]] = {}
        self._alone: list[int] = []
        """Unix times of the group member's reports in a row that show no connection."""

    @property
    def away_since(self) -> int:
        """Return since when no broker is reached, as Unix time; 0 if one is, or if unknown.

        Only the group's member counts, because it keeps a connection as long as the process lives.
        A single report without a connection does not count: a broker may just be restarting.
        """
        return self._alone[0] if len(self._alone) >= AWAY_REPORTS else 0

    def stranded(self) -> list[str]:
        """Return the names of the clients that have no broker to ask, and will not get one."""
        clients = (each for by_name in self._clients.values() for each in by_name.items())
        return [name for name, client in clients if client.lonely >= STRANDED_REPORTS]

    def watched(self, properties: dict[str, Any], role: str) -> dict[str, Any]:
        """Return *properties* with our callback; an interval set by the operator stays."""
        return {
            "statistics.interval.ms": INTERVAL_MS,
            **properties,
            "stats_cb": lambda report: self.heard(role, report),
        }

    def heard(self, role: str, report: str) -> None:
        """Process one report of a client of *role* (`catalogue.CLIENTS`)."""
        try:
            read = _REPORT.decode(report)
        except msgspec.MsgspecError:
            return
        clients = self._clients.setdefault(role, {})
        client = clients.setdefault(read.name, _Client())
        counters, before = _counters(read), client.counters
        grown = {name: max(0.0, now - before.get(name, 0)) for name, now in counters.items()}
        client.seconds, client.counters, client.levels = read.ts / 1e6, counters, _levels(read)
        brokers = read.brokers.values()
        asks = any(broker.source in _ASKED for broker in brokers)
        client.lonely = 0 if asks else client.lonely + 1
        if role == MEMBER:
            connected = any(broker.state == "UP" for broker in brokers)
            self._alone = [] if connected else [*self._alone[:1], read.time]
        for name in [n for n, c in clients.items() if client.seconds - c.seconds > SILENT_SECONDS]:
            del clients[name]
        self._tell(role, grown, _together([each.levels for each in clients.values()]))


_REPORT = msgspec.json.Decoder(_Report)


def _counters(read: _Report) -> dict[str, float]:
    brokers = read.brokers.values()
    return {
        "requests": read.tx,
        "responses": read.rx,
        "sent_bytes": read.tx_bytes,
        "received_bytes": read.rx_bytes,
        "sent_messages": read.txmsgs,
        "received_messages": read.rxmsgs,
        "request_errors": sum(each.txerrs + each.rxerrs for each in brokers),
        "request_retries": sum(each.txretries for each in brokers),
        "request_timeouts": sum(each.req_timeouts for each in brokers),
        "connects": sum(each.connects for each in brokers),
        "disconnects": sum(each.disconnects for each in brokers),
    }


def _levels(read: _Report) -> dict[str, float]:
    brokers = list(read.brokers.values())
    fetched = [part for topic in read.topics.values() for part in topic.partitions.values()]
    return {
        "brokers_up": len({each.nodeid for each in brokers if each.state == "UP"} - {-1}),
        "queued_records": read.msg_cnt + sum(part.fetchq_cnt for part in fetched),
        "queued_bytes": read.msg_size + sum(part.fetchq_size for part in fetched),
        "requests_in_flight": sum(each.waitresp_cnt for each in brokers),
        "round_trip_seconds": max((each.rtt.avg for each in brokers), default=0) / 1e6,
        "round_trip_p99_seconds": max((each.rtt.p99 for each in brokers), default=0) / 1e6,
        "throttle_seconds": max((each.throttle.avg for each in brokers), default=0) / 1e3,
    }


_WORST = ("brokers_up", "round_trip_seconds", "round_trip_p99_seconds", "throttle_seconds")
"""Levels that are combined over several clients by maximum; all others are summed."""


def _together(levels: list[Mapping[str, float]]) -> dict[str, float]:
    return {
        name: (max if name in _WORST else sum)(each[name] for each in levels) for name in levels[0]
    }
