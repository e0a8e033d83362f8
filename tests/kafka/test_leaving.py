"""SIGTERM while a library's call waits for the broker: the end comes in time, and harms nothing."""

import random

from streamfilter.kafka.broker.real import RealKafka
from tests.faults.proxy import Proxy
from tests.kafka.story import records, texts, verdicts
from tests.support.stage import Stage

SEED, INIT_PRODUCER_ID = 20_261_202, 22


def test_it_ends_though_initialising_transactions_does_not_return(
    kafka: RealKafka, stage: Stage
) -> None:
    stage.produce(records(texts(random.Random(SEED), 40)))
    common = {"bootstrap.servers": kafka.bootstrap_proxied}
    # The call may wait as long as a transaction may last: longer than this test would.
    settings = {"group": stage.group, "common": common, "transaction_timeout": "120s"}
    patient = {"stalled_after": "10m"}
    with Proxy.of(kafka.nodes[0]) as proxy:
        trap = proxy.hold(INIT_PRODUCER_ID)
        stuck = stage.start(kafka=settings, http=patient)
        trap.wait(60)
        assert stuck.terminate() == 75, stuck.told("ended otherwise")
        trap.release()
    log = stuck.log.read_text()
    assert "told to stop" in log
    assert "a call does not return" in log
    assert "open_producer" in log  # where it hung
    healthy = stage.start()
    stage.drain(healthy)
    assert healthy.terminate() == 0
    assert len(verdicts(stage)) == 40
