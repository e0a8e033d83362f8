"""The way to the broker fails while one filter works: what its operator sees, and that it goes on.

One process lives through all of it. Each fault is waited for where an operator would look
(/status, the log, /metrics), then ends; then every record must have come out exactly once.
"""

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from deploy.local.real import RealKafka
from tests.faults.causes.proxy import CLEAR, END_TXN, HOLE, PRODUCE, REFUSING, Proxy
from tests.kafka.story import records, texts, verdicts
from tests.support.filter_process import FilterProcess
from tests.support.stage import Stage

SEED = 20_261_122
SEEN_SECONDS = 240
NEW_PRODUCER = "begins again with a new producer"
ABORTED = "transaction aborted, to be tried again"
LOST = "is no longer ours"
LINES_MAX = 20
"""Of librdkafka's, in an outage of half a minute."""
SETTINGS = {
    "batch": {"documents": 10},
    "kafka": {"session_timeout": "6s", "transaction_timeout": "4s"},
}


@dataclass
class Scene:
    """The filter that works through a proxy."""

    proxy: Proxy
    stage: Stage
    process: FilterProcess
    fed: int = 0
    log_begin: int = 0
    """Characters of the log that belong to earlier faults."""
    lives: list[bool] = field(default_factory=list)
    """The answer of /livez at each look."""

    def feed(self, count: int) -> None:
        stories = texts(random.Random(SEED + self.fed), count)
        self.stage.produce(records(stories, first=self.fed))
        self.fed += count

    def in_a_transaction(self, act: Callable[[], object], *, api: int = END_TXN) -> None:
        """Do *act* while a transaction's request of the kind *api* is on its way."""
        trap = self.proxy.hold(api)
        self.feed(100)
        trap.wait(SEEN_SECONDS)
        act()
        trap.release()

    def until(self, condition: Callable[[dict], object], what: str) -> None:
        def looked(status: dict) -> object:
            self.lives.append(status.get("live", True))
            return condition(status)

        self.process.wait_for(looked, what=what, timeout_seconds=SEEN_SECONDS)

    def until_logged(self, *words: str) -> None:
        """Wait until the log of this fault has one of *words*."""
        self.until(lambda _: any(word in self.log() for word in words), f"one of {words}")

    def log(self) -> str:
        return self.process.log.read_text(errors="replace")[self.log_begin :]

    def metric(self, series: str) -> float:
        for line in (self.process.get("/metrics") or "").splitlines():
            if line.startswith(f"streamfilter_{series} "):
                return float(line.split()[-1])
        raise AssertionError(f"no series {series}")

    def until_metric(self, series: str, right: Callable[[float], bool]) -> None:
        self.until(lambda _: right(self.metric(series)), series)

    def goes_on(self) -> None:
        """Feed once more; everything comes out once, ready again, and /livez never failed."""
        self.feed(20)
        self.stage.drain(self.process)
        assert len(verdicts(self.stage)) == self.fed
        self.until(lambda status: status["state"] == "running", "readiness")
        assert self.process.status()["ready"]
        assert set(self.lives) <= {True}, self.process.with_log("was not live")


@pytest.mark.slow(60)
def test_one_filter_lives_through_every_fault_of_broker_and_network(
    kafka: RealKafka, proxy: Proxy, stage: Stage
) -> None:
    common = {"bootstrap.servers": kafka.bootstrap_proxied}
    settings = {**SETTINGS, "kafka": {**SETTINGS["kafka"], "common": common}}
    scene = Scene(proxy, stage, stage.start(**settings))
    for fault in (
        a_broker_that_ends_is_missed_and_met_again,
        a_broker_that_is_silent_for_longer_than_a_transaction_costs_the_producer,
        a_network_that_swallows_records_costs_the_transaction,
        a_commit_that_is_held_back_costs_the_producer_and_ends_nothing_later,
    ):
        scene.goes_on()
        scene.log_begin, scene.lives = len(scene.process.log.read_text(errors="replace")), []
        print(fault.__name__)
        fault(scene)


def a_broker_that_ends_is_missed_and_met_again(scene: Scene) -> None:
    disconnects = 'kafka_disconnects_total{client="owner"}'
    before = scene.metric(disconnects)

    def end() -> None:
        scene.proxy.weather = REFUSING
        scene.proxy.cut()

    scene.in_a_transaction(end)
    scene.until_metric(disconnects, lambda count: count > before)
    scene.until_metric('kafka_brokers_up{client="owner"}', lambda up: up == 0)
    scene.until_logged(LOST)
    scene.until(
        lambda status: (
            status["state"] == "unreachable"
            and not status["ready"]
            and "no broker is reached since" in status["detail"]
        ),
        "a process that says since when it reaches no broker",
    )
    scene.until(lambda status: not status["tasks"] and status["lag"] == {}, "no task, and no lag")
    assert math.isnan(scene.metric("consumer_lag_records"))
    scene.proxy.weather = CLEAR
    scene.goes_on()
    scene.until_metric('kafka_brokers_up{client="owner"}', lambda up: up == 1)
    scene.until_metric("consumer_lag_records", lambda lag: lag == 0)
    assert "restores" in scene.log()
    theirs = scene.log().count('"streamfilter.librdkafka"')
    assert theirs <= LINES_MAX, "there were thousands"


def a_broker_that_is_silent_for_longer_than_a_transaction_costs_the_producer(
    scene: Scene,
) -> None:
    aborted, failed = ('transactions_total{outcome="aborted"}',
                       'transactions_total{outcome="failed"}')  # fmt: skip
    before = scene.metric(aborted) + scene.metric(failed)
    scene.in_a_transaction(lambda: setattr(scene.proxy, "weather", HOLE))
    scene.until_logged(NEW_PRODUCER)
    scene.until(lambda status: not status["ready"] or status["detail"], "a word of it")
    assert scene.metric(aborted) + scene.metric(failed) > before
    scene.proxy.weather = CLEAR
    scene.goes_on()


def a_network_that_swallows_records_costs_the_transaction(scene: Scene) -> None:
    scene.in_a_transaction(lambda: setattr(scene.proxy, "weather", HOLE), api=PRODUCE)
    scene.until_logged(ABORTED)
    scene.proxy.weather = CLEAR
    scene.goes_on()


def a_commit_that_is_held_back_costs_the_producer_and_ends_nothing_later(scene: Scene) -> None:
    trap = scene.proxy.hold(END_TXN)
    scene.feed(100)
    trap.wait(SEEN_SECONDS)
    scene.until_logged(f"{NEW_PRODUCER}: committing a transaction")
    scene.feed(100)
    scene.until(lambda status: sum(status["positions"].values()) >= scene.fed, "work meanwhile")
    trap.release()
    scene.goes_on()
