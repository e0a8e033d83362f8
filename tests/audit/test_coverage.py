"""Every interval that is shown holds the truth, or is none: `tests.audit.coverage`."""

import json
from pathlib import Path

import pytest

from tests.audit import coverage, measuring, streams

LEAST = 0.93


def check(row: dict, *, least: float) -> None:
    print(row)
    for name, told in row["figures"].items():
        assert told["holds"] >= least, (name, told)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stream", "shape"),
    [("clusters", "10 x 10"), ("flood", "5 x 12"), ("templates", "5 x 12"),
     ("bursts, short memory, late", "10 x 10"), ("clusters, by sketch", "10 x 10")],
)  # fmt: skip
def test_clusters_floods_templates_and_bursts_do_not_mislead_the_audit(stream, shape):
    row = measuring.row(stream, shape, runs=6)
    check(row, least=5 / 6)
    assert row["figures"]["audit_recall"]["truth"] < 0.98  # there is something to be missed
    assert set(row["figures"]["audit_recall"]["says"]) == {"interval"}


@pytest.mark.long
@pytest.mark.parametrize("shape", measuring.SHAPES)
@pytest.mark.parametrize("stream", measuring.STREAMS)
def test_in_two_hundred_runs_of_each_stream_and_shape(stream, shape):
    if stream in streams.REAL and not streams.DATA.is_dir():
        pytest.skip("../shared/data is not here: the figures are measured on real text")
    check(measuring.row(stream, shape, runs=200), least=LEAST)


def test_the_record_holds_what_is_promised_and_the_table_is_the_record():
    runs = Path(__file__).parents[1] / "bench_runs"
    rows = json.loads((runs / "coverage.json").read_text())["rows"]
    assert coverage.table(rows) in (runs / "README.md").read_text()
    for row in rows:
        assert row["runs"] >= 200
        assert coverage.least(row) >= LEAST, (row["stream"], row["shape"])
