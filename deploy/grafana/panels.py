"""Builds a dashboard from rows of charts, with Grafana's SDK.

A chart cannot be created without a title, a description and a unit.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from string import ascii_uppercase
from typing import Any

from grafana_foundation_sdk.builders import common, dashboard, heatmap, prometheus, stat, timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import common as forms
from grafana_foundation_sdk.models import dashboard as model
from grafana_foundation_sdk.models import heatmap as heat
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from streamfilter.monitoring.colours import BLUE

DATASOURCE = "streamfilter-prometheus"
"""The uid that deploy/grafana/provisioning gives the datasource."""

COLUMNS = 24
NUMBER_ROWS, CHART_ROWS = 4, 8

Build = Callable[["Chart"], Any]


class Form(Enum):
    """The kinds of charts."""

    LINES = "lines"
    STACKED = "stacked"
    NUMBER = "number"
    NAMES = "names"
    """A number panel that shows the legend instead of the value, for states and versions."""
    HEATMAP = "heatmap"


@dataclass(frozen=True, slots=True)
class Query:
    """One PromQL expression. Grafana replaces ``{{label}}`` in the legend."""

    expression: str
    legend: str = ""


@dataclass(frozen=True, slots=True)
class Chart:
    """One panel."""

    title: str
    description: str
    """For the engineer on call: the meaning of the values, and which values are bad."""
    unit: str
    """Grafana's name of the unit, such as ``percentunit``."""
    queries: tuple[Query, ...]
    form: Form = Form.LINES
    width: int = 8
    """Number of columns, of `COLUMNS`."""
    ceiling: float | None = None
    floor: float | None = None
    """Start of the axis, unless a value is lower; None: always 0."""
    colours: Mapping[str, str] = field(default_factory=dict)
    """Colour by legend, for series with a meaning; the legend "" gives all series shades of one."""
    limits: tuple[tuple[str, float], ...] = ()
    """(colour, lowest value with it), for a number panel."""
    decimals: int | None = None
    tall: bool = False
    """True: a number panel gets the height of a chart."""


@dataclass(frozen=True, slots=True)
class Row:
    """Charts under one heading."""

    title: str
    charts: tuple[Chart, ...]
    needs: str = ""
    """The setting without which it has no data: it is closed until one opens it. Grafana asks
    nothing for a closed row, and before version 12 cannot hide an empty panel."""


@dataclass(frozen=True, slots=True)
class Mark:
    """An event, shown as a line through all panels at each time when *expression* has a value."""

    name: str
    expression: str
    colour: str


def build(
    uid: str, title: str, description: str, rows: Sequence[Row], marks: Sequence[Mark] = ()
) -> dict[str, Any]:
    """Return the dashboard in Grafana's JSON model."""
    whole = (
        dashboard.Dashboard(title)
        .uid(uid)
        .description(description)
        .tags(["streamfilter", "kafka"])
        .refresh("10s")
        .time("now-1h", "now")
        .timezone("browser")
        .tooltip(model.DashboardCursorSync.CROSSHAIR)
        .editable()
        .link(_to_the_other())
        .with_variable(_variable("job", "label_values(streamfilter_build_info, job)"))
        .with_variable(
            _variable("instance", 'label_values(streamfilter_build_info{job=~"$job"}, instance)')
        )
    )
    for mark in marks:
        whole.annotation(_annotation(mark))
    for row in rows:
        assert sum(chart.width for chart in row.charts) % COLUMNS == 0, row.title
        panels = [_MAKERS[chart.form](chart) for chart in row.charts]
        heading = dashboard.Row(f"{row.title} (with {row.needs})" if row.needs else row.title)
        for panel in panels if row.needs else ():
            heading.with_panel(panel)  # which closes it
        whole.with_row(heading)
        for panel in () if row.needs else panels:
            whole.with_panel(panel)
    plain: dict[str, Any] = json.loads(json.dumps(whole.build(), cls=JSONEncoder))
    return plain


def _annotation(mark: Mark) -> dashboard.AnnotationQuery:
    query = dashboard.AnnotationQuery().name(mark.name).datasource(_source()).enable(True)
    return query.hide(False).icon_color(mark.colour).expr(mark.expression)


def _to_the_other() -> dashboard.DashboardLink:
    link = dashboard.DashboardLink("streamfilter").type(model.DashboardLinkType.DASHBOARDS)
    return link.tags(["streamfilter"]).include_vars(True).keep_time(True).as_dropdown(False)


def _source() -> model.DataSourceRef:
    return model.DataSourceRef(type_val="prometheus", uid=DATASOURCE)


