"""One word for one thing: what a reader meets under a name is the same everywhere."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.support.cases import cases
from tests.support.package_code import package_nodes
from tests.support.texts import section

ROOT = Path(__file__).parents[1]
TEXT_SUFFIXES = {".py", ".md", ".yaml", ".yml", ".html", ".js", ".toml", ".conf", ".service"}
FILES = [
    ROOT / "README.md",
    *(
        path
        for room in ("streamfilter", "config", "deploy", "tests")
        for path in sorted((ROOT / room).rglob("*"))
        if path.suffix in TEXT_SUFFIXES and path != Path(__file__)
    ),
]

RETIRED = {
    # retired: what to write
    "backpressure": "the batch bounds (`batch.documents`, `batch.bytes`)",
    "blacklist|whitelist": "refused, allowed",
    "dead[- ]letter[- ]queue": "dead-letter topic (DLQ)",
    "fail-over|hand-over|(?<!--)take-over(?!-with)": "takeover (failover)",
    "follower": "standby; for RocksDB's secondary: view",
    "master|slave": "owner, standby",
    "near-dup|neardup": "near-duplicate",
    "replica of the index|state store": "index",
    "sitting": "run (of the demo)",
}
"""Words for things that have another word here: see the glossary in streamfilter/README.md."""

ALLOWED = {
    "follower": "tests/commands/test_query_and_explain.py"  # names RocksDB's own files
}
"""Where a retired word may stand."""

NAMES_RETIRED = {"told": "message, as_dict, or what it is"}
"""Words that a sentence may have, and no name in the code."""

GLOSSARY_ROWS_MAX = 22


@cache
def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@pytest.mark.slow
def test_no_two_classes_of_the_package_share_a_name():
    homes: defaultdict[str, list[str]] = defaultdict(list)
    for path, nodes in package_nodes().items():
        for node in nodes:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].append(str(path.relative_to(ROOT)))
    assert {name: where for name, where in homes.items() if len(where) > 1} == {}


@pytest.mark.slow
@cases("retired", RETIRED)
def test_no_file_uses_a_retired_word(retired):
    pattern = re.compile(rf"\b({retired})s?\b", re.IGNORECASE)
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()[:80]}"
        for path in FILES
        if not str(path.relative_to(ROOT)).startswith(ALLOWED.get(retired, "nowhere"))
        and pattern.search(text_of(path))  # line by line is slow
        for number, line in enumerate(text_of(path).splitlines(), 1)
        if pattern.search(line)
    ]
    assert not found, f"write {RETIRED[retired]}"


@pytest.mark.parametrize("retired", NAMES_RETIRED)
def test_nothing_in_the_package_is_named_by_a_retired_word(retired):
    found = [
        f"{path.relative_to(ROOT)}: {name}"
        for path, nodes in package_nodes().items()
        for name in names_in(nodes)
        if retired in name.lower().split("_")
    ]
    assert not found, f"write {NAMES_RETIRED[retired]}"


def names_in(nodes: list[ast.AST]) -> Iterator[str]:
    """Yield the names that the code gives: to functions, classes, arguments, variables, fields."""
    for node in nodes:
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.arg(arg=name):
                yield name
            case ast.Attribute(attr=name, ctx=ast.Store()) | ast.Name(id=name, ctx=ast.Store()):
                yield name


def test_the_glossary_is_learnt_in_a_minute():
    rows = [line for line in section("Words").splitlines() if line.startswith("| ")]
    assert 15 <= len(rows) - 1 <= GLOSSARY_ROWS_MAX
