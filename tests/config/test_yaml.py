"""YAML without its traps."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamfilter.config.loading import load_config, read_config
from streamfilter.config.yaml_file import YamlError, parse_yaml
from tests.support.cases import cases


@cases(
    ("text", "value"),
    [
        ("a: no", {"a": "no"}),
        ("a: on", {"a": "on"}),
        ("a: 1:30", {"a": "1:30"}),
        ("a: 2026-01-31", {"a": "2026-01-31"}),
        ("a: 10", {"a": 10}),
        ("a: -0.5", {"a": -0.5}),
        ("a: 0x10", {"a": "0x10"}),
        ("a: 1_000", {"a": "1_000"}),
        ("a: true", {"a": True}),
        ("a: ~", {"a": None}),
        ("a:", {"a": None}),
        ("a: .inf", {"a": ".inf"}),
        ("1: a", {"1": "a"}),
        ("", None),
    ],
)
def test_only_the_values_of_json_are_more_than_text(text, value):
    assert parse_yaml(text) == value


@cases("word", ["0123", "+5", "1.50", "1e5", ".5", "1.2.3", "-0", "True", "true"])
def test_a_password_or_name_that_looks_like_a_number_keeps_each_character(word, tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text(
        f"kafka: {{common: {{sasl.password: {word}, client.id: {word}}}}}\n"
        f"input: {{registry: {{password: {word}}}}}\n"
    )
    config = load_config([path], {})
    common = config.kafka.properties("common")
    assert (common["sasl.password"], common["client.id"]) == (word, word)
    password = config.input.registry.password
    assert password is not None
    assert password.get_secret_value() == word


def test_a_number_that_is_written_in_another_way_is_still_a_number(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text("similarity: {threshold: 0.90}\nbatch: {documents: 0500}\n")
    config = load_config([path], {})
    assert (config.similarity.threshold, config.batch.documents) == (0.9, 500)


def test_a_topic_may_have_digits_alone_and_else_the_quotes_are_named(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text("input: {topic: 0815}\nkafka: {group: 7}\n")
    reading = read_config([path], {})
    assert reading.config.input.topic == "0815"
    assert [str(each.cure) for each in reading.problems] == ["write it in quotes: '7'"]


@pytest.mark.slow
@cases(
    ("text", "where"),
    [
        ("a: 1\na: 2", "line 2: the key 'a' stands there twice"),
        ("a: {b: 1, c: 2, b: 3}", "line 1: the key 'b' stands there twice"),
        ("a: &x 1\nb: *x", "line 2: aliases are refused"),
        ("? [a]\n: 1", "line 1: a key must be a word"),
        ("a: [1", "line 1"),
        ("a: !!python/object:os.system x", "line 1"),
        ("--- 1\n--- 2", "line 2"),
        ("a: \x00", "character"),
        ("[" * 5_000, "nested"),
    ],
)
def test_what_yaml_would_pass_over_is_an_error_with_its_line(text, where):
    with pytest.raises(YamlError, match=where):
        parse_yaml(text)


@cases(
    ("text", "words"),
    [
        ("a:\n  b: 1\n c: 2", "line 3, column 2: indented otherwise than the lines above it"),
        ("a:\n\tb: 1", "line 2, column 1: a tab; YAML is indented with spaces"),
        ('a:\n  b: "x\n  c: y\n', "line 2, column 6: a quotation mark is not closed"),
        ("a: {b: 1, c: [d\ne: 2", r"line 1, column 14: a \[ is not closed"),
        ("a: {b: 1\nc: 2", "line 1, column 4: a { is not closed"),
        ("a: @b", "line 1, column 4: a text that begins with @ must be quoted"),
        ("a: b: c", "line 1, column 5: a colon too many; quote a text that has one"),
        ("a: 1\n---\nb: 2", "line 2, column 1: a second document; a configuration is one"),
        ("a: 1\nb\n", "line 2, column 1: neither a key with its colon nor a part"),
    ],
)
def test_a_mistake_is_reported_whole_where_it_was_made_and_in_a_persons_words(text, words):
    with pytest.raises(YamlError, match=f"^{words}") as refused:
        parse_yaml(text)
    assert "…" not in str(refused.value)


def test_a_duplicate_key_in_a_file_names_the_file(tmp_path):
    path = tmp_path / "twice.yaml"
    path.write_text("http: {port: 1}\nhttp: {port: 2}\n")
    problem = read_config([path], {}).problems[0]
    assert problem.key == str(path)
    assert problem.got == "line 2: the key 'http' stands there twice"


def test_a_file_that_is_no_text_is_a_problem_not_a_traceback(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_bytes(b"\xff\xfe\x00")
    assert read_config([path, tmp_path], {}).problems[0].got == "not UTF-8 text"
    assert read_config([tmp_path], {}).problems[0].key == str(tmp_path)


@pytest.mark.slow
@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text):
    try:
        parse_yaml(text)
    except YamlError:
        return


@given(st.lists(st.text(max_size=60), max_size=4))
def test_any_overrides_give_a_configuration_or_problems(overrides):
    reading = read_config((), {}, overrides)
    assert reading.problems or reading.config == load_config((), {}, overrides)
