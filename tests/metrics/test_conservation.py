"""consumed = the sum of the verdicts, in every scrape; the catalogue is all there is."""

import random
import threading
from itertools import product
from math import isnan

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

from streamfilter.config.loading import load_config
from streamfilter.engine.clock_and_worker import SystemClock
from streamfilter.engine.filter_observer import FilterObserver
from streamfilter.engine.messages.forwarding import Destinations
from streamfilter.engine.observer import Observer
from streamfilter.index.memory import MemoryIndex
from streamfilter.index.progress import Progress
from streamfilter.index.protocol import Applied, Changes, Usage
from streamfilter.matching.blocking.forgetting import Forgotten
from streamfilter.matching.blocking.retention import UNLIMITED, Retention
from streamfilter.matching.verdict.counts import Counts
from streamfilter.model import (
    Decision,
    ErrorCode,
    Malformed,
    Match,
    Reason,
    Record,
    Source,
    Unjudged,
    Verdict,
)
from streamfilter.monitoring.batch_report import by_topic
from streamfilter.monitoring.catalogue import ACTIVITIES, CATALOGUE, MetricKind
from streamfilter.monitoring.metrics import BatchReport, Metrics
from streamfilter.process.health import Health, State
from streamfilter.quality.live import audit_sample
from streamfilter.quality.live.figures import Quality
from streamfilter.similarity.columns import Widths
from streamfilter.similarity.scheme import Scheme, Shingling
from tests.audit.rounds import a_round
from tests.support.cases import cases
from tests.support.values import replace

MATCH = Match("a", 0.9, 3, Source("t", 0, 1), 1)
OUTCOMES = (
    Decision(Verdict.UNIQUE),
    Decision(Verdict.EXACT_DUPLICATE, (MATCH,), "exact_text"),
    Decision(Verdict.NEAR_DUPLICATE, (MATCH, MATCH), "sampled_jaccard", p_false_positive=0.25),
    Decision(Verdict.PASSTHROUGH, reason=Reason.SHORT),
    Unjudged(Verdict.PASSTHROUGH, Reason.TOMBSTONE),
    Unjudged(Verdict.DROPPED, Reason.EMPTY),
    Malformed(ErrorCode.INVALID_JSON, "no"),
)


def scraped(metrics: Metrics) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    _, body = metrics.expose()
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(body.decode())
        for sample in family.samples
    }


def filter_observer(
    metrics: Metrics, health: Health | None = None, retention: Retention = UNLIMITED
) -> FilterObserver:
    process = Observer(metrics, health or Health(), SystemClock())
    return FilterObserver(process, Destinations("u", "d", "x", {}), retention=retention)


def total(series, name: str) -> float:
    return sum(value for (found, _), value in series.items() if found == f"streamfilter_{name}")


def test_every_outcome_is_counted_once_under_its_verdict_and_reason():
    metrics = Metrics()
    forgotten = Forgotten(np.array([1, 2]), own=1, unknown=4, updates=2)
    applied = Applied(removed=2)
    metrics.batch(
        BatchReport.of(
            OUTCOMES, produced={"unique": 3, "dead_letter": 1}, applied=applied, forgotten=forgotten
        )
    )
    series = scraped(metrics)
    assert total(series, "records_consumed_total") == total(series, "documents_total") == 7
    assert series["streamfilter_documents_total", (("verdict", "passthrough"),)] == 2
    assert series["streamfilter_passthrough_total", (("reason", "tombstone"),)] == 1
    assert series["streamfilter_passthrough_total", (("reason", "short"),)] == 1
    assert series["streamfilter_dropped_total", (("reason", "empty"),)] == 1
    assert series["streamfilter_dead_letters_total", (("code", "invalid_json"),)] == 1
    assert series["streamfilter_records_produced_total", (("destination", "unique"),)] == 3
    assert total(series, "forgotten_documents_total") == 3
    assert total(series, "unknown_tombstones_total") == 4
    assert total(series, "updates_total") == 2
    assert total(series, "same_id_duplicates_total") == 0
    assert total(series, "matches_total") == 2
    assert total(series, "false_positive_probability_sum_total") == 0.25


