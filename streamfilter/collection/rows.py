"""What a caller gives: rows (pairs, mappings, the columns of a table), ids, other arguments.

A table is a DataFrame (pandas, polars), an Arrow table, batch or reader, or a data set that yields
mappings. It is known by its attributes; none of these libraries is imported. What could be meant
in two ways is refused: a `dict` may be one row, or texts by id; a column may be there twice.
Errors name the value and what to use.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import islice
from numbers import Integral, Real
from typing import Any, TypeVar

from streamfilter.documents.fields.values import canonical
from streamfilter.index.protocol import Index
from streamfilter.model import Document

Id = str | int  # what names a document

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


ON_CONFLICT = ("error", "skip")
WORKERS_MAX = 64


def is_integer(id: object) -> bool:
    """Return whether *id* is an integer of any library; a bool is none."""
    return isinstance(id, Integral) and not isinstance(id, bool)


def check_text(text: object, where: str = "") -> str:
    """Return *text* if it is a str, or raise `TypeError`; *where* names its row."""
    decoded = isinstance(text, (bytes, bytearray))
    cure = "decode it first" if decoded else "'' stands for a missing text"
    return str_of("text", text, where, f"a str: {cure}")


def check_scope(scope: object) -> str | None:
    """Return *scope* as the service compares a value; a blank one is None, as none is.

    Raises:
        TypeError, ValueError: it is neither a str nor None, or no UTF-8 text.
    """
    if scope is None:
        return None
    return canonical(utf8_of("scope", str_of("scope", scope, "", "a str")), ())


def check_many(ids: Iterable[str | int]) -> Iterable[str | int]:
    """Return *ids*; raise `TypeError` for one id, such as a str of many characters."""
    if isinstance(ids, (str, bytes, int)):
        raise TypeError(f"expected many ids, got one: forget({ids!r:.60})")
    if not isinstance(ids, Iterable):
        raise TypeError(f"got {ids!r:.60} ({type(ids).__name__}); expected many ids")
    return ids


def check_threshold(threshold: object) -> None:
    """Raise `TypeError` if *threshold* is no number. `MatchPolicy` checks its range."""
    if not isinstance(threshold, Real):
        kind = type(threshold).__name__
        raise TypeError(
            f"threshold is {threshold!r:.60} ({kind}); use a number in (0, 1], such as 0.8"
        )


def check_limit(limit: object) -> None:
    """Raise `ValueError` if *limit* is neither None nor a number of matches, 1 or more."""
    if limit is not None and not (is_integer(limit) and limit >= 1):  # type: ignore[operator]
        raise ValueError(f"limit is {limit!r:.60}; use 1 or more, or None for all matches")


def check_workers(workers: object) -> int:
    """Return *workers* if it is a number of processes, 0 to 64, or raise `ValueError`."""
    if not isinstance(workers, int) or not 0 <= workers <= WORKERS_MAX:
        raise ValueError(f"workers is {workers!r:.60}; use 0 to {WORKERS_MAX} processes")
    return workers


def check_conflict(on_conflict: object) -> bool:
    """Return whether *on_conflict* skips rows whose id is known; else they are an error."""
    if on_conflict not in ON_CONFLICT:
        raise ValueError(
            f"on_conflict is {on_conflict!r:.60}; use 'error' or 'skip', or update_many"
        )
    return on_conflict == "skip"


def str_of(name: str, value: object, where: str, expected: str) -> str:
    """Return *value* if it is a str; else raise `TypeError`, which says what was *expected*."""
    if not isinstance(value, str):
        kind = type(value).__name__
        raise TypeError(f"{where}the {name} is {value!r:.60} ({kind}); expected {expected}")
    return value


def utf8_of(name: str, value: str) -> str:
    """Return *value* if UTF-8 can encode it; else raise `ValueError`."""
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError(f"the {name} {value!r:.60} is no UTF-8 text; name it otherwise") from None
    return value


Rows = Any  # an iterable of rows, or a table
Row = Any
R = TypeVar("R")

ID, TEXT = "id", "text"


def rows_of(rows: Rows, columns: tuple[str, ...] = ()) -> Iterator[Row]:
    """Return the single rows of *rows*; a table's rows are mappings of *columns*, or of all.

    Raises:
        TypeError: *rows* is no such thing.
        KeyError: the table has no such column.
    """
    if isinstance(rows, (str, bytes)):
        raise TypeError(
            f"expected many rows, got one {type(rows).__name__}: {rows!r:.60}; of a file give its "
            "rows: open(path), or pyarrow.parquet.read_table(path)"
        )
    if isinstance(rows, (Mapping, Set)):
        kind = type(rows).__name__
        raise TypeError(
            f"a {kind} may be one row or many: give a list of rows, or of a dict its items()"
        )
    if hasattr(rows, "collect") and hasattr(rows, "collect_schema"):
        raise TypeError(f"a {type(rows).__name__} has no rows yet; give its collect()")
    if (batches := _arrow(rows)) is not None:
        return _batches(batches, _named(list(rows.schema.names), columns))
    if hasattr(rows, "columns") and hasattr(rows, "__getitem__"):  # a DataFrame
        names = _named(list(rows.columns), columns)
        values = map(rows.__getitem__, names)
        return (dict(zip(names, row, strict=True)) for row in zip(*values, strict=True))
    if not isinstance(rows, Iterable):
        raise TypeError(f"got {rows!r:.60} ({type(rows).__name__}); expected rows")
    return iter(rows)


def _arrow(rows: Any) -> Iterable[Any] | None:
    """Return the batches of an Arrow table or data set, batch or reader; None: it is neither."""
    if hasattr(rows, "to_batches"):
        yielding: Iterable[Any] = rows.to_batches()
        return yielding
    single = hasattr(rows, "schema") and hasattr(rows, "from_pydict")
    reader: Iterable[Any] | None = rows if hasattr(rows, "read_next_batch") else None
    return [rows] if single else reader


def _batches(batches: Iterable[Any], names: list[str]) -> Iterator[Row]:
    for batch in batches:
        values = (batch.column(name).to_pylist() for name in names)
        yield from (dict(zip(names, row, strict=True)) for row in zip(*values, strict=True))


def _named(there: list[str], asked: tuple[str, ...]) -> list[str]:
    for name in asked or there:
        if name not in there:
            raise KeyError(f"no column {name!r}; there are {', '.join(map(str, there)):.200}")
        if there.count(name) > 1:
            raise KeyError(f"the column {name!r} is there {there.count(name)} times; rename one")
    return list(asked) or there


def pair_of(row: Row, place: int, *, id: str, text: str) -> tuple[object, object]:
    """Return id and text of the row number *place*, a pair or a mapping with these fields."""
    if isinstance(row, Mapping):
        return _field(row, id, place), _field(row, text, place)
    # A str of two characters has two elements, too; a set has no order.
    plain = not isinstance(row, (str, bytes, Set)) and isinstance(row, Iterable)
    if not plain or len(both := [*row]) != 2:
        raise TypeError(
            f"row {place} is {row!r:.60} ({type(row).__name__}); expected an id and a text, as a "
            "pair or as a mapping"
        )
    return both[0], both[1]


def _field(row: Mapping[str, object], name: str, place: int) -> object:
    if name not in row:
        fields = ", ".join(map(str, row))
        raise KeyError(f"row {place} has no {name!r}, but {fields:.200}; name it with id=, text=")
    return row[name]


def _text_in(row: Row, place: int, name: str) -> object:
    if isinstance(row, Mapping):
        return _field(row, name, place)
    return pair_of(row, place, id=ID, text=TEXT)[1]


def texts_of(rows: Rows, name: str) -> Iterator[tuple[Row, str]]:
    """Return each of *rows* with its text: the row itself, its field *name*, or a pair's second.

    Raises:
        TypeError, KeyError: a row has no text; it is named by its number.
    """
    return _with_texts(rows_of(rows), name)


def _with_texts(rows: Iterator[Row], name: str) -> Iterator[tuple[Row, str]]:
    for place, row in enumerate(rows):
        text = row if isinstance(row, str) else _text_in(row, place, name)
        yield row, check_text(text, f"row {place}: ")


def chunks(items: Iterable[R], most: int) -> Iterator[list[R]]:
    """Yield *items* in lists of at most *most*."""
    left = iter(items)
    while chunk := list(islice(left, most)):
        yield chunk


def chunks_up_to_an_error(items: Iterable[R], most: int) -> Iterator[list[R]]:
    """Yield *items* in lists of at most *most*; if *items* raises, first what came before it."""
    chunk: list[R] = []
    try:
        for item in items:
            chunk.append(item)
            if len(chunk) == most:
                yield chunk
                chunk = []
    except Exception:
        if chunk:
            yield chunk
        raise
    if chunk:
        yield chunk
