"""An alert arrives: our rules in a real Prometheus, our routes in a real Alertmanager, a receiver.

Nothing is changed but clocks and addresses: minutes are a second or two here.
"""

import json
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
import yaml

from deploy.composition import Service, services
from deploy.local.node import free_ports
from deploy.translation import Translation
from streamfilter.demo.running_filter import Child
from tests.deploy.alerts.test_alerts import ALERTS
from tests.deploy.tools import accepted, tool

ROUTES = Path(__file__).parents[3] / "deploy" / "alertmanager" / "alertmanager.yml"
WAIT_SECONDS = 120
FASTER = {
    "scrape_interval: 5s": "scrape_interval: 1s",
    "evaluation_interval: 15s": "evaluation_interval: 1s",
    "for: 5m": "for: 2s",
    "group_wait: 30s": "group_wait: 1s",
    "group_interval: 5m": "group_interval: 1s",
}
WORKING = b'streamfilter_state{state="running"} 1\n'


class Receiver(BaseHTTPRequestHandler):
    """A pager, and a filter that works: what is posted is kept, and `/metrics` answers."""

    arrived: list[tuple[str, dict[str, Any]]]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.arrived.append((self.path, json.loads(body)))
        self._answer(b"")

    def do_GET(self) -> None:
        self._answer(WORKING)

    def _answer(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@contextmanager
def serving(port: int) -> Iterator[list[tuple[str, dict[str, Any]]]]:
    """Answer at *port*; what was posted there is in the list."""
    kept = type("Kept", (Receiver,), {"arrived": []})
    with ThreadingHTTPServer(("127.0.0.1", port), kept) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield kept.arrived
        server.shutdown()


def alerts(arrived: list[tuple[str, dict[str, Any]]], at: str, status: str) -> list[dict[str, Any]]:
    """Return the alerts of one state that one receiver got."""
    return [
        alert
        for path, told in arrived
        for alert in told["alerts"]
        if path == at and alert["status"] == status
    ]


@pytest.fixture
def ports() -> dict[tuple[str, int], int]:
    """Where services are here, as the configuration files name them."""
    inside = [(name, port) for name, each in services().items() for port in each.published]
    return dict(zip(inside, free_ports(len(inside)), strict=True))


@pytest.fixture
def pager(ports, tmp_path) -> Iterator[list[tuple[str, dict[str, Any]]]]:
    """What arrives at both receivers, while a Prometheus and an Alertmanager of ours run."""
    programs = {
        name: tool(program, package=program)
        for name, program in {
            "alertmanager": "prometheus-alertmanager",
            "prometheus": "prometheus",
        }.items()
    }
    (inbox,) = free_ports(1)
    told = {
        f"- name: {name}\n": f"- name: {name}\n    webhook_configs: "
        f'[{{url: "http://127.0.0.1:{inbox}/{name}"}}]\n'
        for name in ("pages", "tickets")
    }
    translation = Translation(tmp_path, ports, FASTER | told)
    children: list[Child] = []

    def start(service: Service) -> None:
        ((_, port),) = ((of, port) for (of, _), port in ports.items() if of == service.name)
        arguments = [translation.of(argument, service) for argument in service.command]
        command = [programs[service.name], *arguments, f"--web.listen-address=127.0.0.1:{port}"]
        log = tmp_path / f"{service.name}.log"
        child = Child(command, log=log)
        children.append(child)
        ready = f"http://127.0.0.1:{port}/-/ready"
        wait(lambda: child.exit_code is not None or answers(ready), log.read_text)
        assert child.exit_code is None, log.read_text()

    with serving(inbox) as arrived:
        try:
            for name in programs:
                start(services()[name])
            yield arrived
        finally:
            for child in children:
                child.stop()


def answers(url: str) -> bool:
    try:
        return bool(urlopen(url, timeout=10).status == 200)
    except OSError:
        return False


def wait(until, explain) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not until():
        assert time.monotonic() < deadline, explain()
        time.sleep(0.1)


def test_an_outage_is_one_page_and_who_is_silent_after_it_a_ticket(pager, ports):
    def pages(status: str) -> list[dict[str, Any]]:
        return [a for a in alerts(pager, "/pages", status) if "job" in a["labels"]]

    wait(lambda: pages("firing"), lambda: f"no page: {pager}")
    (page,) = {(a["labels"]["alertname"], a["labels"]["job"]) for a in pages("firing")}
    assert page == ("StreamfilterNobodyWorks", "streamfilter")
    with serving(ports["streamfilter-a", 9464]):
        wait(lambda: pages("resolved"), lambda: f"it does not end: {pager}")
        wait(lambda: alerts(pager, "/tickets", "firing"), lambda: f"no ticket: {pager}")
    tickets = alerts(pager, "/tickets", "firing")
    # None of a: while no one worked, that both were down followed from it.
    silent = f"127.0.0.1:{ports['streamfilter-b', 9464]}"
    told = {(each["labels"]["alertname"], each["labels"]["instance"]) for each in tickets}
    assert told == {("StreamfilterDown", silent)}
    ticket = tickets[0]
    assert ticket["annotations"]["runbook_url"] == "deploy/README.md#streamfilterdown"
    assert ticket["annotations"]["summary"].endswith("does not answer")


def test_what_mutes_and_what_is_muted_are_alerts_of_ours():
    names = {alert["alert"] for alert in ALERTS}
    for rule in yaml.safe_load(ROUTES.read_text())["inhibit_rules"]:
        for (matcher,) in (rule["source_matchers"], rule["target_matchers"]):
            pattern = matcher.partition("=")[2].lstrip("~").strip('"')
            for each in re.sub(r".*\((.*)\)", r"\1", pattern).split("|"):
                assert any(re.search(f"{each}$", name) for name in names), each


def test_alertmanagers_own_tool_accepts_the_routes_as_they_are():
    amtool = tool("amtool", package="prometheus-alertmanager")
    assert "SUCCESS" in accepted([amtool, "check-config", str(ROUTES)])
