"""A client that has lost the addresses of all brokers is reported, and its process begins anew."""

import json
import time
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient

from deploy.local.real import RealKafka
from streamfilter.config.loading import load_config
from streamfilter.kafka.brokers.topic_watch import refuse_stranded
from streamfilter.kafka.connection.clients import admin_client
from streamfilter.monitoring.client_statistics import Statistics
from streamfilter.stops import ExitCode, Temporary
from tests.faults.causes.proxy import CLEAR, ORPHANED, Proxy
from tests.support.filter_process import FilterProcess
from tests.support.stage import Stage
from tests.support.topics import Input

ORPHANED_SECONDS = 4.0
ROUNDS_MAX = 60
"""Whether a client is stranded is a race of librdkafka's threads; one of three filters was."""
WAIT_SECONDS = 120.0


def report(*sources: str) -> str:
    brokers = {str(number): {"source": source} for number, source in enumerate(sources)}
    return json.dumps({"name": "owner#1", "ts": 1, "brokers": brokers})


def test_what_could_ask_no_one_twice_is_stranded_and_ends_the_process():
    statistics = Statistics(lambda *_: None)
    for sources in (("logical",), ("logical", "configured"), (), ("learned",), ("internal",)):
        statistics.heard("owner", report(*sources))
        refuse_stranded(statistics)
    statistics.heard("owner", report("logical"))
    with pytest.raises(Temporary, match=r"owner#1: .* forgot the addresses"):
        refuse_stranded(statistics)


@pytest.mark.long
def test_one_that_is_stranded_ends_with_75_and_says_why(tmp_path):
    assert orphaned(tmp_path, rounds=ROUNDS_MAX), "is librdkafka mended?"


def orphaned(directory: Path, *, rounds: int) -> bool:
    """Orphan a filter again and again; return True as soon as it was stranded, and started anew."""
    with RealKafka() as kafka, Proxy.of(kafka.nodes[0]) as proxy:
        stage = Stage(kafka.bootstrap, directory)
        common = {"bootstrap.servers": kafka.bootstrap_proxied}
        brokers = {"common": common, "transaction_timeout": "5s", "session_timeout": "6s"}
        process = stage.start(kafka=brokers)
        admin = admin_client(load_config([stage.configuration(kafka=brokers)]))
        process.wait_for_state("running")
        stranded, fed = False, 0
        while fed < rounds and not stranded:
            answer(admin, stage)
            proxy.weather = ORPHANED
            proxy.cut()
            begun = time.monotonic()
            while time.monotonic() < begun + ORPHANED_SECONDS:
                answered(admin, stage)
            proxy.weather = CLEAR
            answer(admin, stage)
            words = " ".join(f"word{fed * 10 + n}" for n in range(10))
            stage.produce([Input(json.dumps({"id": str(fed), "text": words}).encode())])
            fed += 1
            deadline = time.monotonic() + WAIT_SECONDS
            while process.child.exit_code is None and reached(stage, process) < fed:
                assert time.monotonic() < deadline, process.with_log("neither went on nor ended")
                time.sleep(0.2)
            if stranded := process.child.exit_code is not None:
                assert process.wait_for_exit() == ExitCode.TEMPORARY
                assert "forgot the addresses of all brokers" in process.log.read_text()
                process = stage.start(kafka=brokers)
                stage.drain(process)
        assert process.terminate() == 0
        came = [json.loads(record.value or b"")["id"] for record in stage.outputs()["unique"]]
        assert came == [str(n) for n in range(fed)]
        return stranded


def reached(stage: Stage, process: FilterProcess) -> int:
    return process.status().get("positions", {}).get(f"{stage.input}/0", 0)


def answer(admin: AdminClient, stage: Stage) -> None:
    """Wait until *admin* is answered; it knows no controller until it asks for brokers again."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not answered(admin, stage):
        assert time.monotonic() < deadline, "the admin client does not ask for the controller"


def answered(admin: AdminClient, stage: Stage) -> bool:
    """Return whether *admin* learns of a topic in a second, as a start must be."""
    (asked,) = admin.describe_topics(TopicCollection([stage.input]), request_timeout=1).values()
    try:
        return bool(asked.result())
    except KafkaException:
        return False
