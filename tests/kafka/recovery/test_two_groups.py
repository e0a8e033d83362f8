"""Two groups that are given one changelog: neither index could be trusted or restored after."""

import random

from confluent_kafka import Producer

from streamfilter.engine.messages.changelog_header import BATCH, kind_of
from tests.kafka.recovery.test_takeover import SETTINGS
from tests.kafka.story import records, texts, verdicts
from tests.support.topics import read_committed

SEED = 20_261_160


def test_who_writes_to_our_changelog_is_noticed_before_anything_more_is_committed(stage):
    stories = texts(random.Random(SEED + 1), 80)
    stage.produce(records(stories[:40]))
    process = stage.start(**SETTINGS)
    stage.drain(process)
    written = [each.value or b"" for each in read_committed(stage.bootstrap, stage.changelog)]
    theirs = [value for value in written if kind_of(value) == BATCH][-1]
    stranger = Producer(
        {"bootstrap.servers": stage.bootstrap, "transactional.id": f"{stage.group}.stranger"}
    )
    stranger.init_transactions(60)
    # What is aborted belongs to no group: it takes offsets, and disturbs nothing.
    for commit in (False, True):
        stranger.begin_transaction()
        stranger.produce(stage.changelog, value=theirs, partition=0)
        stranger.flush(60)
        if commit:
            stranger.commit_transaction(60)
        else:
            stranger.abort_transaction(60)
            stage.produce(records(stories[40:60], first=40))
            stage.drain(process)
            assert len(verdicts(stage)) == 60
    stage.produce(records(stories[60:], first=60))
    assert process.wait_for_exit() == 78, process.with_log("went on")
    assert "another program writes this changelog, so judging stopped" in (process.log.read_text())
    assert f"that no process of the group '{stage.group}' wrote" in process.log.read_text()
    assert len(verdicts(stage)) == 60
