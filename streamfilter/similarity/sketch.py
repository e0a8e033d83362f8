"""A micro-batch of texts as columns: what remains of a text once it is no longer needed.

(Interface first; the body follows.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from streamfilter.similarity.scheme import Scheme


@dataclass(frozen=True, slots=True)
class Sketches:
    """The sketches of n documents; nothing after this sees text."""

    fingerprints: NDArray[np.uint8]
    """(n, 16) keyed BLAKE2b-128 of the normalised text."""
    signatures: NDArray[np.uint8]
    """(n, k) low 8 bits of each slot."""
    keys: NDArray[np.uint64]
    """(n, bands + 1) band keys, and the folded fingerprint as the last column."""
    set_sizes: NDArray[np.int64]
    """(n,) number of distinct tokens; 0: the text is shorter than a shingle (exact tier only)."""
    tokens: NDArray[np.uint32]
    token_starts: NDArray[np.int64]
    """(n + 1,) sample i is tokens[token_starts[i]:token_starts[i + 1]], strictly rising."""

    def to_bytes(self) -> bytes:
        """Serialise, so that another process can judge what this one sketched."""
        raise NotImplementedError

    @classmethod
    def from_bytes(cls, data: bytes) -> Sketches:
        """Read back what `to_bytes` wrote."""
        raise NotImplementedError


class Sketcher:
    """Sketches texts under one scheme and one secret seed."""

    def __init__(self, scheme: Scheme, *, seed: bytes) -> None:
        self.scheme = scheme
        raise NotImplementedError

    def sketch(self, texts: Sequence[str]) -> Sketches:
        """Return the sketches of *texts*, in order."""
        raise NotImplementedError

    def keys_of(
        self, signatures: NDArray[np.uint8], fingerprints: NDArray[np.uint8]
    ) -> NDArray[np.uint64]:
        """Return (n, bands + 1) keys as a function of stored columns: restore needs no text."""
        raise NotImplementedError

    def is_empty(self, text: str) -> bool:
        """Return True if nothing is left of *text* after normalisation."""
        raise NotImplementedError
