"""Limits of a record's size and nesting."""

from __future__ import annotations

from dataclasses import dataclass

from streamfilter.documents.fields.pointers import DEPTH

DEPTH_MAX = 512  # half of Python's recursion limit, so that no parser reaches it


@dataclass(frozen=True, slots=True)
class Limits:
    """Size limits of a record; a larger one is a dead letter with a code."""

    document_bytes: int = 10 * 1024 * 1024
    text_characters: int = 2_000_000
    depth: int = DEPTH  # nesting of objects and arrays, also in JSON that a string holds

    def __post_init__(self) -> None:
        if not 1 <= self.depth <= DEPTH_MAX:
            raise ValueError(f"limits.depth is {self.depth}; use 1 to {DEPTH_MAX}, such as 64")
