"""No broker answers: a start or a check reports the address, the cause and the cure."""

import gc
import logging
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from streamfilter import cli
from streamfilter.config.configuration import Config
from streamfilter.config.loading import load_config
from streamfilter.engine.ports import Retriable
from streamfilter.kafka import service_start
from streamfilter.kafka.brokers import topic_creation, topics
from streamfilter.kafka.connection import clients, one_shot_calls, unreachable
from streamfilter.process.health import Health
from streamfilter.stops import Temporary
from tests.engine.scripted import FakeClock

LOOK_SECONDS = 3.0
TLS = ("security.protocol=ssl", "enable.ssl.certificate.verification=false")
HTTP_ANSWER = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"


@pytest.fixture(autouse=True)
def nothing_heard_before() -> None:
    gc.collect()  # clients of earlier tests would report their own brokers
    unreachable._heard.clear()
    clients._refusals.clear()


def config_of(bootstrap: str, *common: str) -> Config:
    overrides = [f"kafka.common.{each}" for each in (f"bootstrap.servers={bootstrap}", *common)]
    return load_config((), {}, overrides)


def told_of(config: Config) -> str:
    """Return what is said of the brokers of *config*, which do not answer."""
    admin = clients.admin_client(config)
    with pytest.raises(Retriable) as error:
        topics.describe(config, admin, seconds=LOOK_SECONDS)
    return str(error.value)


@pytest.fixture
def listening() -> Iterator[Callable[[Callable[[socket.socket], object]], str]]:
    """Something that listens and is no broker: the address, for what it does with who comes."""
    sockets: list[socket.socket] = []

    def listen(serve: Callable[[socket.socket], object]) -> str:
        server = socket.create_server(("127.0.0.1", 0))
        sockets.append(server)

        def accept() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return  # the test is over
                with connection:
                    serve(connection)

        threading.Thread(target=accept, daemon=True).start()
        host, port = server.getsockname()
        return f"{host}:{port}"

    yield listen
    for each in sockets:
        each.shutdown(socket.SHUT_RDWR)
        each.close()


@pytest.mark.slow
def test_a_host_that_no_one_knows_is_named() -> None:
    said = told_of(config_of("no.such.host.invalid:9092"))
    assert "no.such.host.invalid:9092" in said
    assert "Failed to resolve" in said
    assert "host's name" in unreachable.cure()


@pytest.mark.slow
def test_a_port_where_nothing_listens_is_named() -> None:
    said = told_of(config_of("127.0.0.1:1"))
    assert "127.0.0.1:1" in said
    assert "Connection refused" in said
    assert "nothing listens there" in unreachable.cure()


@pytest.mark.slow
def test_what_hangs_up_on_plaintext_is_reported_as_perhaps_tls(listening: Any) -> None:
    """A broker's TLS port answers nothing to plaintext, and librdkafka says so in its log only."""
    address = listening(lambda connection: connection.recv(10))
    said = told_of(config_of(address))
    assert address in said
    assert "Disconnected" in said
    assert "TLS" in unreachable.cure()


def test_a_certificate_that_a_broker_asks_for_is_no_wrong_password(monkeypatch):
    said = "SASL authentication error: Authentication failed: tls alert certificate required"
    refused = KafkaError(KafkaError._AUTHENTICATION, said)
    monkeypatch.setattr(one_shot_calls, "refusal", lambda: refused)
    stop = str(one_shot_calls.unanswered(KafkaException(refused), ""))
    assert "kafka.common.ssl.certificate.location" in stop
    assert "credentials" not in stop


@pytest.mark.slow
def test_what_is_no_broker_is_reported_as_that(listening: Any) -> None:
    def answer(connection: socket.socket) -> None:
        connection.recv(100)
        connection.sendall(HTTP_ANSWER)

    address = listening(answer)
    assert address in told_of(config_of(address))
    assert "no Kafka broker" in unreachable.cure()


@pytest.mark.slow
@pytest.mark.parametrize("read", [10_000, 1])
def test_tls_to_the_plaintext_port_of_a_broker_is_told_as_that(listening, read) -> None:
    """A broker closes the connection, or resets it if it has not read all.

    librdkafka writes two lines then, and a call may end between them.
    """
    address = listening(lambda connection: connection.recv(read))
    said = told_of(config_of(address, *TLS))
    assert address in said
    assert "in state SSL_HANDSHAKE" in said
    assert "speaks no TLS there" in unreachable.cure()


