"""What the long run's limits are made of: disks that are full for a while, records out of time."""

import errno
import os
import random
from pathlib import Path

import pytest

from streamfilter.model import Record, Source
from tests.faults.disks import Disks
from tests.faults.expected import kind_of
from tests.faults.story import ODD, ODD_EVERY, Story

MIB = bytes(1024 * 1024)


def test_a_disk_is_full_for_a_while_and_then_has_room_again(tmp_path: Path):
    disks = Disks(tmp_path, 2)
    if not disks.paths:
        pytest.skip("needs the right to mount a file system")
    try:
        path = disks.of(0)
        (path / "before").write_bytes(MIB)
        disks.fill(path)
        with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
            (path / "meanwhile").write_bytes(MIB)
        assert (disks.of(1) / "other").write_bytes(MIB) == len(MIB)
        disks.free(path)
        assert (path / "after").write_bytes(MIB) == len(MIB)
    finally:
        disks.close()


def test_without_disks_of_their_own_filters_keep_their_state_as_before(tmp_path: Path):
    assert Disks(tmp_path, 0).of(1) == tmp_path


def test_a_story_has_some_records_out_of_time_and_the_oracle_knows_them():
    def kinds(*, odd: bool) -> list[str]:
        taken = Story(random.Random(1), 2, odd=odd).take(2 * ODD_EVERY)
        records = [
            Record(Source("in", 0, n), each.key, each.value, (), each.timestamp)
            for n, each in enumerate(taken)
        ]
        return [kind_of(record)[0] for record in records]

    assert kinds(odd=True).count("refused") == 2 * len(ODD)
    assert kinds(odd=False).count("refused") == 0
