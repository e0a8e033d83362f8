"""A process that hangs is found out, says where, and ends."""

import pytest

from tests.support.machine.faulty import FaultyProcess

SHORT = {
    "kafka": {"transaction_timeout": "2s", "session_timeout": "2s"},
    "http": {"stalled_after": "5s", "stuck_after": "5s", "exit_after": "10s"},
}


@pytest.mark.slow
def test_a_hang_that_silences_every_thread_of_ours_still_ends_the_process(embedded_stage) -> None:
    process = FaultyProcess(embedded_stage(), **SHORT)
    assert process.wait_for_exit() == 1
    assert "membership.py" in process.log.read_text()
