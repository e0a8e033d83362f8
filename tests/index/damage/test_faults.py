"""Which fault of an index ends a process, with which exit code and words."""

import pytest

from streamfilter.index.errors import (
    DiskFull,
    IndexDamaged,
    IndexFault,
    IndexLocked,
    IndexMismatch,
    IndexRefused,
    IndexUnavailable,
    as_stop,
)
from streamfilter.stops import NoRoom, SchemeMismatch, Temporary


@pytest.mark.parametrize(
    ("fault", "stop", "said"),
    [
        (IndexLocked("d: in use"), Temporary, "d: in use"),
        (IndexUnavailable("d: too many open files"), Temporary, "d: too many open files"),
        (DiskFull("d: full"), NoRoom, "what stays: all\n    cure: make room"),
        (IndexMismatch("d differs", ways="; a service's"), SchemeMismatch, "d differs; ours"),
        (IndexDamaged("d: broken"), SchemeMismatch, "d: broken"),
        (IndexRefused("d: a link"), SchemeMismatch, "d: a link"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, IndexFault) else "",
)
def test_each_fault_ends_a_process_with_one_code(fault, stop, said):
    found = as_stop(fault, "; ours", stays="all", cure="make room")
    assert type(found) is stop
    assert said in str(found)


def test_a_service_without_room_ends_as_temporary_and_says_that_it_goes_on_by_itself() -> None:
    found = as_stop(DiskFull("d: full"))
    assert type(found) is Temporary
    assert "goes on by itself" in str(found)
