"""A real OpenTelemetry Collector writes down what a scrape shows, and a span for each batch.

It is built once from the Go module proxy, which takes three minutes. So only the long run has it.
"""

import json
import os
import shutil
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from google.protobuf.json_format import Parse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)

from deploy.local.jars import cache_directory
from deploy.local.node import free_ports
from streamfilter.model import Verdict
from streamfilter.monitoring import otlp
from streamfilter.monitoring.batch_report import BatchSpan
from streamfilter.monitoring.otlp import Telemetry
from tests.deploy.tools import tool
from tests.metrics.test_otlp import received, scraped, worked

SOURCE = Path(__file__).parent / "collector"
CUMULATIVE = 2
READY_SECONDS = 60


@contextmanager
def collector(directory: Path):
    """Yield the address of a running collector, and the file that it has written at the end."""
    program = cache_directory() / "otelcol-0.161.0"
    if not program.exists():
        built = shutil.copytree(SOURCE, directory / "source")
        command = [tool("go", package="golang-go"), "build", "-mod=mod", "-o", str(program), "."]
        subprocess.run(command, cwd=built, env={**os.environ, "CGO_ENABLED": "0"}, check=True)
    address, out, log = f"127.0.0.1:{free_ports(1)[0]}", directory / "out.json", directory / "log"
    pipeline = {"receivers": ["otlp"], "exporters": ["file"]}
    settings = {
        "receivers": {"otlp": {"protocols": {"http": {"endpoint": address}}}},
        "exporters": {"file": {"path": str(out)}},
        "service": {
            "telemetry": {"metrics": {"level": "none"}},
            "pipelines": {"metrics": pipeline, "traces": pipeline},
        },
    }
    config = directory / "collector.yaml"
    config.write_text(json.dumps(settings))
    with log.open("w") as said:
        running = subprocess.Popen([program, "--config", config], stdout=said, stderr=said)
    try:
        deadline = time.monotonic() + READY_SECONDS
        while "Everything is ready" not in log.read_text():
            assert running.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.05)
        yield f"http://{address}", out
    finally:
        running.terminate()
        running.wait(READY_SECONDS)


@pytest.mark.long
def test_a_real_collector_writes_what_a_scrape_shows_and_a_span_for_each_batch(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(otlp, "LAST_SECONDS", 60.0)
    metrics = worked()
    with collector(tmp_path) as (address, out), Telemetry(address, metrics, "news"):
        metrics.spans.append(BatchSpan(50.0, 4, {Verdict.UNIQUE: 3}, {"poll": 2.0}))
    measured, traced = out.read_text().splitlines()
    request = Parse(measured, ExportMetricsServiceRequest())
    assert received(request) == scraped(metrics)
    for metric in request.resource_metrics[0].scope_metrics[0].metrics:
        kind = metric.WhichOneof("data")
        if kind != "gauge":
            assert getattr(metric, kind).aggregation_temporality == CUMULATIVE
    (resource,) = json.loads(traced)["resourceSpans"]
    (span,) = resource["scopeSpans"][0]["spans"]
    assert (span["name"], span["startTimeUnixNano"]) == ("batch", "48000000000")
