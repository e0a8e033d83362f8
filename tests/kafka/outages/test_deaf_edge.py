"""Lost replies of brokers: an edge that joins holds up no other, and what is muted goes on."""

import random

import pytest

from deploy.local.real import RealKafka
from tests.faults.causes.proxy import Proxy
from tests.kafka.story import records, texts
from tests.kafka.test_cluster import CLUSTER, Make, drain, start

PRODUCE, FETCH, JOIN_GROUP, SYNC_GROUP = 0, 1, 11, 14
WAIT_SECONDS = 120


@pytest.mark.slow(60)
@pytest.mark.parametrize("request_kind", [JOIN_GROUP, SYNC_GROUP])
def test_an_edge_that_never_learns_its_partitions_holds_up_no_record(
    make_stage: Make, kafka: RealKafka, proxy: Proxy, request_kind: int
) -> None:
    """Its group waits for its session to end; then the others have all partitions again."""
    stage = make_stage(partitions=4)
    judging = start(stage, "judge")
    judging.wait_for_state("running")
    first = start(stage, "edge")
    story = records(texts(random.Random(11), 400), partitions=4)
    stage.produce(story[:100])
    drain(stage, [judging, first])
    trap = proxy.mute_after(request_kind)
    common = {"bootstrap.servers": kafka.bootstrap_proxied}
    settings = {**CLUSTER, "kafka": {"session_timeout": "6s", "common": common}}
    deaf = stage.start(state="deaf", arguments=["--role", "edge"], **settings)
    trap.wait(WAIT_SECONDS)
    stage.produce(story[100:])
    drain(stage, [judging, first])
    assert not deaf.status().get("positions"), "it has partitions, and was not deaf"
    trap.release()
    deaf.child.kill()


@pytest.mark.long
@pytest.mark.parametrize("role", ["edge", "judge"])
@pytest.mark.parametrize("request_kind", [PRODUCE, FETCH])
def test_what_lost_replies_stop_goes_on_by_itself(
    make_stage: Make, kafka: RealKafka, proxy: Proxy, request_kind: int, role: str
) -> None:
    """A connection gets no replies any more; its client makes a new one."""
    stage = make_stage(partitions=4)
    proxied = {"session_timeout": "6s", "common": {"bootstrap.servers": kafka.bootstrap_proxied}}
    both = []
    for each in ("judge", "edge"):
        settings = {**CLUSTER, "kafka": proxied} if each == role else CLUSTER
        both.append(stage.start(state=each, arguments=["--role", each], **settings))
        both[-1].wait_for_state("running")
    story = records(texts(random.Random(12), 400), partitions=4)
    stage.produce(story[:100])
    drain(stage, both)
    trap = proxy.mute_after(request_kind)
    stage.produce(story[100:])
    trap.wait(WAIT_SECONDS)
    drain(stage, both)
    trap.release()
    for process in both:
        process.child.kill()
