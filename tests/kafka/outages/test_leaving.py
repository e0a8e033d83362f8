"""SIGTERM while a library's call waits for the broker: the end comes in time, and harms nothing."""

import random
from typing import Any

import pytest

from deploy.local.real import RealKafka
from tests.faults.causes.proxy import END_TXN
from tests.kafka.story import records, texts, verdicts
from tests.support.stage import Stage

SEED = 20_261_202


@pytest.mark.slow(30)
def test_it_ends_though_a_commit_does_not_return(kafka, proxy, stage):
    stage.produce(records(texts(random.Random(SEED), 40)))
    trap = proxy.hold(END_TXN)
    stuck = stage.start(**patient(stage, kafka))
    trap.wait(60)
    assert stuck.terminate() == 75, stuck.with_log("ended otherwise")
    trap.release()
    log = stuck.log.read_text()
    assert "asked to stop" in log
    assert "a call does not return" in log
    assert "commit_transaction" in log  # where it hung
    stage.run()
    assert len(verdicts(stage)) == 40


def patient(stage: Stage, kafka: RealKafka) -> dict[str, dict[str, Any]]:
    """Return settings by which a call may wait for longer than these tests would."""
    common = {"bootstrap.servers": kafka.bootstrap_proxied}
    settings = {"group": stage.group, "common": common, "transaction_timeout": "120s"}
    return {"kafka": settings, "http": {"stalled_after": "10m"}}
