"""The topics between edges and judge take small messages only, from now on."""

import pytest

from tests.kafka.story import records
from tests.kafka.test_cluster import Make, drain, start
from tests.support.topics import alter_topic

pytestmark = pytest.mark.slow

SMALL = {"max.message.bytes": "20000"}
STORIES = [" ".join(f"w{number}x{word}" for word in range(150)) for number in range(300)]


def test_who_cannot_send_any_more_ends_and_its_next_start_cuts_what_it_sends(
    make_stage: Make,
) -> None:
    stage = make_stage()
    roles = {each: start(stage, each) for each in ("judge", "edge")}
    for process in roles.values():
        process.wait_for_state("running")
    for which, role in (("sketches", "edge"), ("verdicts", "judge")):
        alter_topic(stage.bootstrap, f"{stage.group}.{which}", SMALL)
        stage.produce(records(STORIES * 2))
        assert roles[role].wait_for_exit() == 75, roles[role].with_log("ended otherwise")
        assert "a start reads the limit" in roles[role].log.read_text()
        roles[role] = start(stage, role)
        drain(stage, [*roles.values()])
    found = stage.outputs()
    assert (len(found["unique"]), len(found["duplicates"])) == (300, 900)
