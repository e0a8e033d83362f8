"""How long clients wait for brokers that take a request and do not reply."""

from typing import Any

import pytest

from streamfilter.config.configuration import Config
from streamfilter.config.loading import load_config
from streamfilter.kafka.connection import clients
from streamfilter.kafka.connection.one_shot_calls import CALL_SECONDS

SLOWEST_LINE = 40_000  # bytes a second that a consumer can live on
READING = [clients.data_properties, clients.reader_properties]


@pytest.mark.parametrize("properties_of", READING)
def test_a_lost_reply_stops_a_consumer_for_half_a_minute(properties_of: Any) -> None:
    """A frozen leader stopped the reading for a minute, which is librdkafka's default."""
    properties = properties_of(Config())
    seconds = int(properties["socket.timeout.ms"]) / 1000
    assert seconds == 30, "a session's shortest time is 6 s, and 36 s are promised"
    assert int(properties["fetch.max.bytes"]) < seconds * SLOWEST_LINE, "it would never arrive"


@pytest.mark.parametrize("properties_of", READING)
def test_an_operator_sets_another_time(properties_of: Any) -> None:
    config = load_config([], {}, ["kafka.consumer.socket.timeout.ms=45000"])
    assert int(properties_of(config)["socket.timeout.ms"]) == 45_000


def test_a_call_that_is_repeated_has_a_new_connection() -> None:
    """A start asked for a minute on a connection whose replies were lost, and ended with 75."""
    timeout = int(clients.admin_properties(Config())["socket.timeout.ms"])
    assert timeout <= CALL_SECONDS * 1000


def test_no_producer_waits_longer_than_a_transaction() -> None:
    config = load_config([], {}, ["kafka.transaction_timeout=8s"])
    sizes = clients.Sizes(message=1_000_000, batch=1_000_000)
    for properties in (
        clients.producer_properties(config, transactional_id="g.0", sizes=sizes),
        clients.signer_properties(config, size=1_000_000),
    ):
        assert int(properties["socket.timeout.ms"]) == 8_000


@pytest.mark.parametrize(("session", "expected"), [("10s", 60_000), ("2m", 120_000)])
def test_a_group_waits_a_minute_for_a_member_that_does_not_join_again(session, expected) -> None:
    """It waited five minutes, seen after a broker's restart; librdkafka wants a session or more."""
    config = load_config([], {}, [f"kafka.session_timeout={session}"])
    assert int(clients.ownership_properties(config)["max.poll.interval.ms"]) == expected
