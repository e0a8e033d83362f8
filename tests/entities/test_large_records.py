"""Records whose changelog record is larger than the changelog takes: dead letters, no loop."""

import json

from streamfilter.kafka.brokers.topics import BROKERS_TIME, CHANGELOG_SETTINGS
from tests.kafka.story import TIMESTAMP
from tests.support.stage import Stage
from tests.support.topics import Input, create_topics, header

FIELDS = {
    "input": {"format": "fields", "fields": {"/name": "words", "/address": "words"}},
    "similarity": {"threshold": 0.75},
}


def customer(number: int, *, words: int = 3) -> Input:
    name = " ".join(f"name{number}x{each}" for each in range(words))
    value = json.dumps({"id": f"c{number}", "name": name, "address": f"{number} Long Street"})
    return Input(value.encode(), key=f"k{number}".encode(), timestamp=TIMESTAMP)


def test_a_record_that_the_changelog_cannot_take_is_a_dead_letter_before_it_is_judged(stage):
    small = CHANGELOG_SETTINGS | BROKERS_TIME | {"max.message.bytes": "5000"}
    create_topics(stage.bootstrap, {stage.changelog: 1}, config=small)
    stage.produce([customer(0), customer(1, words=2_000), customer(2), customer(1, words=2_000)])
    settings = {**FIELDS, "input": {**FIELDS["input"], "topic": stage.input}}
    process = stage.start(**settings, limits={"dead_letter_share": 1.0})
    stage.end(process)
    outputs = stage.outputs()
    assert [each.key for each in outputs["unique"]] == [b"k0", b"k2"]
    assert [each.key for each in outputs["dead_letter"]] == [b"k1", b"k1"]
    for each in outputs["dead_letter"]:
        assert header(each, "__streamfilter.error.code") == "too_large"
        assert "the changelog takes 5000" in (header(each, "__streamfilter.error.message") or "")
    said = process.log.read_text()
    assert "transaction aborted" not in said
    assert "max.message.bytes=5000: the outputs take" in said


def test_a_changelog_that_is_made_takes_what_the_largest_output_takes(stage: Stage):
    stage.produce([customer(0), customer(1, words=20_000)])
    settings = {**FIELDS, "input": {**FIELDS["input"], "topic": stage.input}}
    stage.run(**settings)
    assert [each.key for each in stage.outputs()["unique"]] == [b"k0", b"k1"]
