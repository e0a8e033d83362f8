"""A short storm in one group, and a short soak on three nodes; `tests.long.kills` has the rest."""

import contextlib
import random
import time
from pathlib import Path

import pytest

from deploy.local.real import RealKafka
from tests.faults.causes.nemesis import PROCESS_FAULTS, Nemesis
from tests.faults.causes.proxy import Proxy
from tests.faults.life import PROTOCOLS, SESSION_SECONDS, Life
from tests.faults.tally import ROWS
from tests.long.kills import faults_for
from tests.support.session.forge import Forge
from tests.support.session.shared_broker import SHORT_CLOCKS

STORM_SECONDS, SOAK_SECONDS = 2.0, 8.0
"""Of each of four protocols, and of the soak: what is judged is what came of it, however much."""
LONGER = 30
"""So many times as long is the long run's share."""
SEED = "20261127"


def rage(life: Life, nemesis: Nemesis, seconds: float) -> None:
    """Wrong *life* for so long, and until something has happened; judge what is left."""
    end, before = time.monotonic() + seconds, life.tally.faults.total()
    nemesis.rage(until=lambda: time.monotonic() > end and life.tally.faults.total() > before)
    life.checkpoint()
    assert life.tally.findings == []


@pytest.mark.slow(100)
@pytest.mark.parametrize(
    "seconds", [STORM_SECONDS, pytest.param(STORM_SECONDS * LONGER, marks=pytest.mark.long)]
)
def test_a_storm_of_joins_leaves_and_kills_under_every_protocol(
    kafka: RealKafka, forge: Forge, tmp_path: Path, seconds: float
) -> None:
    rng = random.Random(SEED)
    partition_scope = {"scope": "partition", "partitions": 4, "workers": 3}
    with Life(kafka, tmp_path, rng, launch=forge.launch, **partition_scope) as life:
        for protocol in rng.sample(list(PROTOCOLS), len(PROTOCOLS)):
            print(f"protocol {protocol}")
            life.protocol = protocol
            life.hire()
            life.feeder.go_on()
            rage(life, Nemesis(life, PROCESS_FAULTS, armed_share=0.2), seconds)
            time.sleep(SESSION_SECONDS + 1)  # static members stay in the group for so long


@pytest.mark.long
def test_a_kill_after_a_commit_whose_reply_was_lost_changes_nothing(kafka, forge, tmp_path):
    with (
        Proxy.of(kafka.nodes[0]) as proxy,
        Life(kafka, tmp_path, random.Random(SEED), proxies=[proxy], launch=forge.launch) as life,
    ):
        rage(life, Nemesis(life, faults_for(life, {8}), armed_share=0.0), seconds=0)


@pytest.mark.slow(100)
@pytest.mark.parametrize(
    "seconds", [SOAK_SECONDS, pytest.param(SOAK_SECONDS * LONGER, marks=pytest.mark.long)]
)
def test_a_soak_on_three_nodes_with_every_fault_at_once(kafka, forge, tmp_path, seconds):
    rng = random.Random(SEED)
    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(RealKafka(nodes=3, properties=SHORT_CLOCKS))
        proxies = [stack.enter_context(Proxy.of(node)) for node in cluster.nodes]
        life = Life(cluster, tmp_path, rng, proxies=proxies, launch=forge.launch)
        stack.enter_context(life)
        rage(life, Nemesis(life, faults_for(life, set(ROWS)), armed_share=0.4), seconds)
