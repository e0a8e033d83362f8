"""Scrapes of the real service on a real broker: complete, consistent, and answered all its life."""

import math
import random

import pytest
from prometheus_client.parser import text_string_to_metric_families

from streamfilter.monitoring.catalogue import ACTIVITIES, CATALOGUE, TOPIC, MetricKind
from tests.kafka.story import records, texts
from tests.support.topics import Input

SEED = 20_261_124
SETTINGS = {
    "batch": {"documents": 50},
    "audit": {"arrivals": 1.0},
    "kafka": {"session_timeout": "3s", "consumer": {"statistics.interval.ms": 200},
              "producer": {"statistics.interval.ms": 200}},
}  # fmt: skip
HEARD = ("owner", "data", "producer")
"""The clients that speak while nothing is restored."""

Series = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def read(body: str) -> Series:
    samples = [each for family in text_string_to_metric_families(body) for each in family.samples]
    return {
        (each.name.removeprefix("streamfilter_"), tuple(sorted(each.labels.items()))): each.value
        for each in samples
        if each.name.startswith("streamfilter_")
    }


def total(series: Series, name: str) -> float:
    return sum(value for (found, _), value in series.items() if found == name)


def check(series: Series) -> None:
    """What holds in every scrape of every state."""
    consumed = total(series, "records_consumed_total")
    assert consumed == total(series, "documents_total") == total(series, "batch_documents_sum")
    assert total(series, "state") == 1
    shown = {(name, labels) for name, labels in series if not name.endswith("_bucket")}
    for metric in CATALOGUE:
        name = metric.name + ("_count" if metric.kind is MetricKind.HISTOGRAM else "")
        values = metric.values or (() if metric.label else ("",))
        if metric.kind is not MetricKind.INFO:
            for value in values:
                label = ((metric.label, value),) if value else ()
                assert (name, label) in shown


OF_RECORDS = {f"held_out_valid_share{end}" for end in ("", "_lower", "_upper")}
"""Of `input.format: fields` only; these are texts."""
OF_A_RETENTION = {"index_expected_bytes"}
"""There is none: all is remembered."""
OF_BACKUPS = {"backup_every_seconds", "backup_last_timestamp_seconds"}
OF_A_CLUSTER = {"edge_waiting_records", "edge_waiting_seconds", "judge_busy_ratio"}
OF_A_TABLE = {"boilerplate_sample_share"}
"""There is no table of boilerplate."""
OF_RUNS = {"rocksdb_front_density"}
"""All buckets are in memory, in no run yet."""


@pytest.mark.slow
def test_a_real_scrape_has_every_metric_and_what_can_be_known_is_known(embedded_stage):
    stage = embedded_stage()
    stage.produce(records(texts(random.Random(SEED), 400)))
    stage.produce([Input(b"{broken")])
    process = stage.start(**SETTINGS)
    stage.drain(process)
    heard: Series = {}

    def all_heard(_: object) -> bool:
        heard.update(read(process.get("/metrics") or ""))
        clients = [heard.get(("kafka_requests_total", (("client", c),)), 0) for c in HEARD]
        found = heard["audit_results_total", (("result", "true_positive"),)]
        return (
            all(clients)
            and not math.isnan(heard["index_oldest_timestamp_seconds", ()])
            and found > 10
            and not math.isnan(heard["audit_recall_equal", ()])
        )

    process.wait_for(all_heard, what="statistics of every client and of the index, and the audit")
    check(heard)
    body = process.get("/metrics") or ""
    assert len([line for line in body.splitlines() if not line.startswith("#")]) <= 600
    series = read(body)
    unknown = {name for (name, _), value in series.items() if math.isnan(value)}
    of_others = OF_A_RETENTION | OF_A_TABLE | OF_BACKUPS | OF_A_CLUSTER
    assert unknown == OF_RECORDS | OF_RUNS | of_others
    names = {name for name, _ in series}
    for metric in (each for each in CATALOGUE if each.label != TOPIC):
        assert metric.name + ("_bucket" if metric.kind is MetricKind.HISTOGRAM else "") in names
    assert total(series, "records_consumed_total") == 401
    assert total(series, "dead_letters_total") == 1
    results = {labels[0][1]: value for (name, labels), value in series.items()
               if name == "audit_results_total"}  # fmt: skip
    assert results["true_positive"] > 10
    assert results["false_positive"] == results["false_negative"] == 0
    assert series["audit_recall", ()] == 1
    assert total(series, "matches_total") > 0
    assert series["consumer_lag_records", ()] == series["consumer_lag_seconds", ()] == 0
    assert series["index_bytes", ()] > 0
    assert series["index_oldest_timestamp_seconds", ()] > 1.7e9
    told = process.status()
    spent = {a: series["activity_seconds_total", (("activity", a),)] for a in ACTIVITIES}
    assert 0 < sum(spent.values()) <= told["uptime_seconds"] + 0.1
    assert {a for a, seconds in spent.items() if seconds} == set(ACTIVITIES) - {"restore", "stop"}
    assert process.terminate() == 0
