"""The alerts: each fires, each stays quiet, each has its runbook, and all ask for what exists."""

import re
from pathlib import Path

import pytest
import yaml

from deploy import runbooks
from deploy.kubernetes import __main__ as kubernetes
from deploy.kubernetes import chart
from tests.deploy.promql import selectors
from tests.deploy.test_dashboards import exposed_names
from tests.deploy.tools import accepted, tool
from tests.support.cases import cases
from tests.support.texts import TEXTS

ROOT = Path(__file__).parents[3]
RULES = ROOT / "deploy" / "prometheus" / "streamfilter.rules.yml"
TESTS = sorted((Path(__file__).parent / "rules").glob("*.test.yml"))
CASES = [case for path in TESTS for case in yaml.load(path.read_text(), yaml.CSafeLoader)["tests"]]
GROUPS = yaml.load(RULES.read_text(), yaml.CSafeLoader)["groups"]
ALERTS = [rule for group in GROUPS for rule in group["rules"] if "alert" in rule]
RECORDED = {rule["record"] for group in GROUPS for rule in group["rules"] if "record" in rule}
EXPRESSIONS = [rule["expr"] for group in GROUPS for rule in group["rules"]]

each_alert = pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert["alert"])


def promtool(*arguments: str) -> str:
    return accepted([tool("promtool", package="prometheus"), *arguments])


def test_promtool_accepts_the_rules():
    assert f"SUCCESS: {len(EXPRESSIONS)} rules found" in promtool("check", "rules", str(RULES))


def test_promtool_accepts_the_configuration():
    promtool("check", "config", str(RULES.parent / "prometheus.yml"))


@pytest.mark.parametrize("path", TESTS, ids=lambda path: path.name)
def test_every_alert_fires_and_stays_quiet_as_its_test_says(path):
    assert "SUCCESS" in promtool("test", "rules", str(path))


@each_alert
def test_an_alert_has_a_test_that_it_fires_and_one_that_it_stays_quiet(alert):
    mine = [test for test in CASES if test["name"].startswith(f"{alert['alert']}: ")]
    fires = [t for t in mine if alert["alert"] in str(t["promql_expr_test"])]
    quiet = [t for t in mine if all(not c["exp_samples"] for c in t["promql_expr_test"])]
    assert fires
    assert quiet


@each_alert
def test_an_alert_says_how_bad_it_is_and_where_its_runbook_is(alert):
    assert alert["labels"]["severity"] in {"page", "ticket"}
    assert alert["annotations"]["summary"]
    name = alert["alert"].lower()
    assert alert["annotations"]["runbook_url"] == f"{runbooks.BASE}#{name}"
    assert f'<a id="{name}"></a>{alert["alert"]} |' in TEXTS["deploy/README.md"]


def test_all_alerts_link_to_the_page_that_an_operator_names(tmp_path, monkeypatch):
    rules, manifest = tmp_path / "rules.yml", tmp_path / "prometheusrule.yaml"
    rules.write_text(RULES.read_text())
    for module in (runbooks, kubernetes):
        monkeypatch.setattr(module, "RULES", rules)
    monkeypatch.setattr(kubernetes, "MANIFEST", manifest)
    monkeypatch.setattr(chart, "CHART", tmp_path / "chart")
    base = "https://wiki.example/display/OPS/streamfilter?page=1"
    assert runbooks.main([base]) == 0
    promtool("check", "rules", str(rules))
    spec = yaml.safe_load(manifest.read_text())["spec"]
    for groups in (yaml.safe_load(rules.read_text())["groups"], spec["groups"]):
        links = [
            rule["annotations"]["runbook_url"]
            for group in groups
            for rule in group["rules"]
            if "alert" in rule
        ]
        assert links == [f"{base}#{alert['alert'].lower()}" for alert in ALERTS]
    assert runbooks.main([runbooks.BASE]) == 0
    assert rules.read_text() == RULES.read_text(), "and back"
    assert runbooks.main(["https://wiki.example/#page"]) == 64


def test_the_readme_has_no_runbook_without_an_alert():
    anchors = set(re.findall(r'<a id="(streamfilter\w+)">', TEXTS["deploy/README.md"]))
    assert anchors == {alert["alert"].lower() for alert in ALERTS}


@cases("expression", EXPRESSIONS)
def test_a_rule_asks_for_metrics_that_exist(expression):
    names = {selector.name for selector in selectors(expression)}
    assert names <= exposed_names() | RECORDED | {"up"}
