"""Defaults < files < environment < overrides, and what fills in a ${…}."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from streamfilter.config.loading import load_config
from streamfilter.stops import ConfigError


def written(tmp_path: Path, text: str, name: str = "a.yaml") -> Path:
    path = tmp_path / name
    path.write_text(text)
    return path


def test_without_any_source_everything_has_its_default():
    config = load_config((), {})
    assert config.similarity.threshold == 0.8
    assert config.batch.latency == timedelta(milliseconds=20)
    assert config.limits.document == 10 * 1024 * 1024
    assert (config.scheme().bands, config.scheme().rows) == (16, 6)


def test_later_sources_win_and_leave_the_other_settings_alone(tmp_path):
    low = written(tmp_path, "batch: {documents: 1, bytes: 2Mi, latency: 3ms}\nhttp: {port: 1}")
    high = written(tmp_path, "batch: {documents: 10}", "b.yaml")
    environment = {"STREAMFILTER_BATCH__BYTES": "4Mi", "STREAMFILTER_BATCH__DOCUMENTS": "20"}
    config = load_config([low, high], environment, ["batch.documents=30"])
    assert config.batch.documents == 30
    assert config.batch.bytes == 4 * 1024 * 1024
    assert config.batch.latency == timedelta(milliseconds=3)
    assert config.http.port == 1


def test_librdkafka_names_stay_plain_keys_in_every_source(tmp_path):
    path = written(tmp_path, "kafka: {common: {bootstrap.servers: 'a:1', client.rack: r1}}")
    environment = {"STREAMFILTER_KAFKA__COMMON__BOOTSTRAP_SERVERS": "b:2"}
    config = load_config([path], environment, ["kafka.consumer.fetch.wait.max.ms=7"])
    assert config.kafka.properties("common") == {"bootstrap.servers": "b:2", "client.rack": "r1"}
    assert config.kafka.properties("consumer")["fetch.wait.max.ms"] == "7"
    assert "fetch.wait.max.ms" not in config.kafka.properties("producer")


def test_properties_reach_librdkafka_in_its_own_spelling(tmp_path):
    path = written(tmp_path, "kafka: {consumer: {check.crcs: true, fetch.min.bytes: 5}}")
    properties = load_config([path], {}).kafka.properties("consumer")
    assert (properties["check.crcs"], properties["fetch.min.bytes"]) == ("true", "5")


def test_a_whole_section_can_come_from_one_variable():
    config = load_config((), {"STREAMFILTER_SIMILARITY": "{threshold: 0.7, shingle: {size: 2}}"})
    assert (config.similarity.threshold, config.similarity.shingle.size) == (0.7, 2)


def test_plain_values_of_the_command_line_stay_text_where_text_is_wanted():
    config = load_config((), {}, ["input.topic=0815", "kafka.group=no", "index.changelog=null"])
    assert (config.input.topic, config.kafka.group) == ("0815", "no")
    assert config.index.changelog is None
    assert config.changelog_topic == "no.changelog"


def test_references_are_filled_in_from_environment_and_files(tmp_path):
    secret = written(tmp_path, "s3cret\n", "secret")
    path = written(
        tmp_path,
        "kafka:\n  group: ${TEAM:-nobody}-${STAGE}\n"
        f"  common: {{bootstrap.servers: 'x:1', sasl.password: '${{file:{secret}}}'}}\n"
        "http: {port: '${PORT_NUMBER}'}\nindex: {path: 'a$${b}'}\n",
    )
    config = load_config([path], {"STAGE": "prod", "PORT_NUMBER": "9000"})
    assert config.kafka.group == "nobody-prod"
    assert config.kafka.properties("common")["sasl.password"] == "s3cret"
    assert config.http.port == 9000
    assert str(config.index.path) == "a${b}"


def test_outputs_that_are_left_out_are_named_after_the_input():
    config = load_config((), {}, ["input.topic=tickets", "output.duplicates=again"])
    assert config.output.unique == "tickets.unique"
    assert config.output.duplicates == "again"
    assert config.output.dead_letter == "tickets.dead-letter"


def test_no_dead_letter_topic_is_something_one_can_say():
    assert load_config((), {}, ["output.dead_letter=null"]).output.dead_letter is None


def test_a_start_time_needs_its_zone():
    config = load_config((), {}, ["input.start=2026-01-31T00:00:00Z"])
    assert config.input.start == datetime(2026, 1, 31, tzinfo=UTC)
    with pytest.raises(ConfigError, match=r"input\.start"):
        load_config((), {}, ["input.start=2026-01-31T00:00:00"])


def test_given_bands_or_rows_alone_take_the_slots_there_are():
    assert load_config((), {}, ["similarity.bands=20"]).scheme().rows == 6
    assert load_config((), {}, ["similarity.rows=4"]).scheme().bands == 32


def test_an_empty_mapping_replaces_what_is_below_it_and_an_empty_section_does_not(tmp_path):
    file = tmp_path / "a.yaml"
    file.write_text("input: {format: fields, fields: {/a: words}}\nkafka: {common: {client.id: x}}")
    for empty in ("input.fields={}", "input.fields={ }"):
        fields = load_config([file], {}, [empty, "input.format=json", "kafka={}"]).input.fields
        assert fields == {}
    assert load_config([file], {}, ["input={}"]).input.fields.keys() == {"/a"}
    assert "client.id" not in load_config([file], {}, ["kafka.common={}"]).kafka.common


def test_an_empty_section_in_a_file_changes_nothing(tmp_path):
    path = written(tmp_path, "input:\nkafka:\n  consumer:\n")
    assert load_config([path], {}) == load_config((), {})
