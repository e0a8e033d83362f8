"""The tables of faults and of symptoms, held to the code: their words, codes, metrics and tests."""

import ast
import itertools
import re

import pytest

from streamfilter.config.configuration import Config
from streamfilter.model import ErrorCode
from streamfilter.monitoring.catalogue import CATALOGUE
from streamfilter.process.health import State
from streamfilter.stops import ExitCode
from tests.support.package_code import PACKAGE, package_nodes
from tests.support.texts import ROOT, section

TABLE = section("What happens when …")
SYMPTOMS = section("What you see")
ROWS = re.findall(r'^\| <a id="row-(\d+)"></a>\1\. \*\*(.*?)\*\* (.*) \| (.*) \|$', TABLE, re.M)
"""(number, fault, what is seen, what holds it)"""
SEEN = sorted({word for row in ROWS for word in re.findall(r"`([^`]+)`", row[2])})
QUOTED = [word for word in SEEN if word.startswith('"')]
NAMED = [word for word in SEEN if not word.startswith('"')]
CURED = re.findall(r"^\| (.+) \| [^|]+ \|$", SYMPTOMS, re.M)
"""What is seen, in each row that says what to do."""
TESTS = sorted(set(re.findall(r"\[(test_\w+)\]\(([\w/]+\.py)\)( \(long\))?", TABLE)))
PHRASES = {word for seen in CURED for word in re.findall(r'`("[^`]+")`', seen)}
HOLE = "\0"
"""What an f-string fills in."""
SPOKEN = {"warning", "error", "critical", "loudly", "Refusal", "_stop"}
"""What logs a warning or worse, or ends the service with a reason."""
OF_VERBS = ("corrections", "lifecycle", "files", "cleaning", "collection", "commands", "demo")
"""Parts of paths of code that the service does not run."""


def test_every_row_of_the_matrix_is_there_once_and_whole():
    assert [int(row[0]) for row in ROWS] == list(range(1, len(ROWS) + 1))
    for row in ROWS:
        assert all(row), row
        assert re.search(r"\[test_\w+\]\(\w", row[3]), row


@pytest.mark.slow
def test_every_test_that_is_named_is_there_and_runs_when_it_says():
    for name, path, long in TESTS:
        module = ast.parse((ROOT / "tests" / path).read_text())
        found = [each for each in module.body if getattr(each, "name", "") == name]
        assert found, f"{path} has no {name}"
        marks = [ast.unparse(decorator) for decorator in found[0].decorator_list]
        assert ("pytest.mark.long" in marks) == bool(long), name


def text_of(node: ast.AST) -> str:
    """Return a text of the code, with a hole for each value that is filled in."""
    if isinstance(node, ast.JoinedStr):
        return "".join(map(_part, node.values))
    return re.sub(r"%[\d.]*[a-z]", HOLE, str(getattr(node, "value", "")))


def _part(node: ast.expr) -> str:
    return str(node.value) if isinstance(node, ast.Constant) else HOLE


def logged() -> list[str]:
    """Return each text that the service logs as a warning or worse, or that ends it."""
    return [
        text
        for path, nodes in package_nodes().items()
        if not any(part in str(path.relative_to(PACKAGE)) for part in OF_VERBS)
        for node in nodes
        if isinstance(node, ast.Call) and node.args
        if (getattr(node.func, "attr", "") or getattr(node.func, "id", "")) in SPOKEN
        or ast.unparse(node.func) == "loudly.append"
        if re.search(r"\w+ \w+ \w+", text := text_of(node.args[0]))
    ]


def is_in(phrase: str, text: str) -> bool:
    parts = map(re.escape, phrase.strip('"').split("…"))
    return bool(re.search("[^\1]*".join(parts), text))


@pytest.mark.slow
def test_what_is_quoted_is_said_by_the_code():
    every = itertools.chain.from_iterable(package_nodes().values())
    texts = "\1".join(text_of(n) for n in every if isinstance(n, ast.JoinedStr | ast.Constant))
    assert [phrase for phrase in PHRASES if not is_in(phrase, texts)] == []


def test_every_line_of_the_log_leads_to_its_cure():
    assert set(QUOTED) - PHRASES == set(), "a line of the matrix"
    found = logged()
    assert len(found) > 50
    assert [text for text in found if not any(is_in(phrase, text) for phrase in PHRASES)] == []


def test_every_state_and_every_exit_code_has_one_row_with_its_cure():
    states = [state for seen in CURED for state in re.findall(r'<a id="state-.*?`(.*?)`', seen)]
    assert sorted(states) == sorted(State)
    codes = [int(code) for seen in CURED for code in re.findall(r'<a id="exit-.*?exit (\d+)', seen)]
    assert sorted(codes) == sorted([1, *ExitCode])


def test_what_a_row_quotes_is_asked_for_by_its_tests():
    for row in ROWS:
        files = {path for _, path in re.findall(r"\[(test_\w+)\]\(([\w/]+\.py)\)", row[3])}
        asked = "".join((ROOT / "tests" / path).read_text() for path in sorted(files))
        for phrase in re.findall(r'`"([^`]+)"`', row[2]):
            assert max(phrase.split("…"), key=len).strip(" :") in asked, (row[0], phrase)


def test_exit_codes_are_ours():
    codes = {int(code) for code in re.findall(r"\bexit (\d+)", TABLE, re.I)}
    assert codes
    assert codes <= set(ExitCode)


def test_what_stands_as_code_among_what_is_seen_is_a_state_a_metric_a_code_or_a_setting():
    settings = {
        f"{section}.{key}"
        for section, field in Config.model_fields.items()
        for key in getattr(field.annotation, "model_fields", {})
    }
    metrics = {each.name: each for each in CATALOGUE}
    for word in NAMED:
        name, _, labels = word.partition("{")
        assert name in metrics or word in {*State, *ErrorCode, *settings}, word
        for label, value in re.findall(r"(\w+)=(\w+)", labels):
            assert label == metrics[name].label, word
            assert value in metrics[name].values, word
