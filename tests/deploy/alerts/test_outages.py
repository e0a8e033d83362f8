"""Every alert in every kind of absence: what does not answer can say nothing, and must be heard."""

from pathlib import Path

import pytest
import yaml

from tests.deploy.alerts.outages import STORIES, Story
from tests.deploy.alerts.test_alerts import ALERTS, EXPRESSIONS, RULES, promtool
from tests.deploy.promql import selectors

FIRING = 'group by (alertname) (ALERTS{alertstate="firing"})'


def expected(names: frozenset[str]) -> list[dict]:
    labels = (f'{{alertname="Streamfilter{name}"}}' for name in sorted(names))
    return [{"labels": each, "value": 1} for each in labels]


def as_test(story: Story) -> dict:
    checks = [
        {"expr": FIRING, "eval_time": f"{minute}m", "exp_samples": expected(names)}
        for minute, names in story.fires.items()
    ]
    series = story.series()
    return {"name": story.name, "interval": "1m", "input_series": series,
            "promql_expr_test": checks}  # fmt: skip


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
def test_what_fires_is_what_the_table_says_and_nothing_else(story, tmp_path: Path):
    path = tmp_path / "outage.test.yml"
    content = {
        "rule_files": [str(RULES)],
        "group_eval_order": ["streamfilter.recorded", "streamfilter"],
        "evaluation_interval": "2m",
        "tests": [as_test(story)],
    }
    path.write_text(yaml.safe_dump(content, width=1_000_000))
    assert "SUCCESS" in promtool("test", "rules", str(path))


def test_every_series_that_an_alert_asks_for_is_there_in_health():
    """An alert that finds nothing is quiet for a reason that proves nothing."""
    shown = {each["series"].partition("{")[0] for each in STORIES[0].series()}
    asked = {selector.name for expression in EXPRESSIONS for selector in selectors(expression)}
    assert {name for name in asked if not name.startswith("streamfilter:")} <= shown


def test_every_outage_of_all_pages_someone():
    pages = {alert["alert"] for alert in ALERTS if alert["labels"]["severity"] == "page"}
    for story in STORIES:
        if story.name.startswith(("total outage", "vanished")):
            told = {f"Streamfilter{name}" for names in story.fires.values() for name in names}
            assert told & pages, story.name
