"""A process that hangs is found out, says where, and ends."""

from tests.support.machine.faulty import FaultyProcess
from tests.support.stage import Stage

SHORT = {
    "kafka": {"transaction_timeout": "2s", "session_timeout": "2s"},
    "http": {"stalled_after": "5s", "stuck_after": "5s", "exit_after": "10s"},
}


def test_a_hang_that_silences_every_thread_of_ours_still_ends_the_process(stage: Stage) -> None:
    process = FaultyProcess(stage, **SHORT)
    assert process.wait_for_exit() == 1
    assert "membership.py" in process.log.read_text()
