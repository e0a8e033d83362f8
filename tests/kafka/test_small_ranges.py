"""The topics between edges and judge take small messages only, from the start or from now on."""

import pytest

from tests.kafka.story import records
from tests.kafka.test_cluster import Make, drain, start
from tests.support.stage import Stage
from tests.support.topics import alter_topic

pytestmark = pytest.mark.slow

SMALL = {"max.message.bytes": "20000"}
STORIES = [" ".join(f"w{number}x{word}" for word in range(150)) for number in range(300)]


def limited(stage: Stage, which: str) -> None:
    alter_topic(stage.bootstrap, f"{stage.group}.{which}", SMALL)


@pytest.mark.parametrize("which", ["sketches", "verdicts"])
def test_ranges_are_cut_to_what_their_topic_takes(make_stage: Make, which: str) -> None:
    stage = make_stage()
    judge = start(stage, "judge")
    judge.wait_for_state("running")
    limited(stage, which)
    assert judge.terminate() == 0
    stage.produce(records(STORIES * 2))
    roles = [start(stage, "judge"), start(stage, "edge")]
    drain(stage, roles)
    found = stage.outputs()
    assert (len(found["unique"]), len(found["duplicates"])) == (300, 300)


@pytest.mark.parametrize(("which", "role"), [("sketches", "edge"), ("verdicts", "judge")])
def test_who_cannot_send_any_more_ends_and_its_next_start_goes_on(
    make_stage: Make, which: str, role: str
) -> None:
    stage = make_stage()
    roles = {each: start(stage, each) for each in ("judge", "edge")}
    for process in roles.values():
        process.wait_for_state("running")
    limited(stage, which)
    stage.produce(records(STORIES * 2))
    assert roles[role].wait_for_exit() == 75, roles[role].with_log("ended otherwise")
    assert "a start reads the limit" in roles[role].log.read_text()
    roles[role] = start(stage, role)
    drain(stage, [*roles.values()])
    found = stage.outputs()
    assert (len(found["unique"]), len(found["duplicates"])) == (300, 300)
