"""Real text that every clone has: docstrings and licences of what the tests run on anyway.

The interpreter's documentation, that of two packages of the requirements, and all licence texts
beside them are read where they are installed and never copied. Parameters that many functions
share, wrappers of one another, and the same licence in many hands make near-duplicates of every
similarity. Which are similar is found by plain sets of words, with nothing of ours.
"""

import ast
import json
import math
import re
import sysconfig
import unicodedata
from collections import Counter, defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import distributions
from pathlib import Path

PACKAGES = ("numpy", "matplotlib")
WORDS_MIN = 12
"""Shorter ones ("Return the name.") are no text to speak of."""
LICENCE_CHARACTERS_MAX = 20_000
"""Some hold the licences of all that is in a package."""
BLOCKS = {"body", "handlers", "orelse", "finalbody", "cases"}
"""Where statements have statements."""
OTHERS = {"site-packages", "test", "tests"}
FLOOR = 0.5
"""Least similarity of a pair of the truth."""

Shingles = frozenset[tuple[str, ...]]


@dataclass(frozen=True)
class Shipped:
    """Documents as records, and which of them are similar."""

    documents: list[tuple[str, str]]
    """Id and text of each."""

    @cached_property
    def lines(self) -> list[bytes]:
        """The documents as JSON Lines."""
        return [json.dumps({"id": id_, "text": text}).encode() for id_, text in self.documents]

    @cached_property
    def truth(self) -> str:
        """The pairs as `evaluate --pairs` reads them."""
        sets = [shingles(text) for _, text in self.documents]
        told = ["id_a\tid_b\tjaccard\tintersection\tunion"]
        for a, b in candidates(sets):
            both, either = len(sets[a] & sets[b]), len(sets[a] | sets[b])
            if both >= FLOOR * either:
                names = f"{self.documents[a][0]}\t{self.documents[b][0]}"
                told.append(f"{names}\t{both / either:.6f}\t{both}\t{either}")
        return "\n".join(told) + "\n"


def shipped() -> Shipped:
    """Read all of it, always in the same order."""
    return Shipped([*documents()])


def documents() -> Iterator[tuple[str, str]]:
    """Yield id and text of each document; a file is read when its documents are asked for."""
    standard, site = (Path(sysconfig.get_path(name)) for name in ("stdlib", "purelib"))
    for top in (standard, *(site / name for name in PACKAGES)):
        yield from _docstrings(top)
    yield from _licences()


def _docstrings(top: Path) -> Iterator[tuple[str, str]]:
    for path in sorted(top.rglob("*.py")):
        name = path.relative_to(top.parent)
        if OTHERS.isdisjoint(name.parts):
            yield from _docstrings_of(path, str(name))


def _docstrings_of(path: Path, name: str) -> Iterator[tuple[str, str]]:
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (SyntaxError, UnicodeDecodeError):
        return  # the standard library has some, for its own tests
    for node in _statements(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node) or ""
            if len(text.split()) >= WORDS_MIN:
                yield f"{name}:{getattr(node, 'lineno', 0)}", text


def _statements(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield what `ast.walk` yields, in its order, but for expressions: most of all nodes."""
    todo = deque[ast.AST]([tree])
    while todo:
        yield (node := todo.popleft())
        for name in node._fields:
            if name in BLOCKS:
                todo += getattr(node, name)


def _licences() -> Iterator[tuple[str, str]]:
    for package in sorted(distributions(), key=lambda each: str(each.metadata["Name"])):
        for file in package.files or ():
            named = re.search("licen[cs]e|copying", file.name, re.IGNORECASE)
            path = Path(str(file.locate()))
            if named and path.suffix != ".py" and path.is_file():
                text = path.read_text(errors="replace")[:LICENCE_CHARACTERS_MAX]
                yield f"{package.metadata['Name']}/{file}", text


def shingles(text: str) -> Shingles:
    """Return runs of three words, as the settings of the test have it."""
    words = re.findall(r"\w+", unicodedata.normalize("NFKC", text).casefold())
    return frozenset(zip(words, words[1:], words[2:], strict=False))


def candidates(sets: list[Shingles]) -> Iterator[tuple[int, int]]:
    """Yield each pair that can have a similarity of `FLOOR`, and some more.

    Such a pair has FLOOR of each set in common, so it cannot miss in the rest of either: if both
    are ordered from the rarest shingle on, they meet in their first (1 - FLOOR) and one.
    """
    held = Counter(shingle for each in sets for shingle in each)
    holders: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for row, each in enumerate(sets):
        ordered = sorted(each, key=lambda shingle: (held[shingle], shingle))
        first = ordered[: len(each) - math.ceil(FLOOR * len(each)) + 1]
        yield from ((other, row) for other in sorted({o for s in first for o in holders[s]}))
        for shingle in first:
            holders[shingle].append(row)
