"""The native demo, as it stands: a real Prometheus scrapes two real filters on a real Kafka."""

import json
import os
import re
import signal
import sys
import time
import urllib.request
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.grafana.reading import Target, filled
from streamfilter.demo.running_filter import Child
from tests.deploy.alerts.test_alerts import ALERTS, EXPRESSIONS
from tests.deploy.prometheus import Prometheus
from tests.deploy.promql import selectors
from tests.deploy.test_dashboards import PANELS, TARGETS
from tests.deploy.tools import accepted, tool
from tests.support.session.shared_broker import require_kafka

ROOT = Path(__file__).parents[2]
SCRAPES_MIN = 20
AUDITED_MIN = 500
"""Documents: the audit has a fiftieth of a thread, which is little on a busy machine."""
START_TIMEOUT_SECONDS = 400
FED = ("rocksdb_estimate_num_keys", "kafka_received_bytes_total", "activity_seconds_total",
       "audit_comparisons_total")  # fmt: skip
NEEDS_TIME = 0.2
"""Share of the expressions that may have no data within so short a time."""


class Demo:
    """`python -m deploy.native`, as a user starts it."""

    def __init__(self, log: Path) -> None:
        command = [sys.executable, "-m", "deploy.native", "--any-ports", "--scrape-interval", "1s"]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        self.child = Child(command, log=log, environment=environment)
        self.log = log
        self.urls: dict[str, str] = {}
        self.directory = Path()

    def wait(self) -> None:
        """Return when Prometheus has looked `SCRAPES_MIN` times, and often enough at work."""
        deadline = time.monotonic() + START_TIMEOUT_SECONDS
        while "Ctrl-C ends all" not in self.said():
            self.check(deadline)
        self.urls = dict(re.findall(r"^(\S+) +(http://\S+)$", self.said(), re.M))
        self.directory = Path(re.findall(r"^logs and data +(\S+)$", self.said(), re.M)[0])
        seen = f"min(count_over_time(up[10m])) >= {SCRAPES_MIN}"
        worked = f"max(streamfilter_audit_arrivals_total) >= {AUDITED_MIN}"
        while not (self._answers() and all(map(self.prometheus.values, (seen, worked)))):
            self.check(deadline)

    def check(self, deadline: float) -> None:
        assert self.child.exit_code is None, self.said()
        assert time.monotonic() < deadline, self.said()
        time.sleep(0.2)

    def _answers(self) -> bool:
        try:
            return bool(self.prometheus.values("up"))
        except OSError:
            return False

    @property
    def prometheus(self) -> Prometheus:
        return Prometheus(self.urls["prometheus"])

    def said(self) -> str:
        return self.log.read_text(errors="replace")

    def page(self, service: str, path: str) -> str:
        with urllib.request.urlopen(self.urls[service] + path, timeout=60) as answer:
            return str(answer.read().decode())


@pytest.mark.slow(100)
def test_the_native_demo_feeds_every_dashboard_and_rule_and_ends_with_ctrl_c(
    tmp_path: Path,
) -> None:
    require_kafka()
    tool("prometheus", package="prometheus")
    tool("prometheus-alertmanager", package="prometheus-alertmanager")
    demo = Demo(tmp_path / "native.log")
    try:
        demo.wait()
        everything_is_there_and_scraped(demo)
        every_panel_of_an_open_row_has_data(demo)
        four_in_five_expressions_have_data(demo)
        every_selector_finds_a_series(demo)
        every_rule_is_evaluated_and_nothing_fires(demo)
        ctrl_c_ends_every_process_and_deletes_what_they_wrote(demo)
    finally:
        demo.child.kill()


def working_status(demo: Demo) -> dict[str, Any]:
    """Return what the working filter tells of itself, once the other stands by."""
    deadline = time.monotonic() + START_TIMEOUT_SECONDS
    while True:
        told = [json.loads(demo.page(name, "/status")) for name in demo.urls if "-" in name]
        known = {status["state"]: status for status in told}
        if known.keys() == {"running", "standby"}:
            return known["running"]
        demo.check(deadline)


