"""OTLP: a receiver gets what a scrape shows, and one that is no good changes nothing."""

import logging
import math
import ssl
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from prometheus_client.parser import text_string_to_metric_families

from streamfilter.config.checks import check_meaning
from streamfilter.config.configuration import Config
from streamfilter.config.loading import load_config
from streamfilter.model import Verdict
from streamfilter.monitoring import otlp
from streamfilter.monitoring.batch_report import BatchReport, BatchSpan
from streamfilter.monitoring.metrics import Metrics
from streamfilter.monitoring.otlp import Telemetry
from streamfilter.process import logs
from streamfilter.stops import ConfigError
from tests.support.secure import Authority

KINDS = {
    "/v1/metrics": ExportMetricsServiceRequest,
    "/v1/traces": ExportTraceServiceRequest,
}
SECRET = "sentinel-3f9a"


@contextmanager
def receiver(answer, context=None):
    """Yield the address of an OTLP receiver and what it got; *answer* replies to each request.

    With the *context* of a certificate it speaks TLS.
    """
    got = {path: [] for path in KINDS}

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            got[self.path].append((self.headers, KINDS[self.path].FromString(body)))
            answer(self)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    server.handle_error = lambda *_: None  # the exporter has hung up
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http{'s' if context else ''}://127.0.0.1:{server.server_port}", got
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def accept(handler):
    handler.send_response(200)
    handler.send_header("Content-Length", "0")
    handler.end_headers()


@pytest.fixture(autouse=True)
def no_exporter_is_left():
    exporters = logging.getLogger("opentelemetry")
    kept = exporters.handlers, exporters.propagate
    yield
    exporters.handlers, exporters.propagate = kept


def worked() -> Metrics:
    metrics = Metrics()
    metrics.batch(BatchReport({Verdict.UNIQUE: 3, Verdict.NEAR_DUPLICATE: 1}, consumed_bytes=9))
    metrics.stages({"poll": 0.25, "commit": 0.5})
    metrics.transaction("committed", 0.02, now=1.0)
    return metrics


def labels(attributes) -> tuple:
    return tuple(sorted((each.key, each.value.string_value) for each in attributes))


def scraped(metrics) -> dict:
    """Return the samples of a scrape without those that are unknown, or the process's own."""
    families = text_string_to_metric_families(metrics.expose()[1].decode())
    samples = [each for family in families for each in family.samples]
    return {
        (each.name, tuple(sorted(each.labels.items()))): each.value
        for each in samples
        if not math.isnan(each.value) and not each.name.startswith("process_")
    }


def received(request) -> dict:
    """Return the points of a request as the samples that a scrape would have."""
    found = {}
    (resource,) = request.resource_metrics
    (scope,) = resource.scope_metrics
    for metric in scope.metrics:
        data = getattr(metric, metric.WhichOneof("data"))
        for point in data.data_points:
            at = labels(point.attributes)
            if metric.HasField("histogram"):
                found[f"{metric.name}_count", at] = point.count
                found[f"{metric.name}_sum", at] = point.sum
                for number, edge in enumerate([*point.explicit_bounds, math.inf], 1):
                    le = "+Inf" if edge == math.inf else str(edge)
                    below = sum(point.bucket_counts[:number])
                    found[f"{metric.name}_bucket", tuple(sorted([*at, ("le", le)]))] = below
            else:
                found[metric.name, at] = getattr(point, point.WhichOneof("value"))
    return {key: value for key, value in found.items() if not key[0].startswith("process_")}


def test_a_receiver_gets_what_a_scrape_shows_and_a_span_for_each_batch(monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", f"authorization=Bearer%20{SECRET}")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test")
    metrics = worked()
    with receiver(accept) as (address, got):
        with Telemetry(f"{address}/", metrics, "news"):
            metrics.spans.append(
                BatchSpan(50.0, 4, {Verdict.UNIQUE: 3}, {"poll": 2.0, "commit": 0.5})
            )
        ((headers, sent),) = got["/v1/metrics"]
        ((_, traced),) = got["/v1/traces"]
    assert received(sent) == scraped(metrics)
    assert headers["Authorization"] == f"Bearer {SECRET}"
    kinds = {
        m.name: m.WhichOneof("data") for m in sent.resource_metrics[0].scope_metrics[0].metrics
    }
    assert kinds["streamfilter_records_consumed_total"] == "sum"
    assert kinds["streamfilter_index_documents"] == "gauge"
    assert kinds["process_cpu_seconds_total"] == "sum"
    named = dict(labels(sent.resource_metrics[0].resource.attributes))
    assert named["service.name"] == "streamfilter"
    assert named["messaging.consumer.group.name"] == "news"
    assert named["deployment.environment"] == "test"
    (span,) = traced.resource_spans[0].scope_spans[0].spans
    assert (span.start_time_unix_nano, span.end_time_unix_nano) == (47_500_000_000, 50_000_000_000)
    numbers = {each.key: each.value for each in span.attributes}
    assert numbers["streamfilter.records"].int_value == 4
    assert numbers["streamfilter.documents.unique"].int_value == 3
    assert numbers["streamfilter.seconds.commit"].double_value == 0.5


