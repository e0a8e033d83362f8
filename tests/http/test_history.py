"""The last hour on the page: a bounded ring, filled by the server's own thread."""

import json
from math import nan

from streamfilter.model import Decision, Verdict
from streamfilter.monitoring.metrics import BatchReport, Metrics
from streamfilter.monitoring.web.history import SAMPLES_MAX, History
from streamfilter.monitoring.web.http import Server
from streamfilter.monitoring.web.pages import Pages
from streamfilter.process.health import Health, State
from tests.http.browser import dom
from tests.http.test_page import near
from tests.http.test_server import Clock


def test_an_hour_is_kept_with_rates_shares_and_gaps():
    metrics, clock = Metrics(), Clock()
    history = History(metrics, clock=clock)
    assert history.as_dict()["rate"] == []
    batch = BatchReport.of([Decision(Verdict.UNIQUE)] * 3 + [near(0)])
    clock.now += 4
    metrics.batch(batch)
    assert history.as_dict()["records_a_second"] == 1.0  # before the first sample of the ring
    for step in range(2 * SAMPLES_MAX):
        clock.now += 5
        history.look()
        if step == SAMPLES_MAX:
            metrics.batch(batch)
            metrics.lag(7, None)
            metrics.set(audit_recall=0.91)
    found = history.as_dict()
    lines = [found[name] for name in ("seconds_ago", "rate", "duplicates", "lag", "recall")]
    assert {len(line) for line in lines} == {SAMPLES_MAX - 1}
    assert found["seconds_ago"][0] < 3_610
    assert [rate for rate in found["rate"] if rate] == [0.4]
    assert [share for share in found["duplicates"] if share is not None] == [0.25]
    assert (found["lag"][0], found["lag"][-1]) == (None, 7)
    assert found["recall"][-1] == 0.91


def test_the_page_of_a_paused_filter_with_unknown_figures_and_many_partitions_is_whole(tmp_path):
    health = Health()
    metrics = Metrics(health)
    health.enter(State.PAUSED_DISK, "no space on <b>disk</b>")
    health.report(lag={f"topic-{n}/0": 1 for n in range(10_000)})
    unknown = ("index_oldest_timestamp_seconds", "index_bytes", "audit_recall")
    metrics.set(**dict.fromkeys(unknown, nan))
    pages = Pages(health, metrics)
    body = pages.answer("/page.json")[2]
    assert len(body) < 20_000
    assert "NaN" not in body.decode()
    for oldest in (9.2e15, -9.2e15):  # a timestamp is its producer's
        metrics.set(index_oldest_timestamp_seconds=oldest)
        with Server("127.0.0.1", 0, pages=pages) as server:
            shown = dom("http://{}:{}/".format(*server.address), tmp_path)
        assert "paused:disk" in shown
        assert "no space on &lt;b&gt;disk" in shown
        assert ">10,000</dd>" in shown
        assert "None so far." in shown  # the last part of the page
    assert json.loads(pages.answer("/status")[2])["lag"]["topic-9999/0"] == 1
