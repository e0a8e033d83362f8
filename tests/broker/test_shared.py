"""The one broker of a run, which its workers share (`tests/support/session/shared_broker.py`)."""

import os
from pathlib import Path
from unittest.mock import Mock

from deploy.local.node import Ports
from tests.support.session.shared_broker import SharedKafka, shared


def test_a_worker_shares_the_broker_and_starts_its_own_once_that_has_ended(tmp_path: Path) -> None:
    made = []

    def make() -> Mock:
        node = Mock(ports=Ports(1, 2, 3, 4), directory=tmp_path, pid=os.getpid())
        made.append(Mock(nodes=[node]))
        return made[-1]

    for number in range(2):
        with shared(tmp_path, make) as broker:
            assert broker is made[number]
            (tmp_path / "users" / str(os.getpid())).unlink()
            with shared(tmp_path, make) as other:
                assert isinstance(other, SharedKafka)
            (tmp_path / "users" / str(os.getpid())).touch()
    assert len(made) == 2
