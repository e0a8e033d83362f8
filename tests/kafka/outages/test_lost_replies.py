"""A broker takes a request, and no reply comes any more on that connection: the filter goes on."""

import random
import time

import pytest

from deploy.local.real import RealKafka
from tests.faults.causes.proxy import Proxy
from tests.kafka.story import records, texts
from tests.kafka.test_cluster import Make

KINDS = {
    "Produce": 0,
    "Fetch": 1,
    "ListOffsets": 2,
    "Metadata": 3,
    "OffsetFetch": 9,
    "FindCoordinator": 10,
    "JoinGroup": 11,
    "Heartbeat": 12,
    "SyncGroup": 14,
    "ApiVersions": 18,
    "InitProducerId": 22,
    "AddPartitionsToTxn": 24,
    "AddOffsetsToTxn": 25,
    "EndTxn": 26,
    "TxnOffsetCommit": 28,
    "DescribeConfigs": 32,
}
AT_WORK = ("Produce", "Fetch", "Heartbeat", "AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn")
WAIT_SECONDS = 120


@pytest.mark.long
@pytest.mark.parametrize(
    ("request_kind", "at_work"),
    [*((kind, False) for kind in KINDS), *((kind, True) for kind in AT_WORK)],
)
def test_it_goes_on_by_itself(
    make_stage: Make, kafka: RealKafka, proxy: Proxy, request_kind: str, at_work: bool
) -> None:
    """It took a minute or five, or the start ended with 75. The tests' README has the times."""
    stage = make_stage(partitions=2)
    story = records(texts(random.Random(13), 300), partitions=2)
    proxied = {"session_timeout": "6s", "common": {"bootstrap.servers": kafka.bootstrap_proxied}}
    if not at_work:
        trap = proxy.mute_after(KINDS[request_kind])
    process = stage.start(kafka=proxied)

    def wait_for(count: int) -> None:
        deadline = time.monotonic() + WAIT_SECONDS
        while sum((process.status().get("positions") or {}).values()) < count:
            assert process.child.exit_code is None, process.with_log("ended")
            assert time.monotonic() < deadline, process.with_log(f"{count} were not judged")
            time.sleep(0.2)

    stage.produce(story[:100])
    if at_work:
        wait_for(100)
        trap = proxy.mute_after(KINDS[request_kind])
    stage.produce(story[100:])
    trap.wait(WAIT_SECONDS)
    wait_for(300)
    trap.release()
    process.child.kill()