def test_without_an_endpoint_nothing_is_kept_and_with_one_no_more_than_its_bound(monkeypatch):
    monkeypatch.setattr(otlp, "LAST_SECONDS", 60.0)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.1")
    batch = BatchSpan(1.0, 1, {}, {})
    metrics = Metrics()
    metrics.spans.append(batch)
    assert not metrics.spans
    with Telemetry("http://127.0.0.1:9", metrics, "g"):
        metrics.spans.extend([batch] * (otlp.SPANS_MAX + 9))
        assert len(metrics.spans) == otlp.SPANS_MAX


def endless(handler):
    handler.send_response(400)
    handler.end_headers()
    while True:  # until the other side has hung up
        handler.wfile.write(b"x" * 65_536)


def refuse(handler):
    handler.send_error(503)


@pytest.mark.parametrize("answer", [endless, refuse], ids=lambda each: each.__name__)
def test_a_receiver_that_is_no_good_costs_one_line_and_one_more_when_it_is_better(
    answer, monkeypatch, caplog
):
    monkeypatch.setattr(otlp, "EVERY_SECONDS", 0.01)
    monkeypatch.setattr(otlp, "LAST_SECONDS", 60.0)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.2")
    caplog.set_level(logging.INFO)
    answers = [answer]
    with (
        receiver(lambda handler: answers[0](handler)) as (address, got),
        Telemetry(address, worked(), "g"),
    ):
        until(lambda: len(got["/v1/metrics"]) > 3)
        answers[0] = accept
        until(lambda: "gets metrics again" in caplog.text)
    ours = [each.getMessage() for each in caplog.records]
    assert len(ours) == 2, ours
    assert "otel.endpoint gets no metrics, and is tried again every" in ours[0]
    assert "otel.endpoint gets metrics again" in ours[1]


def too_many(handler, later="60"):
    handler.send_response(429)
    handler.send_header("Retry-After", later)
    handler.end_headers()


@pytest.mark.parametrize("later", ["3600", "Fri, 31 Dec 2099 23:59:59 GMT"])
def test_a_receiver_that_asks_for_a_pause_is_left_alone_until_its_end(later, monkeypatch, caplog):
    monkeypatch.setattr(otlp, "EVERY_SECONDS", 0.01)
    monkeypatch.setattr(otlp, "LAST_SECONDS", 60.0)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "5")
    caplog.set_level(logging.INFO)
    now, real = [0.0], time.monotonic  # added to the clock that the pause is measured by
    monkeypatch.setattr(otlp.time, "monotonic", lambda: real() + now[0])
    answers = [lambda handler: too_many(handler, later)]
    metrics, rounds = worked(), []
    waited = otlp._Connection.pause
    monkeypatch.setattr(otlp._Connection, "pause", lambda self: rounds.append(1) or waited(self))
    with (
        receiver(lambda handler: answers[0](handler)) as (address, got),
        Telemetry(address, metrics, "g"),
    ):
        until(lambda: "gets no metrics" in caplog.text)
        metrics.spans.append(BatchSpan(1.0, 1, {}, {}))
        asked, seen = len(got["/v1/metrics"]), len(rounds)
        until(lambda: len(rounds) > seen + 8)
        assert (len(got["/v1/metrics"]), got["/v1/traces"]) == (asked, []), "it is asked again"
        answers[0] = accept
        now[0] = otlp.PAUSE_MAX_SECONDS
        until(lambda: got["/v1/traces"] and "gets metrics again" in caplog.text)
    assert f"is tried again in 600 s: 429 Too Many Requests, Retry-After: {later}" in caplog.text


