"""`run` with a table: verdicts and metrics, a restore, and the refusal of another table."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer

from deploy.local.node import free_ports
from streamfilter import cli
from streamfilter.kafka.embedded import EmbeddedBroker
from tests.boilerplate.pages import COPIES, pages, written
from tests.support.filter_process import FilterProcess

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("alone")]

SAMPLE = pages()
CONFIG = """
input: {{topic: pages}}
similarity: {{normalise: {{boilerplate: {table}}}}}
batch: {{workers: 2}}
index: {{path: {state}}}
http: {{port: {port}}}
kafka: {{group: pages, common: {{bootstrap.servers: "{broker}"}}}}
"""


@contextmanager
def running(broker: EmbeddedBroker, *, state: str, table: str) -> Iterator[FilterProcess]:
    port = free_ports(1)[0]
    config = Path(f"{state}.yaml")
    text = CONFIG.format(table=table, state=state, port=port, broker=broker.bootstrap)
    config.write_text(text)
    process = FilterProcess(config, port=port, log=Path(f"{state}.log"))
    try:
        yield process
    finally:
        process.terminate()


def metric(process: FilterProcess, name: str) -> float:
    lines = (process.get("/metrics") or "").splitlines()
    found = [each for each in lines if each.startswith(f"streamfilter_{name}")]
    return float(found[0].split()[-1]) if found else -1


@pytest.mark.slow(30)
def test_a_service_drops_boilerplate_and_keeps_to_its_table() -> None:
    sample = written(Path("pages.jsonl"), [each.text for each in SAMPLE])
    assert cli.main(["boilerplate", sample.name, "-o", "t.bin"]) == 0
    assert cli.main(["boilerplate", sample.name, "-o", "other.bin", "--at-least", "40"]) == 0
    with EmbeddedBroker() as broker:
        names = (
            "pages",
            "pages.unique",
            "pages.duplicates",
            "pages.dead-letter",
            "pages.changelog",
        )
        broker.create_topics(dict.fromkeys(names, 1))
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        for line in sample.read_bytes().splitlines():
            producer.produce("pages", line)
        producer.produce("pages", json.dumps({"text": SAMPLE[0].text.split("\n")[3], "id": "f"}))
        producer.flush(30)
        total = len(SAMPLE) + 1
        with running(broker, state="one", table="t.bin") as process:
            process.wait_for(
                lambda _: metric(process, "records_consumed_total") == total, what="all judged"
            )
            assert metric(process, 'documents_total{verdict="near_duplicate"') == COPIES
            assert metric(process, 'boilerplate_documents_total{left="enough"') == len(SAMPLE)
            assert metric(process, 'boilerplate_documents_total{left="few"') == 1
            assert metric(process, 'boilerplate_sample_share{left="enough"') == 1
            left = process.status()["quality"]["boilerplate_left"]
            assert left == {"all": 0, "enough": len(SAMPLE), "few": 1}
        with running(broker, state="two", table="t.bin") as process:  # restored from the changelog
            process.wait_for(
                lambda _: metric(process, "index_documents") == total - COPIES,
                what="a restored index",
            )
        with running(broker, state="one", table="other.bin") as process:
            assert process.wait_for_exit() == 78
            assert "scheme.normalisation.boilerplate: it has" in process.log.read_text()
