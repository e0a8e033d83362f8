"""Sketching documents: passes their texts, and the values beside these, to a sketcher."""

from __future__ import annotations

from collections.abc import Sequence

from streamfilter.model import Document
from streamfilter.similarity.sketch import Sketcher, Sketches


def sketched(sketcher: Sketcher, documents: Sequence[Document]) -> Sketches:
    """Return the sketches of *documents*, in order."""
    values = [each.values for each in documents] if sketcher.scheme.digests else ()
    return sketcher.sketch([each.text for each in documents], values)
