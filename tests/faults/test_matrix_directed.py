"""Row 8, directed: the commit is heard, its reply is lost, and then the process is killed.

What the broker decided is not known to anybody who lives. The sweep's own fault and its oracle,
once; `python -m tests.long.sweep` does it as often as is wanted.
"""

from collections.abc import Iterator

import pytest

from deploy.local.real import RealKafka
from tests.faults.places import Place
from tests.faults.proxy import Proxy
from tests.long.sweep import DIRECTED, live
from tests.support.forge import Forge

SEED, ATTEMPTS = 20_261_122, 8
"""A strike that catches no commit is no trial, and is tried again."""


@pytest.fixture
def place(kafka: RealKafka, forge: Forge) -> Iterator[Place]:
    with Proxy.of(kafka.nodes[0]) as proxy:
        yield Place(kafka.bootstrap, kafka.bootstrap_proxied, proxy, forge.launch)


def test_a_kill_after_a_commit_whose_reply_was_lost_changes_nothing(place: Place) -> None:
    for number in range(ATTEMPTS):
        result = live(DIRECTED[8], 1, f"{SEED}/8/{number}", place)
        assert result.findings == []
        if result.trials:
            return
    pytest.fail(f"no commit was caught in {ATTEMPTS} lives")
