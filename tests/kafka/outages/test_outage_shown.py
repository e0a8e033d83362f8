"""No broker is reached: the process says so, is not ready, and knows no lag."""

import json
import logging
import shutil
from collections.abc import Callable

import pytest

from streamfilter.config.loading import load_config
from streamfilter.kafka.connection.unreachable import GROUP_SECONDS, LineGroups, Reach, timeless
from streamfilter.monitoring.client_statistics import Statistics
from tests.support.stage import Stage
from tests.support.topics import Input


def documents(first: int, count: int) -> list[Input]:
    texts = (" ".join(f"word{n * 10 + i}" for i in range(10)) for n in range(first, first + count))
    return [Input(json.dumps({"id": text[:12], "text": text}).encode()) for text in texts]


def known(count: int) -> Callable[[dict[str, object]], bool]:
    return lambda status: (
        status.get("index_documents") == count and status.get("state") == "running"
    )


@pytest.mark.slow(30)
def test_a_directory_that_is_removed_under_its_owner_is_made_again(embedded_stage) -> None:
    """The README allows it at any time; the process ended with 70 and a traceback."""
    stage: Stage = embedded_stage()
    process = stage.start()
    state = stage.directory / "state"
    for number in range(2):
        stage.produce(documents(number * 50, 50))
        process.wait_for(known(50 * number + 50), what="work")
        shutil.rmtree(state)
        process.wait_for(
            lambda _, times=number + 1: (
                process.log.read_text().count("is removed and restored from") == times
            ),
            what="a restore",
        )
        process.wait_for(known(50 * number + 50), what="the same documents")
        assert (state / "index.json").exists()
    assert process.terminate() == 0
    assert {name: len(came) for name, came in stage.outputs().items()} == {
        "unique": 100,
        "duplicates": 0,
        "dead_letter": 0,
    }


def report(second: int, *states: str) -> str:
    brokers = {str(n): {"state": state, "source": "learned"} for n, state in enumerate(states)}
    times = {"ts": second * 1_000_000, "time": second}
    return json.dumps({"name": "owner#1", **times, "brokers": brokers})


def test_two_reports_of_the_member_without_a_connection_are_an_outage_from_the_first_on() -> None:
    statistics = Statistics(lambda *_: None)
    seen = []
    for second, states in ((5, ("UP",)), (10, ("DOWN", "INIT")), (15, ("DOWN",)), (20, ("DOWN",))):
        statistics.heard("owner", report(second, *states))
        statistics.heard("data", report(second, "UP"))
        seen.append(statistics.away_since)
    statistics.heard("owner", report(25, "DOWN", "UP"))
    assert [*seen, statistics.away_since] == [0, 0, 10, 10, 0]


def test_an_outage_has_one_sentence_and_the_next_one_its_own() -> None:
    since = [0]
    reach = Reach(load_config((), {}), lambda: since[0])
    assert reach.detail() == ""
    since[0] = 1_000
    first = reach.detail()
    assert "since 1970-01-01T00:16:40+00:00" in first
    assert "nothing is lost" in first
    assert reach.detail() is first
    since[0] = 0
    assert reach.detail() == ""


def line(text: str) -> logging.LogRecord:
    return logging.LogRecord("streamfilter.librdkafka", logging.ERROR, "", 0, text, (), None)


def test_what_many_connections_say_of_one_broker_is_one_line_a_minute() -> None:
    now = [0.0]
    groups = LineGroups(lambda: now[0])
    refused = "Connect to ipv4#127.0.0.1:{} failed: Connection refused (in state CONNECT)"
    who = (
        "FAIL [rdkafka#consumer-1] [thrd:127.0.0.1:9092/bootstrap]: 127.0.0.1:9092/bootstrap: ",
        "FAIL [rdkafka#producer-2] [thrd:TxnCoordinator]: TxnCoordinator: 127.0.0.1:9092: ",
        "FAIL [a] [thrd:GroupCoordinator]: GroupCoordinator: 127.0.0.1:9092: ",
        "ERROR [a] [thrd:127.0.0.1:9092/1]: 127.0.0.1:9092/1: ",
        "_TRANSPORT: 127.0.0.1:9092/1: ",
        "_TRANSPORT: sasl_ssl://127.0.0.1:9092/1: ",
    )
    passed = [groups.passes(line(each + refused.format(9092))) for each in who]
    assert passed == [True, *[False] * 5]
    assert groups.passes(line(who[0] + refused.format(9093))), "another broker"
    assert groups.passes(line("MAXPOLL [a] [thrd:main]: maximum poll interval exceeded"))
    now[0] += GROUP_SECONDS
    again = line(who[0] + refused.format(9092))
    assert groups.passes(again)
    assert again.suppressed == 5  # type: ignore[attr-defined]


def test_how_often_librdkafka_held_a_line_back_is_no_part_of_it() -> None:
    said = "x:1: Connect failed (after {}ms in state CONNECT{})"
    held = ", 30 identical error(s) suppressed"
    assert (
        timeless(said.format(1, held))
        == timeless(said.format(2, ""))
        == ("x:1: Connect failed (in state CONNECT)")
    )
