"""One task of six whose producer's initialisation gets no answer: the others work meanwhile."""

import random
from collections.abc import Callable

from deploy.local.real import RealKafka
from tests.faults.proxy import INIT_PRODUCER_ID, Proxy
from tests.kafka.story import records, texts, verdicts
from tests.support.filter_process import Status
from tests.support.stage import Stage

SEED, TASKS, RECORDS = 20_261_123, 6, 120


def test_a_task_that_cannot_start_yet_holds_up_no_other(
    kafka: RealKafka, make_stage: Callable[..., Stage]
) -> None:
    """All of them waited in its call, for as long as a transaction may last: here five minutes."""
    stage = make_stage(partitions=TASKS)
    stage.produce(records(texts(random.Random(SEED), RECORDS), partitions=TASKS))
    settings = {
        "group": stage.group,
        "common": {"bootstrap.servers": kafka.bootstrap_proxied},
        "transaction_timeout": "5m",
        # The held request must not be given up, and sent again, while the others still work.
        "producer": {"socket.timeout.ms": "300000"},
    }

    def all_others_are_done(status: Status) -> bool:
        done = [offset >= RECORDS // TASKS for offset in status.get("positions", {}).values()]
        return sum(done) >= TASKS - 1

    with Proxy.of(kafka.nodes[0]) as proxy:
        trap = proxy.hold(INIT_PRODUCER_ID)
        process = stage.start(
            kafka=settings,
            index={"path": str(stage.directory / "state"), "scope": "partition"},
            batch={"documents": 5},
            http={"stalled_after": "10m"},
        )
        trap.wait(60)
        status = process.wait_for(all_others_are_done, what="five tasks that work")
        assert status["state"] == "starting"  # the task furthest from working speaks for all
        trap.release()
        stage.end(process)
    assert len(verdicts(stage)) == RECORDS
