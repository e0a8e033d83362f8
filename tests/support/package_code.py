"""The code of the package, parsed once for all tests of a process that read it."""

import ast
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "streamfilter"


@cache
def package_nodes() -> dict[Path, list[ast.AST]]:
    """Return all nodes of each file, in the order of the paths."""
    files = sorted(PACKAGE.rglob("*.py"))
    return {path: [*ast.walk(ast.parse(path.read_text(encoding="utf-8")))] for path in files}
