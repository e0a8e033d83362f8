"""What `check --connect` and the start say of topics whose brokers will refuse records."""

import pytest

from streamfilter.config.configuration import Config
from streamfilter.kafka.brokers.topics import Topic, warnings_of

CONFIG = {
    "input": {"topic": "in"},
    "output": {"unique": "unique", "duplicates": "duplicates", "dead_letter": "dead"},
    "kafka": {"group": "g", "common": {"bootstrap.servers": "localhost:1"}},
}
FIELDS = {"topic": "in", "format": "fields", "fields": {"/name": "words", "/phone": "digits"}}
HOUR, ALWAYS = "3600000", str(2**63 - 1)
AFTER, BEFORE = "message.timestamp.after.max.ms", "message.timestamp.before.max.ms"
BROKERS = {"message.timestamp.type": "LogAppendTime"}


def told(settings: dict[str, dict[str, str]], **sections: object) -> list[tuple[str, str, str]]:
    names = ("in", "unique", "duplicates", "dead", "g.changelog")
    own = {"g.changelog": BROKERS}
    topics = {name: Topic(1, {**own.get(name, {}), **settings.get(name, {})}) for name in names}
    warnings = warnings_of(Config.model_validate({**CONFIG, **sections}), topics)
    return [(each.key, each.got, each.cure) for each in warnings]


def test_topics_as_kafka_makes_them_are_nothing_to_speak_of():
    plain = {AFTER: HOUR, BEFORE: ALWAYS, "cleanup.policy": "delete"}
    assert told(dict.fromkeys(("in", "unique", "duplicates", "dead"), plain)) == []


@pytest.mark.parametrize("setting", [AFTER, BEFORE])
def test_an_output_that_takes_fewer_timestamps_than_the_input_is_named_with_the_cure(setting):
    ((key, got, cure),) = told({"in": {setting: ALWAYS}, "unique": {setting: HOUR}})
    assert key == "output.unique"
    assert f"'unique' has {setting}={HOUR}" in got
    assert "dead letters" in got
    assert cure.endswith(f"--topic unique --add-config {setting}={ALWAYS}")


def test_timestamps_that_a_broker_writes_are_refused_nowhere():
    assert told({"in": {AFTER: ALWAYS, **BROKERS}, "unique": {AFTER: HOUR}}) == []


def test_a_changelog_that_believes_our_clock_is_named_with_the_cure():
    ((key, got, cure),) = told({"g.changelog": {"message.timestamp.type": "CreateTime"}})
    assert key == "index.changelog"
    assert "while this host's clock is more than an hour ahead of the brokers'" in got
    assert cure.endswith("--topic g.changelog --add-config message.timestamp.type=LogAppendTime")


def test_a_compacted_output_is_named():
    ((key, got, _),) = told({"dead": {"cleanup.policy": "compact,delete"}})
    assert key == "output.dead_letter"
    assert "refuses records without a key" in got


def test_a_changelog_that_takes_less_than_the_outputs_is_named_for_records_with_fields():
    small = {"g.changelog": {"max.message.bytes": "5000"}}
    assert told(small) == []
    ((key, got, cure),) = told(small, input=FIELDS)
    assert key == "index.changelog"
    assert "max.message.bytes=5000: the outputs take 1048588" in got
    assert cure.endswith("--add-config max.message.bytes=1048588")
