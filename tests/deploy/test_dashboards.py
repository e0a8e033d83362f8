"""The dashboards as files: generated, complete, parseable, and about metrics that exist."""

import json
import re
from pathlib import Path

import pytest
import yaml

from deploy.grafana import overview
from deploy.grafana.__main__ import DIRECTORY, dashboards
from deploy.grafana.panels import DATASOURCE
from deploy.grafana.reading import VARIABLES, filled, panels, variables
from streamfilter.model import Verdict
from streamfilter.monitoring import colours
from streamfilter.monitoring.catalogue import CATALOGUE, MetricKind
from tests.deploy.promql import selectors
from tests.support.cases import over
from tests.support.texts import TEXTS

ROOT = Path(__file__).parents[2]
PROVISIONING = ROOT / "deploy" / "grafana" / "provisioning"
FILES = sorted(DIRECTORY.glob("*.json"))
PANELS = [(path.stem, panel) for path in FILES for panel in panels(path)]
TARGETS = [(panel.title, target) for _, panel in PANELS for target in panel.targets]
OF_THE_PROCESS = {
    "process_cpu_seconds_total",
    "process_resident_memory_bytes",
    "process_open_fds",
    "process_start_time_seconds",
}

each_panel, each_target = over([p for _, p in PANELS]), over([t for _, t in TARGETS])


def exposed_names() -> set[str]:
    """Return the name of every sample that a process can expose."""
    names = set(OF_THE_PROCESS)
    for metric in CATALOGUE:
        endings = ("_bucket", "_sum", "_count") if metric.kind is MetricKind.HISTOGRAM else ("",)
        names |= {metric.full_name + ending for ending in endings}
    return names


def test_the_committed_files_are_what_the_generator_writes():
    assert {path.name: path.read_text() for path in FILES} == dashboards()


def test_there_are_two_dashboards_with_thirty_expressions_and_more():
    assert [path.stem for path in FILES] == ["internals", "overview"]
    assert len({target.expression for _, target in TARGETS}) >= 30


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_row_that_needs_a_setting_is_closed_and_none_that_is_open_follows(path):
    rows = [each for each in json.loads(path.read_text())["panels"] if each["type"] == "row"]
    closed = [each["collapsed"] for each in rows]
    assert closed == ["(with " in each["title"] for each in rows] == sorted(closed)
    assert all(bool(each["panels"]) == each["collapsed"] for each in rows)


@each_panel
def test_every_panel_has_a_title_a_description_and_a_unit(panel):
    assert panel.title
    assert panel.description.endswith((".", ")"))
    assert panel.unit
    assert panel.targets


def test_no_two_panels_of_a_dashboard_have_one_title():
    titled = [(name, panel.row, panel.title) for name, panel in PANELS]
    assert len(titled) == len(set(titled))


@each_target
def test_an_expression_asks_by_job_and_instance_and_uses_no_other_variable(target):
    assert variables(target.expression) <= VARIABLES
    for selector in selectors(filled(target.expression)):
        assert {"job", "instance"} <= selector.labels, selector
    assert 'job=~"$job",instance=~"$instance"' in target.expression


@each_target
def test_an_expression_parses_and_names_metrics_that_exist(target):
    names = {selector.name for selector in selectors(filled(target.expression))}
    assert names
    assert names <= exposed_names() | {"ALERTS"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_restarts_and_takeovers_are_marked_in_all_panels(path):
    marks = json.loads(path.read_text())["annotations"]["list"]
    assert [mark["name"] for mark in marks] == ["Restarts", "Takeovers"]
    for mark in marks:
        assert mark["enable"]
        assert mark["datasource"]["uid"] == DATASOURCE
        (selector,) = selectors(filled(mark["expr"]))
        assert selector.name in exposed_names()
        assert {"job", "instance"} <= selector.labels
        assert variables(mark["expr"]) <= VARIABLES


def drawn(title: str) -> dict:
    """Return how a panel of the overview draws its values."""
    rows = json.loads((DIRECTORY / "overview.json").read_text())["panels"]
    every = [panel for row in rows for panel in (row, *row.get("panels", ()))]
    (found,) = (panel for panel in every if panel.get("title") == title)
    return found["fieldConfig"]


def test_a_verdict_has_one_colour_and_dead_letters_are_red():
    assert overview.BY_VERDICT.keys() == set(Verdict)
    for title, meant in (
        ("Records by verdict", overview.BY_VERDICT),
        ("Share of each verdict", overview.BY_VERDICT),
        ("Records written", overview.BY_DESTINATION),
    ):
        found = {
            each["matcher"]["options"]: each["properties"][0]["value"]["fixedColor"]
            for each in drawn(title)["overrides"]
        }
        assert found == meant
    shades = {"mode": "shades", "fixedColor": colours.RED}
    assert drawn("Dead letters")["defaults"]["color"] == shades


@pytest.mark.parametrize(
    "title",
    [
        "Recall, audited, with its interval",
        "Precision, audited, with its interval",
        "Recall of equal texts, audited",
    ],
)
def test_an_estimate_near_one_fills_its_panel_and_a_bad_one_is_not_cut_off(title):
    defaults = drawn(title)["defaults"]
    assert defaults["custom"]["axisSoftMin"] == 0.9
    assert defaults.get("min") is None
    assert defaults["max"] == 1


@each_target
def test_a_rate_covers_the_rate_interval_and_a_total_what_is_shown(target):
    windows = set(re.findall(r"\[([^\]]+)\]", target.expression))
    assert windows <= {"$__rate_interval", "$__range"}
    assert "$__range" not in target.expression or "increase(" in target.expression


@each_target
def test_a_legend_names_labels_that_the_expression_keeps(target):
    for label in re.findall(r"\{\{(\w+)\}\}", target.legend):
        kept = f"by ({label})" in target.expression or re.search(
            rf"by \([^)]*\b{label}\b[^)]*\)", target.expression
        )
        raw = "sum" not in target.expression and "max" not in target.expression
        assert kept or raw, (target.legend, target.expression)


def test_every_panel_and_query_asks_the_provisioned_datasource():
    assert {each for _, panel in PANELS for each in panel.datasources} == {DATASOURCE}


def test_the_datasource_that_is_provisioned_has_that_uid():
    (source,) = _yaml("datasources/prometheus.yaml")["datasources"]
    assert (source["uid"], source["type"]) == (DATASOURCE, "prometheus")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_dashboard_lets_one_choose_job_and_instance(path):
    dashboard = json.loads(path.read_text())
    chosen = {each["name"]: each for each in dashboard["templating"]["list"]}
    assert list(chosen) == ["job", "instance"]
    for variable in chosen.values():
        assert variable["multi"]
        assert variable["includeAll"]
        assert variable["datasource"]["uid"] == DATASOURCE


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_no_panel_lies_on_another(path):
    taken: set[tuple[int, int]] = set()
    for panel in panels(path):
        x, y, width, height = panel.place
        cells = {(x + i, y + j) for i in range(width) for j in range(height)}
        assert not cells & taken, panel.title
        assert x + width <= 24
        taken |= cells


def _yaml(name: str) -> dict:
    return yaml.safe_load((PROVISIONING / name).read_text())


def test_the_readme_shows_a_picture_of_each_dashboard():
    shown = set(re.findall(r"\((grafana/pictures/\S+)\)", TEXTS["deploy/README.md"]))
    assert {Path(path).stem for path in shown} == {path.stem for path in FILES}
    assert all((ROOT / "deploy" / path).stat().st_size < 400_000 for path in shown)
