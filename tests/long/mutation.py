"""Small errors that a person could make in a line of Python, each as a changed source text.

| kind       | from → to                                             |
|------------|-------------------------------------------------------|
| comparison | `<` → `>=`, `==` → `!=`, `is` → `is not`, `in` → `not in` |
| boundary   | `<` → `<=`, `>=` → `>`                                |
| sign       | `a + b` → `a - b`, and the other way                  |
| logic      | `and` → `or`, `not x` → `x`                           |
| call       | `self.close()` as a statement → `pass`                |

A changed text keeps all its other characters: a survivor is a line that a person can look at.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeGuard

REVERSED: dict[type[ast.AST], tuple[str, str]] = {
    ast.Lt: ("<", ">="),
    ast.LtE: ("<=", ">"),
    ast.Gt: (">", "<="),
    ast.GtE: (">=", "<"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
}
BOUNDARIES: dict[type[ast.AST], tuple[str, str]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
}
SIGNS: dict[type[ast.AST], tuple[str, str]] = {ast.Add: ("+", "-"), ast.Sub: ("-", "+")}
LOGIC: dict[type[ast.AST], tuple[str, str]] = {ast.And: ("and", "or"), ast.Or: ("or", "and")}
TELLS = {"note", "loudly", "spent", "alive", "debug", "info", "warning", "kill_point", "reached"}
"""Calls that only report, or that only tests use."""


@dataclass(frozen=True, slots=True)
class Mutation:
    """One change of a text: the characters from *begin* to *end* become *after*."""

    kind: str
    line: int
    begin: int
    end: int
    before: str
    after: str

    def applied(self, source: str) -> str:
        """Return *source* with this change."""
        return source[: self.begin] + self.after + source[self.end :]


def mutations(source: str) -> list[Mutation]:
    """Return every mutation of *source*, in its order."""
    text = _Text(source)
    found = [each for node in ast.walk(ast.parse(source)) for each in _of(node, text)]
    return sorted(found, key=lambda each: (each.begin, each.kind, each.after))


class _Text:
    """Translates line and column of a node into a place in the text."""

    def __init__(self, source: str) -> None:
        self.source = source
        self._lines = source.splitlines(keepends=True)
        self._starts = [0]
        for line in self._lines:
            self._starts.append(self._starts[-1] + len(line))

    def place(self, line: int, column: int) -> int:
        """Return the place of a line (from 1) and a column, which counts bytes."""
        before = self._lines[line - 1].encode()[:column].decode()
        return self._starts[line - 1] + len(before)

    def begin(self, node: ast.expr | ast.stmt) -> int:
        return self.place(node.lineno, node.col_offset)

    def end(self, node: ast.expr | ast.stmt) -> int:
        return self.place(node.end_lineno or 0, node.end_col_offset or 0)

    def change(self, kind: str, begin: int, end: int, after: str) -> Mutation:
        line = self.source.count("\n", 0, begin) + 1
        return Mutation(kind, line, begin, end, self.source[begin:end], after)

    def between(
        self, kind: str, left: ast.expr, right: ast.expr, words: tuple[str, str]
    ) -> Iterator[Mutation]:
        """Yield the change of the operator between two operands, which comments may hide."""
        begin, end = self.end(left), self.begin(right)
        pattern = r"\s+".join(map(re.escape, words[0].split()))
        found = re.search(pattern, self.source[begin:end])
        if found and "#" not in self.source[begin:end]:
            yield self.change(kind, begin + found.start(), begin + found.end(), words[1])


def _of(node: ast.AST, text: _Text) -> Iterator[Mutation]:
    if isinstance(node, ast.Compare):
        for left, op, right in zip(
            [node.left, *node.comparators], node.ops, node.comparators, strict=False
        ):
            for kind, table in (("comparison", REVERSED), ("boundary", BOUNDARIES)):
                if words := table.get(type(op)):
                    yield from text.between(kind, left, right, words)
    elif isinstance(node, ast.BinOp) and (words := SIGNS.get(type(node.op))):
        if not any(isinstance(each, ast.JoinedStr | ast.Constant) and not _is_number(each)
                   for each in (node.left, node.right)):  # fmt: skip
            yield from text.between("sign", node.left, node.right, words)
    elif isinstance(node, ast.BoolOp):
        for left, right in zip(node.values, node.values[1:], strict=False):
            yield from text.between("logic", left, right, LOGIC[type(node.op)])
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        begin = text.begin(node)  # what follows may be in parentheses
        yield text.change("logic", begin, begin + len("not "), "")
    elif _is_call(node) and _name(node.value) not in TELLS:
        yield text.change("call", text.begin(node), text.end(node), "pass")


def _is_call(node: ast.AST) -> TypeGuard[ast.Expr]:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)


def _is_number(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float)


def _name(call: ast.expr) -> str:
    function = call.func if isinstance(call, ast.Call) else call
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