@pytest.mark.parametrize("silent", [True, False])
def test_a_start_ends_when_its_time_is_up_and_says_why(silent: bool) -> None:
    """``start_timeout: 5s`` took ten seconds: one look alone was given as many."""
    clock = FakeClock()
    begun = clock.now

    def list_topics(*, timeout: float) -> None:
        clock.sleep(timeout if silent else 0.0)
        raise KafkaException(KafkaError(KafkaError._TRANSPORT))

    config = load_config((), {}, ["kafka.start_timeout=5s"])
    admin: Any = SimpleNamespace(list_topics=list_topics, poll=lambda _: 0)
    unreachable.hear("127.0.0.1:1/bootstrap: Connection refused (after 7ms in state CONNECT)")
    start = service_start.Start(config, Health(bound_seconds=30), lambda: False, clock)
    with pytest.raises(Temporary) as stop:
        start.patiently(service_start.patient_look(config, admin, clock))
    assert (
        5
        <= clock.now - begun
        < 5 + service_start.ASK_AGAIN_SECONDS + 2 * service_start.LOOK_SECONDS_MIN
    )
    assert "the cluster was not ready within kafka.start_timeout" in str(stop.value)
    assert "Connection refused (in state CONNECT)" in str(stop.value)
    assert "cure: nothing listens there" in str(stop.value)


def test_check_that_cannot_make_the_outputs_does_not_advise_itself(embedded_stage, capsys):
    stage = embedded_stage()
    missing = f"{stage.input}.missing"
    output = {"unique": f"{missing}.unique", "duplicates": f"{missing}.duplicates"}
    configuration = stage.configuration(input={"topic": missing}, output=output)
    assert cli.main(["check", "--connect", "--apply", "--config", str(configuration)]) == 78
    said = capsys.readouterr().out
    assert "creates it, or create" not in said
    assert said.count("the input first, for an output gets as many partitions") == len(output)


@pytest.mark.slow
def test_check_says_which_broker_it_could_not_reach_why_and_what_to_do(capsys):
    arguments = ["--set", "kafka.common.bootstrap.servers=127.0.0.1:1", "--set", "input.topic=a"]
    arguments += ["--set", f"kafka.start_timeout={LOOK_SECONDS}s"]
    assert cli.main(["check", "--connect", *arguments]) == 75
    said, logged = capsys.readouterr()
    waiting = [line for line in logged.splitlines() if line.startswith("waiting up to")]
    assert len(waiting) == len(logged.splitlines()) <= 1, "nor a dozen of librdkafka's lines"
    for words in ("127.0.0.1:1/bootstrap", "Connection refused", "nothing listens there"):
        assert words in said


def test_check_says_what_to_do_when_brokers_do_not_make_the_outputs_in_time(monkeypatch, capsys):
    """They answer, and CreateTopics does not: slow brokers, or a disk of theirs is full."""
    late: Future[None] = Future()
    late.set_exception(KafkaException(KafkaError(KafkaError._TIMED_OUT)))

    def create_topics(wanted: list[Any], *, operation_timeout: float) -> dict[str, Future[None]]:
        return {topic.topic: late for topic in wanted}

    admin = SimpleNamespace(create_topics=create_topics)
    monkeypatch.setattr(topic_creation, "admin_client", lambda config: admin)
    monkeypatch.setattr(topics, "describe", lambda *_, **__: {"a": topics.Topic(1, {})})
    arguments = ["--set", "kafka.common.bootstrap.servers=127.0.0.1:1", "--set", "input.topic=a"]
    assert cli.main(["check", "--apply", *arguments]) == 75
    said = capsys.readouterr().out
    assert "creating topic a.dead-letter: _TIMED_OUT" in said
    assert f"cure: {topic_creation.LATE}" in said


def test_what_librdkafka_says_again_is_equal_but_for_its_cause() -> None:
    said = "x:1/bootstrap: Closed (after {}ms in state UP, 3 identical error(s) suppressed)"
    assert unreachable.timeless(said.format(1)) == unreachable.timeless(said.format(17))


def test_what_librdkafka_says_while_someone_asks_once_is_written_if_an_answer_comes(caplog):
    """One of three addresses may be wrong, and the others answer: then it is news."""
    said = logging.getLogger("streamfilter.librdkafka")
    caplog.set_level(logging.INFO)
    with unreachable.Listening.only():
        said.warning("FAIL [a] [thrd:b:1]: b:1: Connection refused")
        assert caplog.messages == []
    assert caplog.messages == ["FAIL [a] [thrd:b:1]: b:1: Connection refused"]

    def ask_in_vain() -> None:
        with unreachable.Listening.only():
            said.warning("FAIL [a] [thrd:c:1]: c:1: Connection refused")
            raise Retriable("nobody answers")

    with pytest.raises(Retriable):
        ask_in_vain()
    assert "c:1: Connection refused" in unreachable._heard
    assert len(caplog.messages) == 1
