"""The steps of cleaning, in their order. Each takes a text and returns a text.

| step    | removes or replaces                                                      |
|---------|--------------------------------------------------------------------------|
| html    | tags, comments, scripts, styles and the title; entities become characters |
| ansi    | terminal colours and other escape sequences                              |
| quotes  | quoted lines of a mail, and the line that introduces them                |
| hyphens | hyphens that split a word at the end of a line                           |
| mask    | each mask of `masks`, in its order, and then the user's own patterns     |

A step runs before Unicode normalisation. All of them take time linear in the text, because texts
are written by strangers.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from streamfilter.cleaning.html import html_step
from streamfilter.cleaning.lines import joined_words, without_escapes, without_quotes
from streamfilter.cleaning.masks import Mask, Step, step_of


class Cleaner(Struct, frozen=True):
    """Cleans texts by the steps that are switched on."""

    steps: tuple[tuple[str, Step], ...]  # each step's name and its function, in order

    @classmethod
    def of(
        cls, *, html: bool, ansi: bool, quotes: bool, hyphens: bool, mask: Sequence[Mask]
    ) -> Cleaner:
        """Return the cleaner with these steps; errors as in `step_of`."""
        steps: list[tuple[str, Step]] = [("html", html_step())] if html else []
        for name, on, step in (
            ("ansi", ansi, without_escapes),
            ("quotes", quotes, without_quotes),
            ("hyphens", hyphens, joined_words),
        ):
            steps += [(name, step)] if on else []
        return cls((*steps, *step_of(mask)))

    def __call__(self, text: str) -> str:
        """Return *text* without what the steps remove."""
        for _, step in self.steps:
            text = step(text)
        return text

    def stages(self, text: str) -> list[tuple[str, str]]:
        """Return (step, text after it) for each step that changed *text*."""
        found: list[tuple[str, str]] = []
        for name, step in self.steps:
            before, text = text, step(text)
            if text != before:
                found.append((name, text))
        return found
