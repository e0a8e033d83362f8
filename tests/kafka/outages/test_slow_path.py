"""A way to the brokers that takes longer for a full batch than a transaction lives."""

import json
import random
from collections.abc import Iterator
from typing import Any

import pytest

from deploy.local.real import RealKafka
from tests.faults.causes.proxy import Proxy, Weather
from tests.kafka.story import records, texts, verdicts
from tests.support.topics import Input

SEED = 20_261_202
RATE = 250_000
SLOW: dict[str, Any] = {
    # As much as 50 kB/s give a transaction of the default 10 s.
    "kafka": {"transaction_timeout": "2s", "session_timeout": "6s"},
    "batch": {"documents": 4_000, "latency": "2s"},
}
SECOND_CLUSTER = "stop the other processes with this"


@pytest.fixture
def proxy(kafka: RealKafka) -> Iterator[Proxy]:
    with Proxy.of(kafka.nodes[0]) as proxy:
        yield proxy


def heavy(count: int) -> list[Input]:
    """Return stories of about 2 KB each; the changelog's records come to it."""
    stories = records(texts(random.Random(SEED), count))
    return [
        Input(
            json.dumps({**json.loads(each.value or b""), "more": "x" * 2_000}).encode(),
            key=each.key,
            timestamp=each.timestamp,
        )
        for each in stories
    ]


def test_a_backlog_passes_a_thin_line_in_smaller_batches(kafka, proxy, stage):
    stage.produce(heavy(1_000))
    process = stage.start(
        **{
            **SLOW,
            "kafka": {**SLOW["kafka"], "common": {"bootstrap.servers": kafka.bootstrap_proxied}},
        }
    )
    proxy.weather = Weather(rate=RATE)
    stage.drain(process)
    proxy.weather = Weather()
    assert process.terminate() == 0, process.told("did not end well")
    said = process.log.read_text()
    assert "transaction aborted" in said, "it was not too slow for a full batch"
    assert SECOND_CLUSTER not in said
    assert len(verdicts(stage)) == 1_000


def test_a_record_that_no_transaction_delivers_is_named(kafka, proxy, stage):
    value = json.dumps({"id": "big", "text": "some words of it", "more": "x" * 900_000}).encode()
    process = stage.start(
        **{
            **SLOW,
            "kafka": {**SLOW["kafka"], "common": {"bootstrap.servers": kafka.bootstrap_proxied}},
        }
    )
    process.wait_for_state("running")
    proxy.weather = Weather(rate=RATE)
    stage.produce([Input(value)])
    process.wait_for(
        lambda _: "is too slow for it; raise kafka.transaction_timeout" in process.log.read_text(),
        what="a word about the record",
    )
    proxy.weather = Weather()
    stage.end(process)
    assert list(verdicts(stage)) == ["big"]
