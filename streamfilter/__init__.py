"""streamfilter: a streaming near-duplicate filter between two Kafka topics.

Put it between two topics; what comes out has each story once, and nothing is ever lost:
duplicates wait in a side topic with the ids, the similarity and the reason.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streamfilter.collection.collection import DeduplicatorClosed, Duplicate, Pair
    from streamfilter.collection.deduplicator import Deduplicator
    from streamfilter.collection.unique import unique
    from streamfilter.index.errors import (
        DiskFull,
        IndexDamaged,
        IndexFault,
        IndexForked,
        IndexLocked,
        IndexMismatch,
        IndexRefused,
        IndexUnavailable,
    )
    from streamfilter.similarity.scheme import Normalisation, Scheme, Shingling

_ELSEWHERE = {
    "Deduplicator": "collection.deduplicator",
    "DeduplicatorClosed": "collection.collection",
    "Duplicate": "collection.collection",
    "Normalisation": "similarity.scheme",
    "Pair": "collection.collection",
    "Scheme": "similarity.scheme",
    "Shingling": "similarity.scheme",
    "unique": "collection.unique",
}
"""Where a name is defined; all others are faults of an index."""

__all__ = [
    "Deduplicator",
    "DeduplicatorClosed",
    "DiskFull",
    "Duplicate",
    "IndexDamaged",
    "IndexFault",
    "IndexForked",
    "IndexLocked",
    "IndexMismatch",
    "IndexRefused",
    "IndexUnavailable",
    "Normalisation",
    "Pair",
    "Scheme",
    "Shingling",
    "__version__",
    "unique",
]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Import what is asked for and no sooner: `import streamfilter` stays cheap."""
    if name in __all__:
        module = _ELSEWHERE.get(name, "index.errors")
        return getattr(importlib.import_module(f"streamfilter.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
