"""What an editor says of a configuration: no mistake in what we ship, and the common ones found."""

import re
from functools import cache
from pathlib import Path

import pytest
from jsonschema import Draft7Validator

from streamfilter.config.loading import load_config
from streamfilter.config.schema import schema, schema_text
from streamfilter.config.yaml_file import parse_yaml
from streamfilter.stops import ConfigError
from tests.support.cases import cases

ROOT = Path(__file__).parents[2]
FILE = ROOT / "config/schemas/configuration.json"
TO_START_FROM = sorted(ROOT.glob("config/*.yaml"))
SHIPPED = [
    *TO_START_FROM,
    ROOT / "deploy/demo/streamfilter.yaml",
    ROOT / "deploy/kubernetes/base/streamfilter.yaml",
]
LINK = re.compile(r"^# yaml-language-server: \$schema=(\S+)$", re.M)


@cache
def validator() -> Draft7Validator:
    Draft7Validator.check_schema(schema())
    return Draft7Validator(schema())


def complaints(text: str) -> list[str]:
    found = validator().iter_errors(parse_yaml(text))
    return sorted({".".join(map(str, each.absolute_path)) for each in found})


def test_the_schema_equals_the_code():
    again = "python -m streamfilter.config.schema > config/schemas/configuration.json"
    assert FILE.read_text(encoding="utf-8") == schema_text(), again


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: str(path.relative_to(ROOT)))
def test_an_editor_finds_nothing_wrong_in_what_is_shipped(path):
    assert complaints(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("path", TO_START_FROM, ids=lambda path: path.name)
def test_a_file_to_start_from_tells_the_editor_its_schema(path):
    link = LINK.search(path.read_text(encoding="utf-8"))
    assert link
    assert (path.parent / link[1]).resolve() == FILE


@cases(
    "text",
    [
        "batch: {bytes: '${BYTES:-8Mi}', documents: '${DOCUMENTS}', latency: '0'}",
        "batch: {bytes: 65536, latency: 0}",
        "kafka: {common: {bootstrap.servers: 'a:1', socket.keepalive.enable: true}, consumer: }",
        "kafka:\ninput: {id: null, start: '2026-01-31T00:00:00Z'}",
        "similarity: {shingle: {kind: char, size: 5}, threshold: 1}",
    ],
)
def test_an_editor_allows_what_the_loader_does(text):
    assert complaints(text) == []


@cases(
    ("text", "where"),
    [
        ("similarity: {treshold: 0.9}", "similarity"),
        ("similarty: {}", ""),
        ("similarity: {threshold: 1.5}", "similarity.threshold"),
        ("similarity: {shingle: {kind: words}}", "similarity.shingle.kind"),
        ("batch: {latency: 20}", "batch.latency"),
        ("batch: {bytes: 8 megabytes}", "batch.bytes"),
        ("http: {port: 70000}", "http.port"),
        ("input: {text: text}", "input.text"),
        ("input: {topic: my topic}", "input.topic"),
        ("kafka: localhost", "kafka"),
    ],
)
def test_an_editor_marks_the_place_of_a_mistake_that_the_loader_refuses(text, where, tmp_path):
    assert complaints(text) == [where]
    file = tmp_path / "wrong.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError):
        load_config([file], {})
