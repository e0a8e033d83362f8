"""Verbs that are run once, started before broker and registry: they wait, as `run` does."""

import subprocess
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from deploy.local.node import free_ports
from streamfilter.config.configuration import Config
from streamfilter.config.loading import load_config
from streamfilter.kafka import topic_sample
from streamfilter.kafka.brokers import topics
from streamfilter.kafka.connection import clients, one_shot_calls
from streamfilter.kafka.embedded import EmbeddedBroker
from streamfilter.process import broker_wait
from streamfilter.stops import ConfigError, Temporary
from tests.documents.registry_stub import Handler, serving
from tests.faults.causes.proxy import Proxy

PATIENCE_SECONDS = 240


@pytest.mark.slow
def test_a_feed_that_was_started_first_waits_for_broker_and_registry(tmp_path):
    """It ended at the first refused connection, and the demo in containers had no traffic."""
    broker_port, registry_port = free_ports(2)
    settings = [
        "input.topic=stories",
        "input.format=avro",
        f"input.registry.url=http://127.0.0.1:{registry_port}",
        f"kafka.common.bootstrap.servers=127.0.0.1:{broker_port}",
        f"kafka.start_timeout={PATIENCE_SECONDS}s",
    ]
    command = [sys.executable, "-m", "streamfilter", "demo", "--feed", "--seconds", "1"]
    command += [each for one in settings for each in ("--set", one)]
    said = tmp_path / "said"
    with said.open("wb") as to, subprocess.Popen(command, stderr=to) as feed:
        try:
            wait_until(lambda: "waiting up to" in said.read_text(), feed)
            with EmbeddedBroker() as broker, Proxy(broker_port, port_of(broker)):
                broker.create_topics({"stories": 1})
                Handler.answers = {"/subjects/stories-value/versions": (200, {"id": 5})}
                with serving(registry_port):
                    assert feed.wait(PATIENCE_SECONDS) == 0, said.read_text()
                config = load_config((), {}, settings)
                (newest, *_) = topic_sample.latest(config, 1)
                assert (newest.value or b"").startswith(b"\0\0\0\0\5"), "framed by its id"
        finally:
            feed.kill()
    assert "stories to stories" in said.read_text()
    assert Handler.given[-1]["schemaType"] == "AVRO"


def port_of(broker: EmbeddedBroker) -> int:
    return int(broker.bootstrap.partition(",")[0].rpartition(":")[2])


def wait_until(holds: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    """Wait as long as the process lives; it gives up by itself."""
    while not holds():
        assert process.poll() is None, "it did not wait"
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.2)


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """An admin client whose brokers are away at first, and that no broker refused.

    A client of an earlier test may report its wrong password at any time: the last refusal is the
    process's.
    """
    failing = [KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT]

    def list_topics(*, timeout: float) -> Any:
        if failing:
            raise KafkaException(KafkaError(failing.pop()))
        return SimpleNamespace(topics={})

    admin = SimpleNamespace(list_topics=list_topics, poll=lambda _: 0, failing=failing)
    monkeypatch.setattr(clients, "admin_client", lambda _: admin)
    monkeypatch.setattr(topics, "admin_client", lambda _: admin)
    monkeypatch.setattr(one_shot_calls, "refusal", lambda: None)
    monkeypatch.setattr("streamfilter.process.broker_wait.AGAIN_SECONDS", 0.0)
    return admin


def names(config: Config) -> None:
    assert topic_sample.names(config) == []


def latest(config: Config) -> None:
    with pytest.raises(ConfigError, match="the brokers show no topic"):
        topic_sample.latest(config, 1)


def inspected(config: Config) -> None:
    seen = topics.seen(config, clients.admin_client(config), ())
    assert "input.topic" in [problem.key for problem in topics.problems_of(config, seen)]


@pytest.mark.parametrize("verb", [names, latest, inspected])
def test_what_init_peek_and_check_ask_is_asked_again_until_a_broker_answers(admin, verb, capsys):
    verb(load_config((), {}, ["input.topic=a"]))
    assert admin.failing == []
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("waiting up to 60 s (kafka.start_timeout): ")


def test_a_wait_that_is_usual_is_not_mentioned(monkeypatch, capsys) -> None:
    """`release` said "waiting up to 60 s", with an error of librdkafka's, where all was well."""
    monkeypatch.setattr(broker_wait, "AGAIN_SECONDS", 0.0)
    failing = [Temporary("not yet")] * 3

    def call() -> None:
        if failing:
            raise failing.pop()

    for quiet, said in ((60.0, ""), (0.0, "waiting up to 9 s")):
        failing += [Temporary("not yet")] * 3
        broker_wait.Waiting(9.0, quiet=quiet).awaited(call, Temporary)
        assert capsys.readouterr().err.startswith(said)
        assert failing == []


def test_what_is_asked_in_vain_ends_when_its_time_is_up(admin: SimpleNamespace) -> None:
    config = load_config((), {}, ["input.topic=a", "kafka.start_timeout=0s"])
    with pytest.raises(Temporary, match="_TIMED_OUT"):
        topic_sample.names(config)


def test_who_is_not_let_in_is_not_kept_waiting(admin, monkeypatch):
    refused = KafkaError(KafkaError._SSL)
    monkeypatch.setattr(one_shot_calls, "refusal", lambda: refused)
    with pytest.raises(Temporary, match="no broker could be trusted"):
        topic_sample.names(load_config((), {}, ["input.topic=a"]))
    assert len(admin.failing) == 2
