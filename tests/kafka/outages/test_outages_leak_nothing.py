"""Brokers that are killed under traffic leave the process as large as it was.

A client that is called while an exception is handled keeps its frames, and they keep the index:
`tests/test_architecture.py` holds in CI that none is called there.
"""

import gc
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from deploy.local.real import RealKafka
from streamfilter.config.configuration import Config
from streamfilter.config.loading import load_config
from streamfilter.index.rocks.rocks_index import RocksIndex
from streamfilter.kafka.service_start import serve
from streamfilter.monitoring.metrics import Metrics
from streamfilter.monitoring.web.showcase import Showcase
from streamfilter.process.health import Health
from tests.metrics.test_conservation import scraped
from tests.support.stage import Stage
from tests.support.topics import Input

KILLS = 1
DOCUMENTS = 1_500
AWAY_SECONDS = 8.0
"""Longer than the session: the task is lost, and begun anew with an index that is opened again."""
WAIT_SECONDS = 120.0
QUICK = {"transaction_timeout": "4s", "session_timeout": "6s"}


@pytest.mark.long
def test_outages_under_traffic_leave_one_index(tmp_path: Path) -> None:
    """Each left an index in memory for ever, with its cache, and counted its documents twice."""
    with RealKafka() as kafka:
        stage = Stage(kafka.bootstrap, tmp_path)
        brokers = {"common": {"bootstrap.servers": kafka.bootstrap}, **QUICK}
        config = load_config([stage.configuration(kafka=brokers, batch={"documents": 20})])
        with serving(config) as (health, metrics):
            for outage in range(KILLS):
                judged = outage * DOCUMENTS
                stage.produce(documents(judged))
                wait_for(lambda at=judged: reached(stage, health) > at)
                kafka.nodes[0].kill()
                time.sleep(AWAY_SECONDS)
                kafka.nodes[0].start()
                kafka.wait_until_ready()
                wait_for(lambda end=judged + DOCUMENTS: reached(stage, health) >= end)
            gc.collect()
            assert sum(isinstance(each, RocksIndex) for each in gc.get_objects()) == 1
            known = len(stage.outputs()["unique"])
            assert health.status.documents == known
            assert scraped(metrics)["streamfilter_index_documents", ()] == known


@contextmanager
def serving(config: Config) -> Iterator[tuple[Health, Metrics]]:
    """Run the service in a thread of this process, whose objects can be counted."""
    health, stop = Health(bound_seconds=60), threading.Event()
    metrics = Metrics(health)
    shown = {"health": health, "metrics": metrics, "showcase": Showcase()}
    options = {**shown, "stopping": stop.is_set}
    working = threading.Thread(target=serve, args=(config,), kwargs=options)
    working.start()
    try:
        yield health, metrics
    finally:
        stop.set()
        working.join(WAIT_SECONDS)


def documents(first: int) -> Iterator[Input]:
    for number in range(first, first + DOCUMENTS):
        words = " ".join(f"word{number * 10 + n}" for n in range(10))
        yield Input(json.dumps({"id": str(number), "text": words}).encode())


def reached(stage: Stage, health: Health) -> int:
    return health.status.positions.get(f"{stage.input}/0", 0)


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)
