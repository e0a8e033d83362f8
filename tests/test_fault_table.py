"""The table "What happens when …", held to the code: its rows, words, codes, metrics and tests."""

import ast
import re
from functools import cache

import pytest

from streamfilter.config.configuration import Config
from streamfilter.model import ErrorCode
from streamfilter.monitoring.catalogue import CATALOGUE
from streamfilter.process.health import State
from streamfilter.stops import ExitCode
from tests.support.texts import ROOT, section

TABLE = section("What happens when …")
HELD = section("What holds the table of faults")
ROWS = [
    (number, fault, seen, do, held)
    for (number, fault, seen, do), (same, held) in zip(
        re.findall(r'^\| <a id="row-\d+"></a>(\d+)\. \*\*(.*?)\*\* (.*) \| (.*) \|$', TABLE, re.M),
        re.findall(r"^\| \[(\d+)\]\([^)]*\) \| .*? \| (.*) \|$", HELD, re.M),
        strict=True,
    )
    if number == same
]
"""(number, fault, what is seen, what to do, what holds it)"""
SEEN = sorted({word for row in ROWS for word in re.findall(r"`([^`]+)`", row[2])})
QUOTED = [word for word in SEEN if word.startswith('"')]
NAMED = [word for word in SEEN if not word.startswith('"')]
TESTS = sorted(set(re.findall(r"\[(test_\w+)\]\(([\w/]+\.py)\)( \(long\))?", HELD)))
HOLE = "\0"
"""What an f-string fills in."""


def test_every_row_of_the_matrix_is_there_once_and_whole():
    assert [int(row[0]) for row in ROWS] == list(range(1, len(ROWS) + 1))
    for row in ROWS:
        assert len(row) == 5, row
        assert all(row), row
        assert re.search(r"\[test_\w+\]\(\w", row[4]), row


@pytest.mark.parametrize(("name", "path", "long"), TESTS)
def test_every_test_that_is_named_is_there_and_runs_when_it_says(name, path, long):
    module = ast.parse((ROOT / "tests" / path).read_text())
    found = [each for each in module.body if getattr(each, "name", "") == name]
    assert found, f"{path} has no {name}"
    marks = [ast.unparse(decorator) for decorator in found[0].decorator_list]
    assert ("pytest.mark.long" in marks) == bool(long)


@cache
def said() -> list[str]:
    """Return every text of the package's code, with a hole for each value that is filled in."""
    texts = []
    for file in sorted((ROOT / "streamfilter").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.JoinedStr):
                texts.append("".join(map(_part, node.values)))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts.append(node.value)
    return texts


def _part(node: ast.expr) -> str:
    return str(node.value) if isinstance(node, ast.Constant) else HOLE


@pytest.mark.parametrize("phrase", QUOTED)
def test_what_is_quoted_is_said_by_the_code(phrase):
    wanted = re.compile(".*".join(re.escape(part) for part in phrase.strip('"').split("…")), re.S)
    assert any(wanted.search(text) for text in said())


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_what_a_row_quotes_is_asked_for_by_its_tests(row):
    files = {path for _, path in re.findall(r"\[(test_\w+)\]\(([\w/]+\.py)\)", row[4])}
    asked = "".join((ROOT / "tests" / path).read_text() for path in sorted(files))
    for phrase in re.findall(r'`"([^`]+)"`', row[2]):
        assert max(phrase.split("…"), key=len).strip(" :") in asked, phrase


def test_exit_codes_are_ours():
    codes = {int(code) for code in re.findall(r"\bexit (\d+)", TABLE, re.I)}
    assert codes
    assert codes <= set(ExitCode)


@pytest.mark.parametrize("word", NAMED)
def test_what_stands_as_code_among_what_is_seen_is_a_state_a_metric_a_code_or_a_setting(word):
    if word in [*State, *ErrorCode]:
        return
    name, _, labels = word.partition("{")
    metric = next((each for each in CATALOGUE if each.name == name), None)
    if metric is None:
        assert word in settings(), "no state, metric, error code or setting"
    for label, value in re.findall(r"(\w+)=(\w+)", labels):
        assert label == metric.label
        assert value in metric.values


@cache
def settings() -> set[str]:
    """Return the path of every setting."""
    return {
        f"{section}.{key}"
        for section, field in Config.model_fields.items()
        for key in getattr(field.annotation, "model_fields", {})
    }
