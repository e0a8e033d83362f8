"""The ids of a `Deduplicator`: all str, or all int."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from streamfilter.collection.rows import (
    Rows,
    check_text,
    chunks,
    is_integer,
    pair_of,
    rows_of,
    str_of,
    utf8_of,
)
from streamfilter.index.protocol import Index
from streamfilter.model import Document

Id = str | int
"""What names a document."""

_FACT, _INTEGER, _STR = "ids", b"int", b"str"


class Ids:
    """Which kind of ids an index has. The first document decides, and the index stores it."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self.integers = index.fact(_FACT) == _INTEGER

    def begin(self, first: object) -> None:
        """Before documents are stored: if none ever was, the id of the *first* one decides."""
        if self._index.progress.next_ordinal:
            return
        self.integers = is_integer(first)
        if (self._index.fact(_FACT) == _INTEGER) is not self.integers:
            self._index.remember(_FACT, _INTEGER if self.integers else _STR)

    def stored(self, id: object, where: str = "") -> str:
        """Return the str by which the index stores *id*; raise `TypeError` or `ValueError`.

        *where* names the row of a document that is to be stored. Before there is one, any id may
        be asked for.
        """
        name = str(id) if is_integer(id) else str_of("id", id, where, "a str or an int")
        decided = where or self._index.progress.next_ordinal
        if decided and is_integer(id) is not self.integers:
            kind = "int" if self.integers else "str"
            raise TypeError(f"{where}the id is {id!r:.60}; all ids here are {kind}")
        return utf8_of("id", name)

    def given(self, name: str) -> Id:
        """Return the id that is stored as *name*, as the caller gave it."""
        return int(name) if self.integers else name

    def documents(self, rows: Rows, id: str, text: str, *, most: int) -> Iterator[list[Document]]:
        """Yield the documents in *rows*, checked, *most* at a time."""
        place = 0
        for chunk in chunks(rows_of(rows, (id, text)), most):
            pairs = [pair_of(row, place + n, id=id, text=text) for n, row in enumerate(chunk)]
            self.begin(pairs[0][0])
            documents = []
            for n, (name, content) in enumerate(pairs):
                where = f"row {place + n}: "
                documents.append(Document(self.stored(name, where), check_text(content, where)))
            yield documents
            place += len(chunk)

    def twice(self, documents: Sequence[Document]) -> dict[int, str]:
        """Return the rows whose id came before in *documents*, each with the reason."""
        first = {each.id: row for row, each in reversed([*enumerate(documents)])}
        return {
            row: f"the id {self.given(each.id)!r} comes twice; give each text an id of its own"
            for row, each in enumerate(documents)
            if first[each.id] != row
        }

    def known(
        self, documents: Sequence[Document], ordinals: Sequence[int | None]
    ) -> dict[int, str]:
        """Return the rows whose id is stored, under one of *ordinals*, each with the reason."""
        return {
            row: f"the id {(id := self.given(each.id))!r} is known already; "
            f"use update({id!r}, text)"
            for row, each in enumerate(documents)
            if ordinals[row] is not None
        }
