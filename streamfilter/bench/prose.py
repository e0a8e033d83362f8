"""Real English sentences from a text that every user has: Python's own documentation.

The sources are the docstrings of the standard library and the language reference of `help()`.
People wrote them, so their words repeat like real words. Random words would make the task too easy.
The choice depends only on the Python version.
"""

import re
import sysconfig
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

SENTENCES_MIN = 300  # fewer sentences would make unrelated stories alike

WORDS_MIN, CHARACTERS_MAX = 8, 260
LETTERS_MIN = 0.9  # share of letters and spaces: less is a table, a path or code
NOT_PROSE = frozenset({"site-packages", "test", "tests", "__pycache__", "tkinter", "turtle.py"})
"""Paths that are not part of the library, or repeat one phrase for a hundred functions."""

_QUOTED = re.compile(r'"""(.*?)"""', re.DOTALL)
_PARAGRAPHS = re.compile(r"\n\s*\n")
_SENTENCES = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")
_MARKUP = re.compile(r"[<>{}|=_`*\\#@$^~\[\]\"]|::|\.\.\s|\d\.\d")


@cache
def sources() -> tuple[tuple[str, ...], ...]:
    """Return the sentences of each document in order, no sentence twice.

    Raises `RuntimeError`: this Python is installed without its documentation texts.
    """
    seen: set[str] = set()
    found = []
    for document in _documents():
        fresh = [s for s in _sentences(document) if s not in seen]
        seen.update(fresh)
        if fresh:
            found.append(tuple(dict.fromkeys(fresh)))
    if len(seen) < SENTENCES_MIN:
        raise RuntimeError(
            f"this Python brought only {len(seen)} usable sentences of documentation, and the "
            f"stories need {SENTENCES_MIN}\n"
            "    cure: use a Python that was installed with its standard library's sources"
        )
    return tuple(found)


def _documents() -> Iterator[str]:
    """Yield documents in an order that does not depend on the file system."""
    with suppress(ImportError):  # some distributions leave it out
        from pydoc_data.topics import topics

        yield from (topics[name] for name in sorted(topics))
    library = Path(sysconfig.get_path("stdlib"))
    for path in sorted([*library.glob("*.py"), *library.glob("*/*.py")]):
        if NOT_PROSE.isdisjoint(path.relative_to(library).parts):
            # Found by their quotes, not by `ast`: forty times faster. Other triple-quoted strings
            # do not look like sentences.
            text = path.read_text(encoding="utf-8", errors="ignore")
            yield "\n\n".join(_QUOTED.findall(text))


def _sentences(document: str) -> Iterator[str]:
    for paragraph in _PARAGRAPHS.split(document):
        for sentence in _SENTENCES.split(" ".join(paragraph.split())):
            if _is_prose(sentence):
                yield sentence


def _is_prose(text: str) -> bool:
    if not (text[:1].isupper() and text.endswith(".") and len(text) <= CHARACTERS_MAX):
        return False
    if text.count(" ") + 1 < WORDS_MIN or _MARKUP.search(text):
        return False
    if text.count("(") != text.count(")"):  # cut at an abbreviation
        return False
    return sum(c.isalpha() or c == " " for c in text) >= LETTERS_MIN * len(text)
