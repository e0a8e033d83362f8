"""An admin client that asks a leader of the past is made to look for the present one.

Now and then it has none to ask any more: `test_stranded.py` tells what becomes of its process.
"""

import threading
import time

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from deploy.local.real import RealKafka
from streamfilter.engine.ports import Retriable, Watermarks
from streamfilter.kafka.brokers.broker_queries import bounds_of
from streamfilter.monitoring.client_statistics import Statistics
from tests.support.topics import create_topics

FROZEN_SECONDS = 20.0
"""Who is missed for 9 s loses its leaderships, and gets them back as later ones."""
IN_A_ROW = 50
WAIT_SECONDS = 120.0
"""By itself the client would look again after 300 s."""


@pytest.mark.long
def test_offsets_are_answered_again_soon_after_a_broker_was_frozen() -> None:
    with RealKafka() as kafka:
        create_topics(kafka.bootstrap, {"changelog": 1})
        statistics = Statistics(lambda *_: None)
        address = {"bootstrap.servers": kafka.bootstrap, "log_level": 2}
        admin = AdminClient(statistics.watched(address, "admin"))
        spot = TopicPartition("changelog", 0)
        deadline = time.monotonic() + WAIT_SECONDS
        while trouble := asked(admin, spot):  # of a topic just made, a leader is not known at once
            assert time.monotonic() < deadline, trouble
        kafka.nodes[0].pause()
        thaw = threading.Timer(FROZEN_SECONDS, kafka.nodes[0].resume)
        thaw.start()
        deadline, good = time.monotonic() + WAIT_SECONDS, 0
        while (good < IN_A_ROW or thaw.is_alive()) and not statistics.stranded():
            admin.poll(0)
            trouble = asked(admin, spot)
            good = 0 if trouble else good + 1
            assert time.monotonic() < deadline, trouble
            time.sleep(0.1)


def asked(admin: AdminClient, spot: TopicPartition) -> str:
    """Ask once, as a start does again and again; return what went wrong."""
    try:
        assert bounds_of(admin, [spot]) == [Watermarks(0, 0)]
    except Retriable as error:
        return str(error)
    return ""
