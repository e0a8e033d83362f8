"""Rows 40 and 41: little memory and few descriptors, far behind, and the largest of fetches."""

import json
import random
import re

import pytest

from tests.kafka.story import TIMESTAMP, verdicts
from tests.support.filter_process import FilterProcess, Status
from tests.support.machine.memory import MIB, limited, peak_bytes
from tests.support.topics import Input

SEED = 20_261_146
SIZE = 100_000
"""Bytes of a document: far more than are read in the time that a batch takes."""
DOCUMENTS = 150
"""Of a round: 15 MB."""
GREEDY = {
    "batch": {"documents": 10, "bytes": "4Mi"},
    "kafka": {
        "session_timeout": "6s",
        "consumer": {"fetch.max.bytes": 50 << 20, "max.partition.fetch.bytes": 50 << 20},
    },
}
DESCRIPTORS = 256
"""Of a shell's default on some systems; they are enough."""
QUEUED_BYTES_MAX = 50 * MIB + 16 * MIB
"""What is asked for before a bounded queue is looked at: one fetch, and the bound."""


def large(rng: random.Random, first: int) -> list[Input]:
    """Return documents of `SIZE` bytes of random words."""
    words = [f"w{rng.randrange(10**6)}" for _ in range(20_000)]
    found = []
    for number in range(first, first + DOCUMENTS):
        text = " ".join(rng.choices(words, k=SIZE // 8))
        value = json.dumps({"id": f"d{number}", "text": text}).encode()
        found.append(Input(value, timestamp=TIMESTAMP + number))
    return found


def worked_off(process: FilterProcess, end: int) -> float:
    """Wait until *end* records are judged; return the most bytes that were seen in its queue."""
    seen = [0.0]

    def done(status: Status) -> bool:
        seen.append(queued_bytes(process))
        return sum(status.get("positions", {}).values()) >= end

    process.wait_for(done, what="end of the backlog", timeout_seconds=300)
    return max(seen)


def queued_bytes(process: FilterProcess) -> float:
    scrape = process.get("/metrics") or ""
    found = re.search(r'kafka_queued_bytes\{client="data"\} (\S+)', scrape)
    return float(found[1]) if found else 0.0


@pytest.mark.parametrize(
    ("limit_mib", "trials"),
    [
        pytest.param(512, 1, id="512-short"),
        pytest.param(512, 40, id="512-long", marks=pytest.mark.long),
        pytest.param(1_024, 40, id="1024-long", marks=pytest.mark.long),
    ],
    indirect=["trials"],
)
def test_a_backlog_is_worked_off_within_the_limit(make_stage, limit_mib, trials):
    stage = make_stage()
    with limited(limit_mib * MIB) as limit:
        prefix = (*limit, "prlimit", f"--nofile={DESCRIPTORS}:{DESCRIPTORS}")
        rounds = trials.of("40", f"{limit_mib} MiB, far behind", seed=SEED)
        stage.produce(large(next(rounds), 0))
        process, most = stage.start(prefix=prefix, **GREEDY), 0.0
        for number, rng in enumerate(rounds, 1):
            most = max(most, worked_off(process, number * DOCUMENTS))
            stage.produce(large(rng, number * DOCUMENTS))
        most = max(most, worked_off(process, trials.count * DOCUMENTS))
        stage.drain(process)
        peak = peak_bytes(process.child.pid)
        trials.saw(f"peak {peak // MIB} MiB, queued {most / MIB:.0f} MiB")
        assert process.terminate() == 0
    assert peak < limit_mib * MIB
    assert most < QUEUED_BYTES_MAX
    assert len(verdicts(stage)) == trials.count * DOCUMENTS