def elsewhere(handler):
    handler.send_response(308)
    handler.send_header("Location", "https://collector/v1/metrics")
    handler.end_headers()


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (too_many, "429 Too Many Requests, Retry-After: 60"),
        (elsewhere, "it redirects to https://collector/v1/metrics"),
        (lambda _: time.sleep(0.5), "Read timed out"),
    ],
)
def test_the_warning_has_the_receivers_own_reason(answer, why, monkeypatch, caplog):
    monkeypatch.setattr(otlp, "LAST_SECONDS", 60.0)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.2")
    with receiver(answer) as (address, _), Telemetry(address, worked(), "g"):
        pass
    assert why in caplog.text


def test_a_receiver_of_metrics_alone_is_named_once_and_never_said_to_get_spans(monkeypatch, caplog):
    monkeypatch.setattr(otlp, "EVERY_SECONDS", 0.01)
    monkeypatch.setattr(otlp, "LAST_SECONDS", 60.0)
    caplog.set_level(logging.INFO)

    def no_traces(handler):
        accept(handler) if handler.path == "/v1/metrics" else handler.send_error(404)

    metrics = worked()
    with receiver(no_traces) as (address, got), Telemetry(address, metrics, "g"):
        for batch in range(3):
            metrics.spans.append(BatchSpan(1.0, 1, {}, {}))
            until(lambda batch=batch: len(got["/v1/traces"]) > batch)
            seen = len(got["/v1/metrics"])  # rounds that have no span to send follow
            until(lambda seen=seen: len(got["/v1/metrics"]) > seen + 2)
    (line,) = [each.getMessage() for each in caplog.records]
    assert line.endswith("404 Not Found")
    assert "gets no spans" in line


def test_its_certificate_is_believed_although_requests_has_a_bundle(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(otlp, "LAST_SECONDS", 60.0)
    (tmp_path / "other").mkdir()
    right, other = Authority.made(tmp_path), Authority.made(tmp_path / "other")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(right.issue("collector"))
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(other.certificate))
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", str(right.certificate))
    with receiver(accept, context) as (address, got), Telemetry(address, worked(), "g"):
        pass
    assert got["/v1/metrics"], caplog.text


@pytest.mark.slow
def test_a_process_ends_while_its_receiver_hangs(monkeypatch):
    monkeypatch.setattr(otlp, "LAST_SECONDS", 0.1)
    released = threading.Event()
    with receiver(lambda handler: released.wait(60)) as (address, got):
        telemetry = Telemetry(address, worked(), "g")
        with telemetry:
            pass
        until(lambda: got["/v1/metrics"])
        assert telemetry._thread.is_alive(), "nothing waits for it"
        assert telemetry._thread.daemon
        released.set()
        telemetry._thread.join(60)


def until(reached) -> None:
    deadline = time.monotonic() + 60
    while not reached():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize("wrong", [f"http://u:{SECRET}@host:4318", "host:4318", "http://"])
def test_an_address_with_a_password_or_none_is_refused_without_it(wrong):
    with pytest.raises(
        ConfigError, match=r"(?s)otel\.endpoint.*OTEL_EXPORTER_OTLP_HEADERS"
    ) as refused:
        load_config((), overrides=(f"otel.endpoint={wrong}",))
    assert SECRET not in str(refused.value)
    empty = Config.model_validate({"otel": {"endpoint": ""}})
    assert [each.key for each in check_meaning(empty)] == ["otel.endpoint"]


@pytest.mark.parametrize(
    ("header", "why"),
    [
        (f"Bearer {SECRET}", "401 Unauthorized"),
        (f"authorization=Bearer%0A{SECRET}", "OTEL_EXPORTER_OTLP_HEADERS has a line break"),
    ],
)
def test_a_malformed_header_is_logged_by_no_exporter(header, why, monkeypatch, capsys):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", header)
    monkeypatch.setattr(otlp, "LAST_SECONDS", 60.0)
    root = logging.getLogger()
    kept = root.handlers[:], root.level
    logs.configure("debug")
    try:
        with (
            receiver(lambda handler: handler.send_error(401)) as (address, _),
            Telemetry(address, worked(), "g"),
        ):
            pass
    finally:
        root.handlers, root.level = kept
    assert why in (said := capsys.readouterr().err)
    assert SECRET not in said
