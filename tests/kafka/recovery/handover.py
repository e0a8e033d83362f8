"""How long does a takeover take? ``python -m tests.kafka.recovery.handover --documents 1000000``.

Two processes on a real broker have an index of synthetic documents. Their records are written to
the changelog directly: the filter would take longer, and the result is the same. Then the owner is
ended, by turns with SIGTERM and with SIGKILL, and a record is produced at once. The time runs
until the other process has committed it. The first process is started again each time, and
catches up as a standby.
"""

import argparse
import json
import os
import random
import signal
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from confluent_kafka import Producer

from deploy.local.real import RealKafka
from streamfilter.bench.machine import machine, versions
from streamfilter.config.loading import load_config
from streamfilter.engine.messages import changelog
from streamfilter.engine.messages.changelog_header import Header, encode_header
from streamfilter.index.directory.identity import Identity
from streamfilter.index.directory.seed_file import read_seed
from streamfilter.index.format import FORMAT
from streamfilter.model import BatchMark, Span
from streamfilter.similarity.text.normalisation import UNICODE_VERSION
from tests.bench.indexing import BATCH, documents_of
from tests.kafka.story import record, texts
from tests.support.filter_process import FilterProcess
from tests.support.stage import Stage
from tests.support.topics import create_topics
from tests.support.values import replace

SESSION_SECONDS = 10
FILL_TIMEOUT_SECONDS = 3_600
REPORT = Path(__file__).parents[2] / "bench_runs" / "standby.json"


def fill(stage: Stage, documents: int) -> None:
    """Write a changelog of *documents*, as if the group had judged them."""
    scheme = load_config([stage.configuration()]).scheme()
    identity = Identity(
        index_id="5b" * 16,
        format=FORMAT,
        scheme_fingerprint=scheme.fingerprint,
        scheme=scheme.as_json(),
        seed=read_seed(stage.directory / "seed"),
        created=0,
        unicode_version=UNICODE_VERSION,
        external_seed=True,
    )
    settings = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
    create_topics(stage.bootstrap, {stage.changelog: 1}, config=settings)
    producer = Producer({"bootstrap.servers": stage.bootstrap, "linger.ms": 20})

    def produce(values: list[bytes]) -> None:
        for value in values:
            producer.produce(stage.changelog, value=value, partition=0)
        producer.flush(60)

    nothing = (Span(0, 0, 0),)
    produce([encode_header(Header(identity.encode(), stage.group))])
    produce([changelog.encode_batch(changelog.BatchRecord(BatchMark(0, 0, 0, nothing), -1))])
    for number in range(1, documents // BATCH + 1):
        made = replace(documents_of(number - 1), batches=np.full(BATCH, number))
        mark = BatchMark(number, (number - 1) * BATCH, number * BATCH, nothing)
        end = changelog.encode_batch(changelog.BatchRecord(mark, -1))
        produce([*changelog.encode_changelog_documents(made), end])


class Pair:
    """Two processes; which of them owns the task changes."""

    def __init__(self, stage: Stage) -> None:
        self._stage, self._texts = stage, texts(random.Random(5), 1_000)
        self._sent = 0
        self._names: dict[str, str] = {}
        self.owner, self.waiting = (self._start(name) for name in ("one", "another"))
        self.filled_seconds = self._wait_abreast(FILL_TIMEOUT_SECONDS)

    def _start(self, name: str) -> FilterProcess:
        process = self._stage.start(state=name, kafka={"session_timeout": f"{SESSION_SECONDS}s"})
        self._names[process.url] = name
        return process

    def _wait_abreast(self, timeout: float) -> float:
        begun = time.monotonic()

        def abreast(_: Any) -> bool:
            both = {p.status().get("state"): p for p in (self.owner, self.waiting)}
            if set(both) != {"running", "standby"}:
                return False
            self.owner, self.waiting = both["running"], both["standby"]
            told = self.waiting.status()
            documents = self.owner.status()["index_documents"]
            return told["index_documents"] == documents and not told["restore_remaining_records"]

        self.waiting.wait_for(abreast, what="a standby abreast", timeout_seconds=timeout)
        return time.monotonic() - begun

    def send(self) -> None:
        self._stage.produce([record(self._sent, self._texts[self._sent])])
        self._sent += 1

    def hand_over(self, *, kill: bool) -> tuple[float, float]:
        """End the owner; return the seconds to a committed record, and to a new standby."""
        self.send()
        self._stage.drain(self.owner)
        self._wait_abreast(60)
        old, begun = self.owner, time.monotonic()
        os.kill(old.child.pid, signal.SIGKILL if kill else signal.SIGTERM)
        self.send()
        key, end = f"{self._stage.input}/0", self._sent
        while self.waiting.status().get("positions", {}).get(key, 0) < end:
            assert time.monotonic() - begun < 120, self.waiting.with_log("did not take over")
            time.sleep(0.01)
        seconds = time.monotonic() - begun
        old.terminate()
        self.owner = self.waiting
        self.waiting = self._start(self._names[old.url])
        return seconds, self._wait_abreast(600)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory, RealKafka() as kafka:
        stage = Stage(kafka.bootstrap, Path(directory))
        fill(stage, options.documents)
        print(f"{options.documents} documents in {stage.changelog}", flush=True)
        try:
            report = measure(stage, options.documents, options.rounds)
        finally:
            stage.close()
    REPORT.write_text(json.dumps(report, indent=2) + "\n")


def measure(stage: Stage, documents: int, rounds: int) -> dict[str, Any]:
    """Return the figures; prints them as they come."""
    pair = Pair(stage)
    print(f"both indexes filled in {pair.filled_seconds:.0f} s", flush=True)
    seconds: dict[str, list[float]] = {"SIGTERM": [], "SIGKILL": []}
    abreast: list[float] = []
    for number in range(rounds):
        for name, kill in (("SIGTERM", False), ("SIGKILL", True)):
            took, again = pair.hand_over(kill=kill)
            seconds[name].append(round(took, 2))
            abreast.append(round(again, 2))
            print(f"round {number}: {name} {took:.2f} s; abreast again {again:.1f} s", flush=True)
    return {
        "schema": 1,
        "question": "How long after the owner's end has the standby committed the next record?",
        "command": "python -m tests.kafka.recovery.handover "
        f"--documents {documents} --rounds {rounds}",
        "machine": machine(),
        "versions": versions(),
        "settings": {
            "documents": documents,
            "session_timeout_seconds": SESSION_SECONDS,
            "changelog": "synthetic records, written directly",
        },
        "filled_seconds": round(pair.filled_seconds, 1),
        "hand_over_seconds": seconds,
        "abreast_again_seconds": abreast,
    }


if __name__ == "__main__":
    main()