def test_each_topic_of_several_inputs_is_conserved_under_its_name_or_pattern():
    given = load_config((), {}, ["input.topics=[a, 'b*', 'c*']", "output.unique=u",
                                 "output.duplicates=d", "output.dead_letter=x"])  # fmt: skip
    topics = given.input.topics
    records = [Record(Source(topic, 0, 0), None, b"") for topic in ("a", "b1", "b2", "c") * 7]
    metrics = Metrics()
    assert total(scraped(metrics), "topic_consumed_total") == 0
    assert b"topic_consumed" not in metrics.expose()[1], "there is one topic"
    metrics.describe(Scheme(20, 5), threshold=0.8, topics=topics)
    assert scraped(metrics)["streamfilter_topic_unique_total", (("topic", "b*"),)] == 0
    outcomes = OUTCOMES * 4
    counts = by_topic(records, outcomes, given.input.entry_of)
    metrics.batch(BatchReport.of(outcomes, by_topic=counts))
    series = scraped(metrics)
    parts = [f"topic_{part}_total" for part in ("unique", "duplicates", "unjudged", "dead_letters")]
    for topic, read in (("a", 7), ("b*", 14), ("c*", 7)):
        label = (("topic", topic),)
        assert series["streamfilter_topic_consumed_total", label] == read
        assert sum(series[f"streamfilter_{part}", label] for part in parts) == read
    assert [total(series, part) for part in parts] == [4, 8, 12, 4]
    assert total(series, "topic_consumed_total") == total(series, "records_consumed_total") == 28


@pytest.mark.parametrize("state", State)
def test_what_a_person_may_have_to_act_upon_is_a_warning(state, caplog):
    caplog.set_level("DEBUG")
    Observer(Metrics(), Health(), SystemClock()).enter(state, "why")
    (said,) = caplog.records
    calm = {State.STARTING, State.STANDBY, State.RESTORING, State.RUNNING, State.DRAINING}
    assert (said.levelname == "WARNING") is (state not in calm)
    assert said.message == f"{state}: why"


def test_a_lag_is_unknown_while_no_broker_is_reached():
    health, metrics = Health(), Metrics()
    observer = Observer(metrics, health, SystemClock())
    observer.at({"in/0": 5}, {"in/0": 3})
    assert scraped(metrics)["streamfilter_consumer_lag_records", ()] == 3
    observer.enter(State.UNREACHABLE, "why")
    observer.at({"in/0": 5}, {"in/0": 0})
    assert health.status.lag == {}
    assert not health.ready
    assert isnan(scraped(metrics)["streamfilter_consumer_lag_records", ()])
    assert isnan(scraped(metrics)["streamfilter_consumer_lag_seconds", ()])
    observer.enter(State.RUNNING)
    observer.at({"in/0": 5}, {"in/0": 1})
    assert scraped(metrics)["streamfilter_consumer_lag_records", ()] == 1


def test_a_process_that_lost_its_partitions_has_no_lag():
    """A standby kept its last lag, whose age rose for ever: a page in a night without traffic."""
    health, metrics = Health(), Metrics()
    observer = Observer(metrics, health, SystemClock())
    observer.at({"in/0": 5, "in/1": 5}, {"in/0": 3, "in/1": 4})
    observer.left(["in/0"])
    observer.at({"in/1": 5}, None)
    assert scraped(metrics)["streamfilter_consumer_lag_records", ()] == 4
    observer.left(["in/1"])
    assert health.status.lag == {}
    assert isnan(scraped(metrics)["streamfilter_consumer_lag_records", ()])
    assert isnan(scraped(metrics)["streamfilter_consumer_lag_seconds", ()])


def test_an_index_that_is_closed_is_counted_no_more():
    health, metrics = Health(), Metrics()
    observer, index = filter_observer(metrics, health), MemoryIndex(Widths(4))
    observer.holding(index)
    observer.closed(index)
    observer.closed(index)
    assert health.status.documents == 0
    assert scraped(metrics)["streamfilter_index_documents", ()] == 0