def everything_is_there_and_scraped(demo: Demo) -> None:
    """Filters, topics, Prometheus and Alertmanager are connected as a user gets them."""
    config = yaml.safe_load((ROOT / "deploy/prometheus/prometheus.yml").read_text())
    (job,) = config["scrape_configs"]
    (wanted,) = job["static_configs"]
    targets = demo.prometheus.api("targets")["activeTargets"]
    assert [target["health"] for target in targets] == ["up"] * len(wanted["targets"])
    assert {target["labels"]["job"] for target in targets} == {"streamfilter"}
    (found,) = demo.prometheus.api("alertmanagers")["activeAlertmanagers"]
    assert found["url"].startswith(demo.urls["alertmanager"])
    status = json.loads(demo.page("alertmanager", "/api/v2/status"))
    assert "receiver: pages" in status["config"]["original"]
    verdicts = "sum by (verdict) (streamfilter_documents_total) > 0"
    found = {r["metric"]["verdict"] for r in demo.prometheus.api("query", query=verdicts)["result"]}
    assert found >= {"unique", "near_duplicate", "exact_duplicate", "rejected"}
    promtool = tool("promtool", package="prometheus")
    for name in ("streamfilter-a", "streamfilter-b"):
        said = accepted([promtool, "check", "metrics"], stdin=demo.page(name, "/metrics"))
        assert said.strip() == ""
    working = working_status(demo)  # the other one stands by
    assert working["quality"]["audit_recall"] is not None
    assert working["quality"]["audit_decided"] > 20
    assert working["show_payloads"] is True
    assert any(pair["text"] and pair["match_text"] for pair in working["latest"])


def every_panel_of_an_open_row_has_data(demo: Demo) -> None:
    """A plain installation shows nothing empty, before one opens a row of a feature."""
    opened = [panel for _, panel in PANELS if not panel.closed]
    empty = [panel.title for panel in opened if not any(map(partial(_values, demo), panel.targets))]
    assert not empty
    for fed in FED:  # and is not only there
        assert max(demo.prometheus.values(f"streamfilter_{fed}")) > 0, fed


def _values(demo: Demo, target: Target) -> list[float]:
    expression = filled(target.expression, rate_interval="15s", range=f"{SCRAPES_MIN}s")
    if target.instant:
        return demo.prometheus.values(expression)
    return demo.prometheus.drawn(expression, seconds=SCRAPES_MIN)


def four_in_five_expressions_have_data(demo: Demo) -> None:
    empty = [title for title, target in TARGETS if not _values(demo, target)]
    print(f"{len(TARGETS) - len(empty)} of {len(TARGETS)} expressions have data; not: {empty}")
    assert len(empty) <= NEEDS_TIME * len(TARGETS), empty


def every_selector_finds_a_series(demo: Demo) -> None:
    asked = {
        selector.text
        for expression in [*(filled(target.expression) for _, target in TARGETS), *EXPRESSIONS]
        for selector in selectors(expression)
        # Recorded: minutes, not a third of one. And no alert fires here, as it should be. Series by
        # topic exist only where several are read (tests/metrics).
        if not selector.name.startswith(("streamfilter:", "ALERTS", "streamfilter_topic_"))
    }
    alone = {re.sub(r" offset \w+$", "", text) for text in asked}
    lost = [
        text for text in sorted(alone) if not demo.prometheus.api("series", **{"match[]": text})
    ]
    assert not lost


def every_rule_is_evaluated_and_nothing_fires(demo: Demo) -> None:
    groups = demo.prometheus.api("rules")["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    assert len(rules) == len(EXPRESSIONS)
    assert not [rule["lastError"] for rule in rules if rule.get("lastError")]
    alerts = {rule["name"]: rule["state"] for rule in rules if rule["type"] == "alerting"}
    assert len(alerts) == len(ALERTS)
    assert "firing" not in alerts.values()


def ctrl_c_ends_every_process_and_deletes_what_they_wrote(demo: Demo) -> None:
    urls = list(demo.urls.values())
    os.kill(demo.child.pid, signal.SIGINT)
    assert demo.child.wait(240) == 0, demo.said()
    assert not demo.directory.exists()
    for url in urls:
        with pytest.raises(OSError, match="refused"):
            urllib.request.urlopen(url, timeout=5)
    stopped = re.findall(r"^(\S+) stopped \((-?\d+)\)$", demo.said(), re.M)
    assert dict(stopped).keys() == {
        "streamfilter-a", "streamfilter-b", "generator", "prometheus", "alertmanager",
    }  # fmt: skip
    assert {code for _, code in stopped} == {"0"}
