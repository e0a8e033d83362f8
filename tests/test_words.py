"""One word for one thing: what a reader meets under a name is the same everywhere."""

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_no_two_classes_of_the_package_share_a_name():
    homes: defaultdict[str, list[str]] = defaultdict(list)
    for path in sorted((ROOT / "streamfilter").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].append(str(path.relative_to(ROOT)))
    assert {name: where for name, where in homes.items() if len(where) > 1} == {}
