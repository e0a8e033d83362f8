"""streamfilter: a streaming near-duplicate filter between two Kafka topics.

Put it between two topics; what comes out has each story once, and nothing is ever lost:
duplicates wait in a side topic with the ids, the similarity and the reason.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streamfilter.deduplicator import Deduplicator, Duplicate, Pair

__all__ = ["Deduplicator", "Duplicate", "Pair", "__version__"]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Import what is asked for and no sooner: `import streamfilter` stays cheap."""
    if name in ("Deduplicator", "Duplicate", "Pair"):
        return getattr(importlib.import_module("streamfilter.deduplicator"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
