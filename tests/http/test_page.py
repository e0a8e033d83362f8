"""The page for people, in a real browser, with texts that would like to be more than text."""

import html
import json
import re
import urllib.request

import numpy as np
import pytest

from streamfilter.matching.verdict.counts import Counts
from streamfilter.model import Decision, Match, Record, Source, Verdict
from streamfilter.monitoring.metrics import BatchReport, Metrics
from streamfilter.monitoring.web.http import POLICY, Server
from streamfilter.monitoring.web.pages import STATIC, Pages, Shown
from streamfilter.monitoring.web.showcase import ORIGINALS_BYTES_MAX, PAIRS_MAX, Showcase
from streamfilter.process.health import Health, State
from streamfilter.similarity.scheme import Scheme
from tests.audit.rounds import a_round
from tests.http.browser import dom

HOSTILE = (
    '<script>document.title="pwned"</script> <img src=x onerror=\'document.title="pwned"\'> '
    "</article><h1>pwned</h1> &lt;b&gt; javascript:alert(1) \u202e \x00 ${document.title} {{7*7}}"
)
ORIGINAL = "The quick brown fox jumps over the lazy dog and goes home"
COPY = f"The quick red fox jumps over the lazy dog and goes home {HOSTILE}"


def source(offset: int) -> Source:
    return Source("docs", 0, offset)


def record(offset: int, text: str) -> Record:
    return Record(source(offset), None, text.encode())


def near(offset: int) -> Decision:
    match = Match(f"<i>{offset}</i>", 0.9167, 11, source(offset), offset)
    return Decision(Verdict.NEAR_DUPLICATE, (match,), "exact_jaccard")


def read(record: Record) -> str | None:
    return None if record.value is None else record.value.decode()


@pytest.fixture
def pages():
    health = Health()
    health.enter(State.RUNNING)
    health.report(lag={"docs/0": 3}, documents=1)
    metrics = Metrics(health)
    metrics.describe(Scheme(16, 6), threshold=0.8)
    decisions = [Decision(Verdict.UNIQUE), near(0)]
    counts = Counts(np.array([0, 1]), np.array([0.9167]), np.array([0.4, 0.55]))
    metrics.batch(BatchReport.of(decisions, counts=[counts]))
    metrics.audited(a_round(near=40, unique=50, missed=10))
    metrics.set(
        index_bytes=25_300_000, index_expected_bytes=8e7, index_oldest_timestamp_seconds=1.7e9,
        rocksdb_front_density=12.04,
    )  # fmt: skip
    showcase = Showcase(read)
    records = [record(0, ORIGINAL), record(1, COPY)]
    showcase.batch(records, decisions, lambda row: f"doc-{row} {HOSTILE}")
    return Pages(health, metrics, showcase, Shown("docs", "news", 0.8, "shadow", payloads=True))


def test_a_person_sees_state_verdicts_quality_and_the_pair_and_hostile_text_stays_text(
    pages, tmp_path
):
    with Server("127.0.0.1", 0, pages=pages) as server:
        found = dom("http://{}:{}/".format(*server.address), tmp_path)
    assert "<title>streamfilter</title>" in found
    body = found.partition("<body>")[2]
    assert not re.search(r"<(script|img|h1>pwned|i>)", body)
    assert html.escape("<script>document.title=", quote=False) in body
    assert body.count("</article>") == 1
    text = html.unescape(re.sub(r"<[^>]*>", "", body))
    assert re.search(r"streamfilter\s+running", text)
    assert "Shadow mode" in text
    assert "Remembered since2023-11-14 22:13 UTC" in text
    assert "Index on disk25 MB, of 80 MB in the end" in text
    assert "Filter of its keys12.0 bits a key" in text
    assert "near-duplicate150.0 %" in text
    assert "80.0 %all were audited" in text  # 40 of 50: a count, which an interval would hide
    assert "The audit compared 90 of 90 records with the whole index" in text
    assert "Missed duplicates, about: 10 (no key in common)" in text
    assert (
        "Alarm for lower recall: 2 since the start, the evidence for the next is at 0.00 %" in text
    )
    assert "Alarm for more wrong verdicts: 0 since the start" in text
    assert 'aria-label="Wrong verdicts, expected and found: 8.0 % expected, 0.00 % wrong"' in body
    assert "8.0 %0.00 %all were audited40" in text
    assert "not known" in text
    assert "The lines begin with the process." in text
    assert "Share of duplicatesnot known yet" in text
    assert "similarity 0.917 (exact_jaccard), 11 bands shared; record docs/0 at 1" in text
    marked = re.findall(r"<mark>(.*?)</mark>", body)
    assert {"brown", "red"} <= set(marked)
    assert "quick" not in marked
    assert re.search(r'role="img" aria-label="[^"]*2 pairs rejected below, 1 confirmed', body)


