"""How a benchmark run was asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


def silent(_: str) -> None:
    """Say nothing."""


@dataclass(frozen=True, slots=True)
class Options:
    """What every benchmark is told."""

    repeat: int = 5
    """Rounds; a table shows their median and quartiles."""
    quick: bool = False
    """Small inputs: shows that everything works, measures little."""
    large: bool = False
    """Also what takes many minutes."""
    peers: bool = False
    """Also the rivals, from the extra ``bench``."""
    text: Path | None = None
    """JSON Lines whose ``text`` fields are measured as one more language."""
    say: Callable[[str], None] = silent
    """Hears what is being measured, for a person who waits."""
