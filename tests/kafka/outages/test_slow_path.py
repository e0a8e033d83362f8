"""A way to the brokers that takes longer for a full batch than a transaction lives."""

import json
import random
from typing import Any

from tests.faults.causes.proxy import Weather
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
    stage.produce(heavy(600))
    process = stage.start(
        **{
            **SLOW,
            "kafka": {**SLOW["kafka"], "common": {"bootstrap.servers": kafka.bootstrap_proxied}},
        }
    )
    proxy.weather = Weather(rate=RATE)
    stage.drain(process)
    proxy.weather = Weather()
    assert process.terminate() == 0, process.with_log("did not end well")
    said = process.log.read_text()
    assert "transaction aborted" in said, "it was not too slow for a full batch"
    assert SECOND_CLUSTER not in said
    assert len(verdicts(stage)) == 600
