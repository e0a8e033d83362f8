"""The scheme: everything that shapes a signature or a band key, and its fingerprint.

Two indexes with the same scheme and the same secret seed hold comparable signatures; with
anything else they do not. So the scheme travels with the index, and a difference is refused.
The seed is no part of the scheme: the index id binds it.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field

ALGORITHM = 1
"""Version of the token, signature and band-key functions: raised when their output changes."""

SAMPLE_TOKENS = 1_024
"""Tokens kept of a document for verification: exact up to this set size, an estimate above."""


@dataclass(frozen=True, slots=True)
class Normalisation:
    """Which differences between two texts do not count."""

    unicode: str = "NFKC"
    """``NFKC``, ``NFC`` or ``none``."""
    casefold: bool = True
    whitespace: bool = True
    """Collapse runs of white space to one space, and strip."""
    digits: bool = False
    """Replace every decimal digit by 0."""
    invisible: bool = True
    """Drop soft hyphens, zero-width and direction marks."""


@dataclass(frozen=True, slots=True)
class Shingling:
    """How a text becomes a set: runs of *size* words or characters."""

    kind: str = "word"
    """``word`` or ``char``."""
    size: int = 3


@dataclass(frozen=True, slots=True)
class Scheme:
    """Text → set → signature → band keys, as a value."""

    bands: int
    rows: int
    slots: int = 128
    shingling: Shingling = field(default_factory=Shingling)
    normalisation: Normalisation = field(default_factory=Normalisation)
    algorithm: int = ALGORITHM

    def __post_init__(self) -> None:
        if min(self.bands, self.rows, self.slots) < 1 or self.bands * self.rows > self.slots:
            raise ValueError(
                f"{self.bands} bands x {self.rows} rows = {self.bands * self.rows} slots, but the "
                f"signature has {self.slots}; use fewer bands or rows, or more slots"
            )

    def as_json(self) -> str:
        """Return the canonical JSON: sorted keys, no spaces, ASCII."""
        return json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))

    @property
    def fingerprint(self) -> str:
        """Return 8 hexadecimal digits that differ when anything in the scheme differs."""
        return hashlib.blake2b(self.as_json().encode(), digest_size=4).hexdigest()
