"""Sketching documents: passes their texts, and the values beside these, to a sketcher.

With `index.scope_field`, the first of the values is the document's scope.
"""

from collections.abc import Mapping, Sequence

from streamfilter.documents.fields.values import written_value
from streamfilter.model import Document
from streamfilter.similarity.scheme import Scheme
from streamfilter.similarity.sketch import Sketcher, Sketches


def sketched(sketcher: Sketcher, documents: Sequence[Document]) -> Sketches:
    values = [each.values for each in documents] if sketcher.scheme.digests else ()
    return sketcher.sketch([each.text for each in documents], values)


def scope_of(document: Document) -> str | None:
    """Return the scope of a *document* that has one, None if it is without."""
    return document.values[0] if document.values else None


def values_in(scheme: Scheme, fields: Mapping[str, str]) -> tuple[str | None, ...]:
    """Return the values of a document with these *fields*: JSON, or the plain string itself."""
    return tuple(written_value(fields.get(pointer, "null")) for pointer in scheme.pointers)
