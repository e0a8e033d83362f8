"""Which offsets a transaction commits: with a thousand partitions all of them took two seconds."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from streamfilter.engine.batches.pace import Pace
from streamfilter.engine.batches.refusals import Refusals
from streamfilter.engine.ports import Abortable, Member
from streamfilter.engine.transaction import WHOLE_SECONDS, Load, Transactions
from streamfilter.model import Positions
from tests.engine.scripted import FakeClock

ME = Member(1, "me", b"")


class Log:
    """Takes transactions, and remembers what each committed."""

    def __init__(self) -> None:
        self.sent: list[Positions] = []
        self.fails = False

    def send_offsets(self, positions: Positions, member: Member) -> None:
        if self.fails:
            raise Abortable("rebalanced")
        self.sent.append(dict(positions))

    def flush(self) -> int:
        return -1

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_: None


def begun(log: Log, clock: FakeClock) -> Transactions:
    quiet = SimpleNamespace(alive=lambda: None, transaction=lambda *_: None, loudly=lambda _: None)
    nothing: Any = SimpleNamespace(check=lambda *_, **__: None, committed=lambda _: None)
    parts: Any = SimpleNamespace(
        sink=log,
        changelog=log,
        clock=clock,
        observer=SimpleNamespace(process=quiet),
        incoming=SimpleNamespace(refusals=Refusals()),
        pace=Pace(clock, 10.0),
        bounds=SimpleNamespace(transaction_seconds=10.0, socket_seconds=10.0),
    )
    return Transactions(parts, nothing)


def test_a_transaction_commits_what_moved_and_all_once_an_hour() -> None:
    log, clock = Log(), FakeClock()
    transactions = begun(log, clock)
    for positions in ({0: 1, 1: 0, 2: 7}, {0: 1, 1: 3, 2: 7}, {0: 2, 1: 3, 2: 8}):
        transactions.run(Load(positions), ME)
    assert log.sent == [{0: 1, 1: 0, 2: 7}, {1: 3}, {0: 2, 2: 8}]
    clock.sleep(WHOLE_SECONDS)
    for _ in range(2):  # and nothing that moved is no reason to send no offset, and so no member
        transactions.run(Load({0: 2, 1: 3, 2: 8}), ME)
    transactions.run(Load({0: 2, 1: 4, 2: 8}), ME)
    assert log.sent[3:] == [{0: 2, 1: 3, 2: 8}, {0: 2, 1: 3, 2: 8}, {1: 4}]


def test_what_an_aborted_transaction_would_have_moved_is_moved_by_the_next() -> None:
    log, clock = Log(), FakeClock()
    transactions = begun(log, clock)
    transactions.run(Load({0: 1, 1: 1}), ME)
    log.fails = True
    assert transactions.run(Load({0: 5, 1: 1}), ME) is None
    log.fails = False
    transactions.run(Load({0: 5, 1: 2}), ME)
    assert log.sent == [{0: 1, 1: 1}, {0: 5, 1: 2}]
