"""What no line of the package may do, read from its syntax trees."""

import ast
from collections.abc import Iterable
from pathlib import Path

import pytest

from streamfilter.config.configuration import Config
from streamfilter.matching.verdict.evidence_headers import PREFIX, evidence_headers, our_headers
from streamfilter.model import Decision, Match, Record, Source, Verdict
from tests.support.package_code import PACKAGE, package_nodes

SOURCE = Source("documents", 0, 7)
RECORD = Record(SOURCE, None, b"{}")
DUPLICATE = Decision(Verdict.NEAR_DUPLICATE, (Match("a", 0.9, 3, SOURCE, 1),), "exact_jaccard")
BANNED_MODULES = {"pickle", "cPickle", "marshal", "shelve", "dill", "joblib", "telnetlib"}
BANNED_CALLS = {"eval", "exec", "compile", "__import__"}


def modules_of(nodes: Iterable[ast.AST]) -> set[str]:
    found = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add((node.module or "").split(".")[0])
    return found


@pytest.mark.slow
def test_nothing_is_unpickled_evaluated_or_given_to_a_shell():
    everything = [node for nodes in package_nodes().values() for node in nodes]
    assert not modules_of(everything) & BANNED_MODULES
    for node in everything:
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func)
        assert name not in BANNED_CALLS, ast.unparse(node)
        assert name not in ("os.system", "os.popen", "yaml.unsafe_load", "yaml.full_load")
        for keyword in node.keywords:
            is_true = isinstance(keyword.value, ast.Constant) and keyword.value.value is True
            assert not (is_true and keyword.arg in ("shell", "allow_pickle")), ast.unparse(node)
        if name == "yaml.load":
            assert [k.arg for k in node.keywords] == ["Loader"]


def test_no_question_goes_to_the_coordinator_of_a_group():
    """librdkafka's issue 4605: it aborts the process if the connection is cut meanwhile.

    `reset` alone asks: a person runs it, with no service, and a second run finishes the first.
    """
    for path, nodes in package_nodes().items():
        named = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
        asked = {name for name in named if "consumer_group" in name}
        allowed = {"consumer_group_metadata"}  # which sends no request
        if path.relative_to(PACKAGE) == Path("kafka/group_reset.py"):
            allowed |= {"describe_consumer_groups", "delete_consumer_groups"}
        assert asked <= allowed, path


def test_the_window_is_on_loopback_unless_set_otherwise():
    assert Config().http.host == "127.0.0.1"


def test_every_header_of_ours_has_our_prefix():
    assert [name for name, _ in our_headers([("id", 1), ("error.code", "x")])] == [
        f"{PREFIX}id", f"{PREFIX}error.code"
    ]  # fmt: skip
    names = [name for name, _ in evidence_headers(RECORD, "d", DUPLICATE, b"scheme")]
    assert names
    assert [name for name in names if not name.startswith(PREFIX)] == []
