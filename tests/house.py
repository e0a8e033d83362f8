"""The size and the language of the house: `python -m tests.house` prints both.

Lines count as `wc -l` counts them. A sentence is a sentence of a docstring, a comment, a README, or
a text that is printed: a message, a log line, a cure, a help text. Code, tables, links and examples
in it do not count. The limits are held by `test_house.py`.

A literal of five words or more is taken for a printed text; a field of an f-string is one word.
Not seen: shorter pieces that are joined, the status page's HTML and script, libraries' messages.
"""

import ast
import io
import re
import statistics
import sys
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[1]
WORDS_MAX = 25
PRINTED_WORDS = 5
RETIRED = (
    "whoever", "whom", "nobody", "somebody", "told", "hears", "met by", "lives by", "of which",
)  # fmt: skip
"""Words of the old dialect: a thing is not a person, and a message is written."""


PROGRAM = re.compile(r"^\s*(?:import|from [\w.]+ import) ", re.M)
"""A literal with such a line is code for another process."""


@dataclass
class House:
    """What one folder of Python is made of."""

    files: int = 0
    lines: int = 0
    functions: list[tuple[int, str]] = field(default_factory=list)
    """(lines, name) of every function."""
    methods: Counter[str] = field(default_factory=Counter)
    """Methods by class."""
    folders: Counter[str] = field(default_factory=Counter)
    """Files by folder."""
    sentences: list[tuple[int, str, str]] = field(default_factory=list)
    """(words, file, sentence)."""

    @property
    def long_sentences(self) -> list[tuple[int, str, str]]:
        """The sentences that are longer than a reader should have to read."""
        return [each for each in self.sentences if each[0] > WORDS_MAX]

    def retired(self) -> Counter[str]:
        """Count the words of the old dialect."""
        found: Counter[str] = Counter()
        for _, _, sentence in self.sentences:
            for word in RETIRED:
                found[word] += len(re.findall(rf"\b{word}\b", sentence, re.IGNORECASE))
        return +found


def measured(paths: Iterable[Path]) -> House:
    """Return what the Python files and READMEs of *paths* are made of."""
    house = House()
    for path in paths:
        name = str(path.relative_to(ROOT))
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".md":
            house.sentences += [(words, name, line) for words, line in sentences(prose_of(text))]
            continue
        house.files += 1
        house.lines += text.count("\n")
        house.folders[str(path.relative_to(ROOT).parent)] += 1
        nodes = list(ast.walk(ast.parse(text)))
        for node in nodes:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                size = (node.end_lineno or node.lineno) - node.lineno + 1
                house.functions.append((size, f"{name}:{node.name}"))
            if isinstance(node, ast.ClassDef):
                kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
                house.methods[f"{name}:{node.name}"] = sum(isinstance(e, kinds) for e in node.body)
        for block in (*comments_and_docstrings(nodes, text), *printed(nodes)):
            house.sentences += [(words, name, line) for words, line in sentences(block)]
    return house


def comments_and_docstrings(nodes: list[ast.AST], text: str) -> Iterator[str]:
    """Yield the prose of a Python file, without doctests and sections of arguments."""
    for node in nodes:
        body = getattr(node, "body", None)
        for each in body if isinstance(body, list) else []:
            value = each.value if isinstance(each, ast.Expr) else None
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                yield re.split(r"\n\s*(?:Args|Raises|Returns|Yields):\n", value.value)[0]
    block = ""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            line = token.string.lstrip("#: ")
            block += "" if line.startswith(("noqa", "type:", "fmt:", "!")) else f"{line}\n"
        elif token.type not in (tokenize.NL, tokenize.NEWLINE) and block:
            yield block
            block = ""


def printed(nodes: list[ast.AST]) -> Iterator[str]:
    """Yield the literals that a person may read: those of `PRINTED_WORDS` words or more."""
    left_out = {id(each.value) for each in nodes if isinstance(each, ast.Expr)}  # docstrings
    split = {
        ast.unparse(node.value)
        for node in nodes
        if isinstance(node, ast.Attribute) and node.attr == "split"
    }
    left_out |= {
        id(node.value)
        for node in nodes
        if split and isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in split
    }
    strings = [each for each in nodes if isinstance(each, ast.Constant | ast.JoinedStr)]
    left_out |= {
        id(part) for each in strings if isinstance(each, ast.JoinedStr) for part in each.values
    }
    for node in strings:
        if id(node) in left_out:
            continue
        text = ""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value
        elif isinstance(node, ast.JoinedStr):
            parts = (str(e.value) if isinstance(e, ast.Constant) else "`X`" for e in node.values)
            text = "".join(parts)
        if PROGRAM.search(text) or _is_a_list(text):
            continue
        if len(text.split()) >= PRINTED_WORDS:
            text = re.sub(r"\n +cure:", "\n\ncure:", text)
            yield re.sub(r"^(?: {2,}.*|\x08)$", "", text, flags=re.M)  # examples; click's marks


def _is_a_list(text: str) -> bool:
    """Return whether *text* lists names: a word in ten at most begins with a small letter."""
    words = text.split()
    return sum(word[0].islower() for word in words) * 10 <= len(words)


def prose_of(markdown: str) -> str:
    """Return *markdown* without code, tables, headings and addresses."""
    text = re.sub(r"^```.*?^```", "", markdown, flags=re.M | re.S)
    text = re.sub(r"^(?:\||#|!\[|- \[).*$", "\n\n", text, flags=re.M)
    text = re.sub(r"^\s*(?:[-*]|\d+\.) ", "\n\n", text, flags=re.M)
    return re.sub(r"\]\([^)]*\)", "]", text)


def sentences(prose: str) -> Iterator[tuple[int, str]]:
    """Yield (words, sentence), without tables and indented paragraphs."""
    for paragraph in re.split(r"\n\s*\n", prose):
        if re.match(r"\s{4,}\S", paragraph) or ">>>" in paragraph or "| " in paragraph:
            continue
        line = " ".join(paragraph.split())
        for sentence in re.split(r"(?<=[.!?:;])[*_]*\s+(?=\S)", line):
            words = len(re.findall(r"[A-Za-z][\w'’-]*|`[^`]*`", sentence))
            if words > 2:
                yield words, sentence


def ours(*tops: str) -> Iterator[Path]:
    """Yield the Python files and READMEs below the folders *tops*."""
    for top in tops:
        for path in sorted((ROOT / top).rglob("*")):
            if path.suffix == ".py" or path.name == "README.md":
                yield path


def main() -> int:
    """Print the measurements of the package and of the tests."""
    for top in ("streamfilter", "tests"):
        house = measured(ours(top))
        size, longest = max(house.functions)
        most, methods = max((count, name) for name, count in house.methods.items())
        print(
            f"{top}: {house.files} files, {house.lines:,} lines, {len(house.functions)} functions"
        )
        print(f"  functions: median {statistics.median(n for n, _ in house.functions):.0f} lines,")
        print(f"    longest {size}: {longest}")
        print(f"  methods of a class: at most {most}: {methods}")
        folder, files = house.folders.most_common(1)[0]
        print(f"  files of a folder: at most {files}: {folder}")
        words = [n for n, _, _ in house.sentences]
        print(f"  sentences: {len(words):,}, median {statistics.median(words):.0f} words, "
              f"{len(house.long_sentences)} above {WORDS_MAX}")  # fmt: skip
        print(f"  retired words: {dict(house.retired())}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
