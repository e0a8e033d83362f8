"""What the long run's limits are made of: disks that are full for a while, records out of time."""

import random

from streamfilter.model import Record, Source
from tests.faults.expected import kind_of
from tests.faults.story import ODD, ODD_EVERY, Story


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