def test_pairs_at_the_threshold_are_drawn_on_its_right_side_and_the_scale_is_named(tmp_path):
    health = Health()
    health.enter(State.RUNNING)
    metrics = Metrics(health)
    metrics.describe(Scheme(16, 6), threshold=0.8)
    counts = Counts(np.array([0, 1]), np.array([0.8, 0.8, 0.9]), np.array([0.78]))
    metrics.batch(BatchReport.of([near(0)], counts=[counts]))
    pages = Pages(health, metrics, Showcase(), Shown("docs", "news", 0.8, "filter"))
    with Server("127.0.0.1", 0, pages=pages) as server:
        found = dom("http://{}:{}/".format(*server.address), tmp_path)
    picture = re.search(r'<div id="histogram">(.*?)</div>', found, re.DOTALL)
    assert picture
    threshold = float(re.search(r'class="threshold" x1="([\d.]+)"', picture[1])[1])
    bars = re.findall(r'class="bar (\w+)" x="([\d.]+)" width="([\d.]+)"', picture[1])
    assert {kind for kind, _, _ in bars} == {"confirmed", "rejected"}
    for kind, left, width in bars:
        if kind == "confirmed":
            assert float(left) >= threshold
        else:
            assert float(left) + float(width) <= threshold
    assert "pairs, logarithmic: up to 2" in picture[1]


def test_what_the_page_needs_comes_from_the_process_itself_and_nothing_else_may_run(pages):
    with Server("127.0.0.1", 0, pages=pages) as server:
        url = "http://{}:{}".format(*server.address)
        for path, (_, content_type) in STATIC.items():
            with urllib.request.urlopen(url + path) as answer:
                assert answer.headers["Content-Type"] == content_type
                assert answer.headers["Content-Security-Policy"] == POLICY
                told = answer.read().decode()
                # The name of SVG's vocabulary is no address.
                hosts = re.findall(r"(?:https?:)?//[\w.-]+\.\w+", told)
                assert set(hosts) <= {"http://www.w3.org"}
                assert not re.search(r"innerHTML|insertAdjacent|document\.write|eval\(", told)
                assert not re.search(r"<[^>]+\son\w+=|<style|style=", told)
    assert "'unsafe" not in POLICY
    assert "default-src 'none'" in POLICY


def test_without_leave_no_text_is_kept_or_reported(pages):
    showcase = Showcase()
    showcase.batch([record(0, ORIGINAL), record(1, COPY)], [Decision(Verdict.UNIQUE), near(0)], str)
    shown = Pages(pages.health, pages.metrics, showcase)
    status = shown.answer("/status")[2].decode()
    assert "quick" not in status
    assert json.loads(status)["latest"][0]["text"] is None
    assert json.loads(status)["show_payloads"] is False


def test_the_showcase_is_bounded_in_pairs_and_bytes_and_shows_the_latest_first():
    showcase = Showcase(read)
    large = "x" * (ORIGINALS_BYTES_MAX // 4)
    unique = [Decision(Verdict.UNIQUE)]
    for offset in range(6):
        showcase.batch([record(offset, large)], unique, str)
    rows = range(PAIRS_MAX + 5)
    showcase.batch([record(100 + row, "copy") for row in rows], [near(5)] * len(rows), str)
    told = showcase.as_dicts()
    assert [pair["id"] for pair in told] == [str(row) for row in reversed(rows)][:PAIRS_MAX]
    assert told[0]["match_text"].startswith("xxx")
    assert len(told[0]["match_text"]) == 2_000
    showcase.batch([record(200, "copy")], [near(0)], str)  # offset 0 is long gone
    assert showcase.as_dicts()[0]["match_text"] is None