def _variable(name: str, query: str) -> dashboard.QueryVariable:
    everything = model.VariableOption(selected=True, text="All", value="$__all")
    return (
        dashboard.QueryVariable(name)
        .label(name)
        .description(f"Which {name}s of Prometheus are shown.")
        .datasource(_source())
        .query({"query": query, "refId": name, "qryType": 5})
        .refresh(model.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(model.VariableSort.ALPHABETICAL_ASC)
        .multi(True)
        .include_all(True)
        .all_value(".*")
        .current(everything)
    )


def _with_queries(panel: Any, chart: Chart, *, rows: int) -> Any:
    """Set the properties that all panels have."""
    panel.title(chart.title).description(chart.description).unit(chart.unit)
    panel.datasource(_source()).span(chart.width).height(rows)
    if chart.floor is None:
        panel.min(0)
    else:
        panel.axis_soft_min(chart.floor)
    for name, colour in chart.colours.items():
        if name:
            fixed = {"mode": "fixed", "fixedColor": colour}
            panel.override_by_name(name, [model.DynamicConfigValue(id_val="color", value=fixed)])
        else:
            shades = dashboard.FieldColor().mode(model.FieldColorModeId.SHADES)
            panel.color_scheme(shades.fixed_color(colour))
    if chart.decimals is not None:
        panel.decimals(chart.decimals)
    if chart.ceiling is not None:
        panel.max(chart.ceiling)
    for letter, query in zip(ascii_uppercase, chart.queries, strict=False):
        asked = prometheus.Dataquery().expr(query.expression).ref_id(letter).datasource(_source())
        asked.legend_format(query.legend or "__auto")
        if chart.form in (Form.NUMBER, Form.NAMES):
            asked.instant()
        else:
            asked.range()
        if chart.form is Form.HEATMAP:
            asked.format(PromQueryFormat.HEATMAP)
        panel.with_target(asked)
    return panel


def _lines(chart: Chart) -> timeseries.Panel:
    legend = common.VizLegendOptions().display_mode(forms.LegendDisplayMode.LIST)
    tooltip = common.VizTooltipOptions().mode(forms.TooltipDisplayMode.MULTI)
    panel = timeseries.Panel().line_width(1).fill_opacity(8).show_points(forms.VisibilityMode.NEVER)
    panel.legend(legend.placement(forms.LegendPlacement.BOTTOM).show_legend(True).calcs([]))
    panel.tooltip(tooltip.sort(forms.SortOrder.DESCENDING))
    if chart.form is Form.STACKED:
        stacking = common.StackingConfig().mode(forms.StackingMode.NORMAL).group("A")
        panel.stacking(stacking).fill_opacity(45)
    built: timeseries.Panel = _with_queries(panel, chart, rows=CHART_ROWS)
    return built


def _number(chart: Chart) -> stat.Panel:
    names = chart.form is Form.NAMES
    reduce = common.ReduceDataOptions().calcs(["lastNotNull"]).values(False).fields("")
    panel = stat.Panel().reduce_options(reduce).graph_mode(forms.BigValueGraphMode.NONE)
    panel.text_mode(forms.BigValueTextMode.NAME if names else forms.BigValueTextMode.AUTO)
    panel.color_mode(forms.BigValueColorMode.VALUE).no_value("–")
    steps = [model.Threshold(value=None, color=chart.limits[0][0] if chart.limits else BLUE)]
    steps += [model.Threshold(value=value, color=color) for color, value in chart.limits[1:]]
    absolute = dashboard.ThresholdsConfig().mode(model.ThresholdsMode.ABSOLUTE).steps(steps)
    built: stat.Panel = _with_queries(
        panel.thresholds(absolute), chart, rows=CHART_ROWS if chart.tall else NUMBER_ROWS
    )
    return built


def _heatmap(chart: Chart) -> heatmap.Panel:
    colours = heatmap.HeatmapColorOptions().mode(heat.HeatmapColorMode.SCHEME).scheme("Oranges")
    axis = heatmap.YAxisConfig().unit(chart.unit).min(0)
    panel = heatmap.Panel().calculate(False).color(colours.steps(64)).y_axis(axis).cell_gap(1)
    built: heatmap.Panel = _with_queries(panel, chart, rows=CHART_ROWS)
    return built


_MAKERS: dict[Form, Build] = {
    Form.LINES: _lines,
    Form.STACKED: _lines,
    Form.NUMBER: _number,
    Form.NAMES: _number,
    Form.HEATMAP: _heatmap,
}
