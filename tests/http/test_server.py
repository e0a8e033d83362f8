"""The real server on a real socket of the loopback."""

import http.client
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from streamfilter.model import Decision, Verdict
from streamfilter.monitoring.metrics import BatchReport, Metrics
from streamfilter.monitoring.web import http as window
from streamfilter.monitoring.web.http import AllowedHosts
from streamfilter.monitoring.web.pages import Pages
from streamfilter.process import logs
from streamfilter.process.health import Health, State
from streamfilter.stops import ConfigError, ExitCode
from tests.support.cases import cases


class Clock:
    """A clock the test turns by hand."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def health(clock):
    return Health(bound_seconds=30, clock=clock)


@pytest.fixture
def metrics(health):
    return Metrics(health)


@pytest.fixture
def server(health, metrics):
    with window.Server("127.0.0.1", 0, pages=Pages(health, metrics)) as server:
        yield server


def ask(server, path: str, method: str = "GET", **headers: str):
    connection = http.client.HTTPConnection(*server.address, timeout=300)
    try:
        connection.request(method, path, headers=headers)
        response = connection.getresponse()
        return response.status, response.headers, response.read()
    finally:
        connection.close()


def test_the_scrape_is_what_prometheus_reads(server):
    status, headers, body = ask(server, "/metrics")
    assert status == 200
    assert headers["Content-Type"].startswith("text/plain")
    assert b"streamfilter_records_consumed_total 0.0\n" in body


def test_liveness_is_the_loop_s_heartbeat_and_nothing_else(server, health, clock):
    health.enter(State.PAUSED_DISK, "no space")
    assert ask(server, "/livez")[0] == 200
    clock.now += 31
    status, _, body = ask(server, "/livez")
    assert status == 503
    assert json.loads(body)["heartbeat_age_seconds"] == 31
    health.beat()
    assert ask(server, "/livez")[0] == 200


@pytest.mark.parametrize("state", list(State))
def test_only_working_and_standing_by_are_ready_and_the_reason_is_reported(server, health, state):
    health.enter(state, "because")
    status, _, body = ask(server, "/readyz")
    assert status == (200 if state in {State.RUNNING, State.STANDBY} else 503)
    assert json.loads(body) == {"ready": status == 200, "state": state, "detail": "because"}


def test_the_status_tells_what_the_loop_reported(server, health, metrics):
    health.enter(State.RUNNING)
    health.report(positions={"docs/0": 7}, lag={"docs/0": 2}, scheme="a1b2c3d4", tasks=("0",))
    metrics.batch(BatchReport.of([Decision(Verdict.UNIQUE)] * 3))
    told = json.loads(ask(server, "/status")[2])
    assert told["positions"] == {"docs/0": 7}
    assert told["lag"] == {"docs/0": 2}
    assert told["verdicts"]["unique"] == 3
    assert (told["scheme"], told["tasks"], told["state"]) == ("a1b2c3d4", ["0"], "running")


def test_a_status_field_that_does_not_exist_is_a_mistake(health):
    with pytest.raises(TypeError):
        health.report(seed="s3cret")


def test_other_pages_and_methods_are_refused(server):
    assert ask(server, "/etc/passwd")[0] == 404
    assert ask(server, "/status?seed=1")[0] == 200
    assert [ask(server, "/metrics", each)[0] for each in ("POST", "PUT")] == [405, 501]
    status, headers, body = ask(server, "/metrics", "HEAD")
    assert (status, body) == (200, b"")
    assert int(headers["Content-Length"]) > 1000


def test_a_port_in_use_is_a_configuration_problem_with_a_cure(server, health, metrics):
    host, port = server.address
    with pytest.raises(ConfigError) as caught:
        window.Server(host, port, pages=Pages(health, metrics))
    assert caught.value.exit_code == ExitCode.CONFIG
    assert caught.value.problems[0].key == "http.port"


@pytest.mark.parametrize("host", ["no.such.host.invalid", "256.0.0.1", "192.0.2.1", "a" * 300])
def test_an_address_that_is_none_is_a_configuration_problem(host, health, metrics):
    with pytest.raises(ConfigError) as refused:
        window.Server(host, 0, pages=Pages(health, metrics))
    assert refused.value.problems[0].key == "http.host"


@contextmanager
def held(server, number: int, said: bytes = b"") -> Iterator[list[socket.socket]]:
    """Connections that hold on, after they *said* so much."""
    connections = []
    try:
        for _ in range(number):
            connections.append(socket.create_connection(server.address, timeout=60))
            connections[-1].sendall(said)
        yield connections
    finally:
        for each in connections:
            each.close()


def is_over(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


SAYINGS = {
    "nothing": b"",
    "a part of its line": b"GET /li",
    "a header without end": b"GET /livez HTTP/1.0\r\nX: ",
}


@pytest.mark.parametrize("said", SAYINGS.values(), ids=SAYINGS)
def test_probes_are_answered_while_more_clients_than_there_are_places_hold_on(server, said):
    """Sixteen such connections were enough: the probes were hung up on, and the process killed."""
    with held(server, 3 * window.REQUESTS_MAX, said):
        for _ in range(5):
            assert ask(server, "/livez")[0] == 200


def test_a_client_that_feeds_its_request_byte_by_byte_makes_room_like_one_that_is_silent(server):
    with held(server, window.REQUESTS_MAX, b"GET /livez HTTP/1.0\r\n") as slow:
        for byte in b"X-Slow":
            for each in slow[-5:]:
                each.sendall(bytes([byte]))
            assert ask(server, "/livez")[0] == 200
        assert is_over(slow[0])


def test_who_came_first_makes_room_and_no_one_else(server):
    with held(server, window.REQUESTS_MAX) as waiting:
        assert ask(server, "/livez")[0] == 200
        assert is_over(waiting[0])
        for each in waiting[1:]:
            each.sendall(b"GET /livez HTTP/1.0\r\n\r\n")
            assert each.recv(100).startswith(b"HTTP/1.0 200")


def test_a_request_that_is_being_answered_does_not_make_room(server, monkeypatch):
    pages, asked, proceed = server._server.pages, threading.Event(), threading.Event()

    class Slow:
        def answer(self, path: str, accept: str):
            if path == "/metrics":
                asked.set()
                proceed.wait(60)
            return pages.answer(path, accept)

    monkeypatch.setattr(server._server, "pages", Slow())
    with held(server, 1, b"GET /metrics HTTP/1.0\r\n\r\n") as (scraper,):
        assert asked.wait(60)
        with held(server, window.REQUESTS_MAX):
            assert ask(server, "/livez")[0] == 200
        proceed.set()
        assert scraper.recv(100).startswith(b"HTTP/1.0 200")


def test_who_does_not_come_to_an_end_is_hung_up_on(server, monkeypatch):
    monkeypatch.setattr(window, "REQUEST_SECONDS_MAX", 0.5)
    with held(server, 3, b"GET /livez HTTP/1.0\r\nX: ") as slow:
        assert all(map(is_over, slow))


def test_threads_are_bounded_whatever_comes(server):
    others = threading.enumerate()  # another test's server may still have one
    with held(server, 5 * window.REQUESTS_MAX):
        ask(server, "/livez")
        begun = [each for each in threading.enumerate() if each not in others]
        serving = [each for each in begun if "process_request" in each.name]
        assert len(serving) <= window.REQUESTS_MAX


def test_a_request_line_or_header_without_end_is_refused(server):
    for request in (b"GET /" + b"a" * 70_000, b"GET / HTTP/1.0\r\n" + b"a: b\r\n" * 200):
        with socket.create_connection(server.address) as connection:
            connection.sendall(request + b"\r\n\r\n")
            assert connection.recv(100).startswith((b"HTTP/1.0 414", b"HTTP/1.0 431"))


def test_closing_frees_the_port_and_ends_the_thread(health, metrics):
    server = window.Server("127.0.0.1", 0, pages=Pages(health, metrics))
    address = server.address
    server.close()
    assert "http" not in {thread.name for thread in threading.enumerate() if thread.is_alive()}
    with window.Server(*address, pages=Pages(health, metrics)) as again:
        assert again.address == address


@pytest.mark.parametrize("path", ["/status", "/readyz"])
def test_a_reason_that_quotes_a_secret_is_masked(server, health, path):
    logs.MASKER.learn(["hunter2-S3NT1NEL"])
    health.enter(State.STARTING, "no such value: hunter2-S3NT1NEL")
    body = ask(server, path)[2]
    assert b"no such value: ********" in body
    health.stall("it waits for hunter2-S3NT1NEL")
    assert b"hunter2" not in ask(server, "/livez")[2]


@cases(
    ("host", "allowed"),
    [
        ("evil.example", False), ("evil.example:9464", False), ("EVIL.example.", False),
        ("127.0.0.1.evil.example", False), ("localhost.evil.example", False), ("1.2.3", False),
        ("127.0.0.1", True), ("127.0.0.1:9464", True), ("[::1]:9464", True), ("[::1]", True),
        ("10.1.2.3:80", True), ("localhost", True), ("filter:9464", True), ("pod.ns.svc", True),
        ("filter.ns.svc.cluster.local:9464", True), ("ours.example.com:9464", True), (None, True),
    ],
)  # fmt: skip
def test_only_names_that_no_one_can_rebind_are_answered(host, allowed):
    assert AllowedHosts(["Ours.example.com"]).allows(host) is allowed
    assert AllowedHosts(["*"]).allows(host)


def test_a_page_that_rebinds_its_name_reads_nothing_and_probes_get_through(health, metrics):
    pages = Pages(health, metrics)
    with window.Server("127.0.0.1", 0, pages=pages, allowed_hosts=["ours.example"]) as server:
        for path in ("/", "/status", "/status?x=/livez", "/none"):
            code, _, body = ask(server, path, Host="evil.example")
            assert (code, b"http.allowed_hosts" in body) == (403, True)
            assert b"streamfilter_" not in body
            assert ask(server, path, Host="ours.example:80")[0] != 403
        for path in ("/livez", "/readyz"):
            assert ask(server, path, Host="evil.example")[0] in (200, 503)
        assert ask(server, "/metrics", Host="prometheus-target.example:9464")[0] == 200