def test_what_is_forgotten_is_counted_and_what_is_left_is_shown_of_all_indexes_together():
    metrics = Metrics()
    metrics.batch(BatchReport.of(OUTCOMES, applied=Applied(expired=4, removed=2)))
    metrics.batch(BatchReport.of(OUTCOMES, applied=Applied(expired=1)))
    indexes = [MemoryIndex(Widths(16), bucket_cap=8) for _ in range(2)]
    observer = filter_observer(metrics)
    for next_ordinal, index in zip((50, 20), indexes, strict=True):
        index.apply(Changes(Progress(next_ordinal=next_ordinal, horizon=next_ordinal // 2)))
        observer.holding(index)
    assert metrics.value("expired_documents_total") == 5
    assert metrics.value("forgotten_documents_total") == 2
    assert metrics.value("index_horizon_documents") == 25 + 10
    assert metrics.value("index_windows") == 2


def test_where_changelogs_begin_is_shown_of_all_that_are_ours_with_what_could_be_cut_off():
    metrics = Metrics()
    observer = filter_observer(metrics)

    def shown() -> tuple[float, float]:
        return metrics.value("changelog_start_offset"), metrics.value("changelog_surplus_records")

    assert all(map(isnan, shown()))
    observer.trimmed("c/0", 5, needed=7)
    observer.trimmed("c/1", 30, needed=20)  # someone deletes from it: it could be cut off earlier
    assert shown() == (35, 2)
    observer.trimmed("c/0", 7, needed=7)
    assert shown() == (37, 0)
    observer.trimmed("c/1", None)
    assert shown() == (7, 0)
    observer.trimmed("c/0", None)
    assert all(map(isnan, shown()))


def test_an_index_says_how_large_it_becomes_once_its_retention_is_reached():
    def expected(retention: Retention, **progress: int) -> float:
        metrics, index = Metrics(), MemoryIndex(Widths(16), bucket_cap=8)
        observer = filter_observer(metrics, retention=retention)
        index.apply(Changes(Progress(**progress)))
        observer.occupying(index, Usage(1_000, free=1, oldest=10_000))
        return metrics.value("index_expected_bytes")

    half = {"next_ordinal": 50, "highest_timestamp": 60_000}
    assert isnan(expected(Retention(), **half))
    assert expected(Retention(documents=100), **half) == 2_500  # and a quarter waits for its window
    assert expected(Retention(time=100_000), **half) == 2_500
    assert (
        expected(Retention(documents=100, time=62_500), **half) == 1_562.5
    )  # whichever comes first
    assert expected(Retention(documents=40), **half, horizon=10) == 1_000  # it is reached
    assert isnan(expected(Retention(documents=10_000), **half))  # too early to tell
    assert isnan(expected(Retention(time=100_000), next_ordinal=50))  # no record had a timestamp


def test_of_several_indexes_the_worst_filter_is_shown_and_no_sum_of_rates():
    metrics = Metrics()
    observer = filter_observer(metrics)
    for bits, passing in ((16.0, 0.03), (9.0, 0.04), (None, 0.0)):
        paged = {} if bits is None else {"front_density": bits}
        figures = {"front_pass_rate": passing, "front_bytes": 5.0, **paged}
        usage = Usage(1, free=1, oldest=1, properties=figures)
        observer.occupying(MemoryIndex(Widths(16), bucket_cap=8), usage)
    assert metrics.value("rocksdb_front_density") == 9
    assert metrics.value("rocksdb_front_pass_rate") == 0.04  # .07 would fire MissFilterSmall
    assert metrics.value("rocksdb_front_bytes") == 15


@pytest.mark.slow
def test_a_scrape_never_sees_half_a_batch():
    metrics = Metrics()
    chooser = random.Random(7)
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            metrics.batch(BatchReport.of(chooser.choices(OUTCOMES, k=chooser.randint(1, 50))))

    worker = threading.Thread(target=work)
    worker.start()
    try:
        for _ in range(50):
            series = scraped(metrics)
            consumed = total(series, "records_consumed_total")
            assert consumed == total(series, "documents_total")
            assert total(series, "batch_documents_sum") == consumed
    finally:
        stop.set()
        worker.join()
    assert consumed > 0


def test_arrays_fall_into_the_buckets_that_counting_by_hand_gives():
    metrics = Metrics()
    rng = np.random.default_rng(11)
    confirmed, rejected = rng.uniform(0.8, 1, 500).round(2), rng.uniform(0, 0.8, 300).round(2)
    candidates = rng.integers(0, 300, 400)
    counts = Counts(candidates, confirmed, rejected, skipped=4, missing=2)
    metrics.batch(BatchReport.of(OUTCOMES, counts=[counts, counts]))
    series = scraped(metrics)
    for outcome, values in (("confirmed", confirmed), ("rejected", rejected)):
        for edge in (0.05, 0.5, 0.8, 0.85, 1.0):
            key = (("le", str(edge)), ("outcome", outcome))
            by_hand = 2 * sum(1 for value in values.tolist() if value <= edge)
            assert series["streamfilter_candidate_similarity_bucket", key] == by_hand
        verified = series["streamfilter_verifications_total", (("outcome", outcome),)]
        assert verified == 2 * len(values)
        count = series["streamfilter_candidate_similarity_count", (("outcome", outcome),)]
        assert count == verified
    assert total(series, "candidates_total") == 2 * candidates.sum()
    zero = series["streamfilter_candidates_per_document_bucket", (("le", "0.0"),)]
    assert zero == 2 * (candidates == 0).sum()
    assert series["streamfilter_verifications_total", (("outcome", "skipped"),)] == 8


def test_every_series_exists_before_anything_happened_and_no_other_ever_comes():
    metrics = Metrics()
    metrics.describe(Scheme(16, 6), threshold=0.8, topics=("a", "b*"))
    before = scraped(metrics)
    metrics.batch(BatchReport.of(OUTCOMES, ages_seconds=np.array([0.1, -5.0])))
    metrics.stages({"sketch": 0.01, "commit": 0.2})
    metrics.transaction("committed", 0.2, now=1.0)
    metrics.lag(5, 0.5)
    metrics.spent("commit")
    metrics.partitions(4, topics=(1, 0), disk=1)
    metrics.count("rebalances_total", "lost")
    metrics.set(index_documents=10, changelog_start_offset=3, index_bytes=5, rocksdb_front_keys=3.0)
    metrics.set("settings", changelog_faults=1)
    metrics.kafka("data", {"requests": 3}, {"brokers_up": 1})
    metrics.audited(a_round(near=3, unique=5, missed=1))
    after = scraped(metrics)
    assert after.keys() == before.keys()
    assert len(after) <= 600
    names = {name for name, _ in after if name.startswith("streamfilter_")}
    for metric in CATALOGUE:
        suffix = "_bucket" if metric.kind is MetricKind.HISTOGRAM else ""
        assert metric.full_name + suffix in names


@cases(
    "wrong",
    [
        lambda metrics: metrics.count("rebalances_total", "panic"),
        lambda metrics: metrics.set("panic", changelog_faults=1),
        lambda metrics: metrics.transaction("maybe", 1.0),
        lambda metrics: metrics.stages({"lunch": 1.0}),
        lambda metrics: metrics.batch(BatchReport({}, produced={"elsewhere": 1})),
    ],
)
def test_a_label_value_that_was_never_declared_is_a_mistake_not_a_new_series(wrong):
    with pytest.raises(KeyError):
        wrong(Metrics())


def test_what_was_never_measured_is_unknown_not_zero():
    series = scraped(Metrics())
    assert np.isnan(series["streamfilter_consumer_lag_records", ()])
    assert np.isnan(series["streamfilter_last_commit_timestamp_seconds", ()])


def test_exactly_one_state_is_set_and_it_is_the_health_s():
    health = Health()
    metrics = Metrics(health)
    for state in State:
        health.enter(state)
        series = scraped(metrics)
        assert series["streamfilter_state", (("state", state),)] == 1
        assert total(series, "state") == 1


def test_openmetrics_is_served_to_those_who_ask_for_it():
    content_type, body = Metrics().expose("application/openmetrics-text; version=1.0.0")
    assert content_type.startswith("application/openmetrics-text")
    assert body.endswith(b"# EOF\n")


def test_the_scheme_s_labels_tell_what_shapes_the_index():
    metrics = Metrics()
    scheme = Scheme(16, 6)
    metrics.describe(scheme, threshold=0.8)
    labels = {"scheme": scheme.fingerprint, "slots": "128", "bands": "16", "rows": "6"}
    labels["threshold"] = "0.8"
    assert scraped(metrics)["streamfilter_scheme_info", tuple(sorted(labels.items()))] == 1


@pytest.mark.parametrize("role", ["judge", "edge", "alone"])
def test_a_judge_shows_how_busy_its_loop_is(role):
    now = {"clock": 100.0}
    metrics = Metrics(clock=lambda: now["clock"])
    metrics.describe(Scheme(20, 5), threshold=0.8, role=role)
    for seconds, activity in ((3.0, "poll"), (9.0, "judge"), (3.0, "commit"), (1.0, "membership")):
        now["clock"] += seconds
        metrics.spent(activity)
        if activity == "judge":
            assert isnan(metrics.value("judge_busy_ratio"))
    assert metrics.value("role", role) == 1
    found = metrics.value("judge_busy_ratio")
    assert found == pytest.approx(0.8) if role == "judge" else isnan(found)


def test_activities_add_up_to_the_time_that_passed_and_lag_ages_while_nothing_turns():
    now = {"clock": 100.0, "wall": 5_000.0}
    metrics = Metrics(clock=lambda: now["clock"], wall=lambda: now["wall"])
    chooser = random.Random(3)
    for _ in range(200):
        now["clock"] += chooser.random()
        metrics.spent(chooser.choice(ACTIVITIES))
    series = scraped(metrics)
    assert total(series, "activity_seconds_total") == pytest.approx(now["clock"] - 100.0)
    assert np.isnan(series["streamfilter_consumer_lag_seconds", ()])
    metrics.lag(7, waiting_since=4_990.0)
    assert scraped(metrics)["streamfilter_consumer_lag_seconds", ()] == 10
    now["wall"] += 30  # the loop is stuck: no one sets anything
    assert scraped(metrics)["streamfilter_consumer_lag_seconds", ()] == 40
    metrics.lag(0, waiting_since=4_990.0)
    assert scraped(metrics)["streamfilter_consumer_lag_seconds", ()] == 0


def test_the_audit_shows_its_interval():
    metrics = Metrics()
    metrics.describe(Scheme(9, 13), threshold=0.8)
    match = replace(MATCH, similarity=0.8)
    decision = Decision(Verdict.NEAR_DUPLICATE, (match,), "exact_jaccard")
    metrics.batch(BatchReport.of([decision] * 40))
    metrics.audited(a_round(near=40, unique=400, missed=6, population=4_000))
    series = scraped(metrics)
    assert total(series, "matches_total") == 40
    assert series["streamfilter_audit_recall", ()] == 0.4  # 40 of 40 + 4,000 x 6/400
    lower, upper = (series[f"streamfilter_audit_recall_{end}", ()] for end in ("lower", "upper"))
    assert (round(lower, 3), round(upper, 3)) == (0.231, 0.645)
    assert metrics.quality()["audit_recall"]["says"] == "interval"
    assert series["streamfilter_audit_missed_total", (("cause", "bands"),)] == 6
    assert series["streamfilter_audit_precision", ()] == 1


def test_a_figure_of_arrivals_that_were_all_looked_at_is_a_count_and_no_interval():
    quality = Quality()
    quality.audited(a_round(near=11, unique=25, missed=0))
    recall = quality.window().recall()
    assert (recall.says, recall.lower, recall.upper) == ("known", 1, 1)
    quality.audited(a_round(near=11, unique=25, missed=0, population=26))
    recall = quality.window().recall()
    assert (recall.says, recall.upper) == ("interval", 1)
    assert recall.lower < 1


def test_what_cannot_be_audited_is_nan_and_not_known_with_the_reason():
    scheme, reason = Scheme(16, 6, shingling=Shingling(sample_modulus=4)), "sample_modulus"
    metrics = Metrics()
    metrics.describe(scheme, threshold=0.8, on_sets=False)
    quality = metrics.quality()
    for name in ("audit_recall", "audit_recall_equal", "audit_precision"):
        assert quality[name]["says"] == "not known"
        assert reason in quality[name]["why"]
    assert all(reason in change["why"] for change in quality["audit_changes"].values())
    metrics.audited(a_round(near=40, unique=400, missed=6))
    series = scraped(metrics)
    for figure, end in product(("recall", "precision"), ("", "_lower", "_upper")):
        assert isnan(series[f"streamfilter_audit_{figure}{end}", ()])
    assert isnan(series["streamfilter_audit_change_score", (("figure", "recall"),)])


def test_the_audit_s_gauges_follow_the_latest_rounds_and_forget_a_better_past():
    metrics = Metrics()
    for missed in [0] * 10 + [40] * 30:
        metrics.audited(a_round(near=10, unique=500, missed=missed))
    assert scraped(metrics)["streamfilter_audit_recall", ()] == 0.2


def test_rounds_with_other_shares_are_pooled_by_the_strictest():
    """The first round chose half of what came, the second a tenth: a tenth of both counts."""
    loose, strict = (a_round(near=0, unique=1_000, missed=m, population=p)
                     for m, p in ((0, 2_000), (0, 10_000)))  # fmt: skip
    hashes = np.random.default_rng(5).permutation(1_000).astype(np.uint64)
    loose = replace(loose, hashes=hashes, limit=999)
    strict = replace(strict, hashes=hashes // 5, limit=199)
    quality = Quality()
    for each in (loose, strict):
        quality.audited(each)
    window = quality.window()
    assert len(window.pool.kinds) == 1_200
    assert window.pool.population[audit_sample.ArrivalKind.UNIQUE] == 12_000


def test_shadow_mode_counts_what_would_have_been_withheld_and_divert_counts_nothing():
    for mode, withheld in (("shadow", 3), ("divert", 0)):
        metrics = Metrics()
        metrics.describe(Scheme(16, 6), threshold=0.8, mode=mode)
        metrics.batch(BatchReport.of(OUTCOMES))
        series = scraped(metrics)
        assert total(series, "shadow_withheld_total") == withheld
        assert series["streamfilter_output_info", tuple(sorted(
            {"mode": mode, "duplicates_mode": "annotate"}.items()))] == 1  # fmt: skip
