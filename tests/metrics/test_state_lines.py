"""What the log says of the states of a process: what lasts, with figures, each thing once."""

import logging

import pytest

from streamfilter.engine.clock_and_worker import SystemClock
from streamfilter.engine.observer import (
    START_SECONDS,
    SUMMARY_SECONDS,
    WARN_EVERY_SECONDS,
    Observer,
)
from streamfilter.model import Verdict
from streamfilter.monitoring.batch_report import BatchReport
from streamfilter.monitoring.metrics import Metrics
from streamfilter.process.health import Health, State

LOADING = "waiting for the coordinator: _TIMED_OUT"


class SetClock(SystemClock):
    """Goes where it is put."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


@pytest.fixture
def observer(clock: SetClock, caplog: pytest.LogCaptureFixture) -> Observer:
    caplog.set_level(logging.INFO, "streamfilter.run")
    return Observer(Metrics(), Health(), clock)


def test_what_a_healthy_start_waits_for_is_no_line_until_it_takes_long(observer, clock, caplog):
    observer.enter(State.STARTING, LOADING)
    clock.now = START_SECONDS / 2
    observer.enter(State.STARTING, LOADING)
    assert caplog.messages == []
    for _ in range(3):
        clock.now += START_SECONDS
        observer.enter(State.STARTING, LOADING)
    assert caplog.messages == [f"starting: {LOADING}"]
    observer.enter(State.PAUSED_DISK, "free some space")
    assert caplog.messages[-1] == "paused:disk: free some space"


def test_beginnings_and_the_end_of_the_input_are_lines_with_counts_and_come_once(observer, caplog):
    for _ in range(2):
        observer.owning(["g.0", "g.1"], 3)
    observer.enter(State.RUNNING)
    for lag in (7, 0, 0, 3, 0):
        observer.at({"docs/0": 5}, {"docs/0": lag})
        observer.enter(State.RUNNING)
    assert caplog.messages == [
        "initialising 2 tasks", "running", "caught up with the input"
    ]  # fmt: skip
    assert vars(caplog.records[-1])["lag_records"] == 0
    assert vars(caplog.records[-1])["index_documents"] == 0
    observer.enter(State.PAUSED_DISK)
    observer.enter(State.RUNNING)
    observer.at({"docs/0": 5}, {"docs/0": 0})
    assert caplog.messages[-2:] == ["running", "caught up with the input"]


def test_a_pause_whose_details_change_is_a_line_a_minute_and_counts_before_partitions_are_known(
    clock: SetClock, caplog: pytest.LogCaptureFixture
) -> None:
    metrics, health = Metrics(), Health()
    observer = Observer(metrics, health, clock)
    for number in range(100):
        clock.now = number / 2
        observer.enter(State.PAUSED_DISK, f"no space for OPTIONS-{number}")
    assert caplog.messages == ["paused:disk: no space for OPTIONS-0"]
    assert health.status.detail == "no space for OPTIONS-99"
    assert b'streamfilter_paused_partitions{reason="disk"} 1.0' in metrics.expose()[1]
    clock.now += WARN_EVERY_SECONDS
    observer.enter(State.PAUSED_DISK, "no space for OPTIONS-100")
    assert len(caplog.messages) == 2


def test_a_standby_shows_who_owns_its_task_once_that_is_known(clock: SetClock) -> None:
    health = Health()
    observer = Observer(Metrics(), health, clock)
    observer.followed("group.0", "")
    assert health.status.owners == {}
    observer.followed("group.0", "host-1")
    observer.followed("group.1", "host-2")
    assert health.status.owners == {"group.0": "host-1", "group.1": "host-2"}


def test_totals_come_once_a_minute_once_there_are_some(clock, caplog):
    caplog.set_level(logging.INFO, "streamfilter.run")
    metrics = Metrics()
    observer, silent = (Observer(metrics, Health(), clock, summary=on) for on in (True, False))
    for each in (observer, silent):
        each.enter(State.STANDBY)
    begun = len(caplog.messages)
    for state, unique in [(State.STANDBY, 0), (State.RUNNING, 5), (State.PAUSED_DISK, 2)]:
        metrics.batch(BatchReport({Verdict.UNIQUE: unique, Verdict.REJECTED: unique > 2}))
        for part in (0.5, 0.6):
            clock.now += part * SUMMARY_SECONDS
            observer.enter(state)
            silent.enter(state)
    assert [each for each in caplog.messages[begun:] if "totals" in each] == [
        "totals: read 6, read since last 6, unique 5, duplicates 0, dead letters 1, dropped 0, "
        "index documents 0",
        "totals: read 8, read since last 2, unique 7, duplicates 0, dead letters 1, dropped 0, "
        "index documents 0",
    ]
