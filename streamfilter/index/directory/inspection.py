"""Check of a whole index: all of it is read, with its checksums, and checked for consistency.

| what                  | must hold                                                             |
|-----------------------|-----------------------------------------------------------------------|
| every block           | its checksum; nothing is skipped in silence                           |
| every family          | the same stamp of the last write (`database.py`)                      |
| progress              | can be read; counts the documents that are remembered                 |
| a document            | can be read, is of its window, and of a batch below the next one      |
| a document's id       | finds it, and nothing else, where documents are found by their ids    |
| a document's keys     | are in their buckets, or longer ones are, unless all of them are full |
| a bucket              | can be read, rises, keeps its cap, lists only documents of its window |
| batches and spans     | can be read, and are below the next batch                             |

The check cannot show whether the state is the *latest*: only the changelog can. If the end of the
log was lost, the index is older but consistent. Its changelog offset shows how old it is.
"""

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

import numpy as np
from msgspec import Struct, field

from streamfilter.index.bands.bucket_overflow import DEPTH, cap_at
from streamfilter.index.bands.buckets import encoded_integers, written
from streamfilter.index.bands.overflow_pages import paged
from streamfilter.index.bands.sorted_run import SortedRun
from streamfilter.index.directory.identity import Identity
from streamfilter.index.directory.read_only_view import IndexView
from streamfilter.index.errors import FormatError, IndexDamaged
from streamfilter.index.format import names_of
from streamfilter.index.journal import decode_mark, decode_span
from streamfilter.index.progress import Progress
from streamfilter.index.protocol import Additions, Documents
from streamfilter.index.rocks.column_families import META
from streamfilter.index.rocks.options import Memory
from streamfilter.index.rocks.run_filters import load_filters
from streamfilter.index.rocks.window_tables import WindowTables
from streamfilter.similarity.columns import I64, Flags, KeysOf, distinct
from streamfilter.stops import counted

PROBLEMS_MAX = 20  # problems that are listed at most; further ones are dropped


class Inspection(Struct):
    """The result of the check of one index."""

    progress: Progress
    documents: int = 0
    buckets: int = 0
    batches: int = 0
    problems: list[str] = field(default_factory=list)  # empty: the index is whole
    advanced: Callable[[int], None] = lambda _: None

    def note(self, problem: str) -> None:
        if len(self.problems) < PROBLEMS_MAX:
            self.problems.append(problem)

    def as_json(self) -> dict[str, object]:
        positions = (self.progress.positions or {}).items()
        return {
            "documents": self.documents,
            "buckets": self.buckets,
            "batches": self.batches,
            "changelog_offset": self.progress.changelog_offset,
            "positions": {str(partition): offset for partition, offset in positions},
            "problems": self.problems,
        }


class Inspected(Struct, frozen=True):
    """The inspection of one index, or the fault that prevents it."""

    path: Path
    identity: Identity | None
    found: Inspection | None
    fault: str = ""

    @property
    def problems(self) -> list[str]:
        """Return what is wrong; empty: the index is whole."""
        return [self.fault] if self.found is None else self.found.problems

    def as_json(self) -> dict[str, object]:
        if self.found is None or self.identity is None:
            return {"path": str(self.path), "problems": self.problems}
        identity = self.identity
        about = {"index_id": identity.index_id, "scheme": identity.scheme_fingerprint}
        return {"path": str(self.path), **about, **self.found.as_json()}

    def __str__(self) -> str:
        found = self.found
        if found is None or found.problems:
            return "\n    ".join([f"{self.path}: not whole", *self.problems])
        held = f"{counted(found.documents, 'document')} in {counted(found.buckets, 'bucket')}"
        return f"{self.path}: whole; {held}{found.progress.as_of}"


class Wholeness(Struct, frozen=True):
    """The answer of `check --index`: the inspections of all indexes of a state directory."""

    indexes: list[Inspected]

    @property
    def whole(self) -> bool:
        return not any(each.problems for each in self.indexes)

    def as_json(self) -> dict[str, object]:
        return {"whole": self.whole, "indexes": [each.as_json() for each in self.indexes]}

    def as_text(self) -> str:
        return "\n".join(map(str, self.indexes))


def inspect(
    view: IndexView, keys_of: KeysOf, *, advanced: Callable[[int], None] = lambda _: None
) -> Inspection:
    """Read all of *view* and return its problems. Damaged data raises no exception.

    *keys_of* computes documents' keys from their signatures. *advanced* gets the number of
    documents read since its last call.
    """
    found = Inspection(view.progress, advanced=advanced)
    remembered = 0
    with _noted(found, "filters"):
        load_filters(view.paged, Memory().front_bytes)
    ends = [window.first_ordinal for window in view.windows[1:]] + [view.progress.next_ordinal]
    for tables, end in zip(view.tables, ends, strict=True):
        remembered += _window(view, tables, end, found, keys_of)
    if remembered != len(view):
        found.note(f"progress counts {len(view)} documents, {remembered} can be read")
    with _noted(found, "facts"):
        deque(view.entries(META), maxlen=0)
        if view.fact("identity") != view.identity.encode():
            found.note("the database belongs to another index than its marker")
    return found


def _window(
    view: IndexView, tables: WindowTables, end: int, found: Inspection, keys_of: KeysOf
) -> int:
    first, names, remembered = tables.window.first_ordinal, tables.families, 0
    stored = _Stored(first, np.zeros(max(end - first, 0), np.bool_))
    with _noted(found, "documents"):
        for documents in view.scan_window(tables):
            remembered += int((documents.ordinals >= view.progress.horizon).sum())
            _documents(view, documents, found, stored)
            _listed(view, tables, documents, found, keys_of)
            _named(view, tables, documents, found, stored)
    with _noted(found, "ids"):
        count = sum(1 for _ in view.entries(names.ids)) if names.ids is not None else None
        if count not in (None, stored.names):
            found.note(f"{count} ids of {int(stored.there.sum())} documents, not {stored.names}")
    with _noted(found, "buckets"):
        deque(view.entries(names.bands), maxlen=0)  # all checksums, those of filters too
        for run in tables.runs.all():
            _buckets(view, run, found, stored)
    with _noted(found, "batches"):
        for key, value in view.entries(names.batches):
            _below(found, "batch", decode_mark(int.from_bytes(key, "big"), value).number)
            found.batches += 1
        for key, value in view.entries(names.spans):
            _below(found, "a span's batch", decode_span(key, value)[1])
    return remembered


class _Stored(Struct):
    """The ordinals of a window that have a stored document."""

    first: int
    there: Flags
    names: int = 0  # how many names they have together (`format.names_of`)

    def holds(self, ordinals: I64) -> Flags:
        return np.asarray((ordinals >= self.first) & (ordinals < self.first + len(self.there)))


@contextmanager
def _noted(found: Inspection, what: str) -> Iterator[None]:
    """Turn a read error inside the block into a problem of *what*."""
    try:
        yield
    except (IndexDamaged, FormatError) as error:
        found.note(f"{what}: {error}")


def _below(found: Inspection, what: str, number: int) -> None:
    if number >= found.progress.next_batch:
        found.note(f"{what} {number} is not below the next batch, {found.progress.next_batch}")


def _documents(view: IndexView, documents: Documents, found: Inspection, stored: _Stored) -> None:
    found.documents += len(documents)
    found.advanced(len(documents))
    ordinals, end = documents.ordinals, stored.first + len(stored.there)
    inside = stored.holds(ordinals)
    for ordinal in ordinals[~inside].tolist():
        found.note(f"document {ordinal} is not of its window, {stored.first} to below {end}")
    stored.there[ordinals[inside] - stored.first] = True
    for batch in distinct(documents.batches[documents.batches >= view.progress.next_batch]):
        _below(found, "a document's batch", int(batch))


def _listed(
    view: IndexView, tables: WindowTables, documents: Documents, found: Inspection, keys_of: KeysOf
) -> None:
    keys = keys_of(documents.contents)
    present = written(Additions(documents, keys))
    buckets = tables.probe(keys, present, documents.contents.splitters)
    listed, excused = np.zeros(keys.size, np.bool_), np.zeros(keys.size, np.bool_)
    for level in buckets.levels:
        own = level.ordinals == documents.ordinals[level.askers // keys.shape[1]]
        listed[level.askers[own]] = True
        if level.depth == DEPTH:
            excused[level.cells] = level.overflows > 0
    whole = listed[keys.shape[1] - 1 :: keys.shape[1]]
    left, turned_away = ~whole, buckets.overflows[:, -1]
    pages = paged(tables.probe, keys[:, -1], turned_away, left, cap=view.bucket_cap)
    for rows, ordinals in pages:
        left[rows[ordinals == documents.ordinals[rows]]] = False
    whole[:] = ~left
    # A collection has other keys beside those of the bands, so only a filter's index is checked.
    if view.progress.changelog_offset < 0:
        return
    missing = present & ~(listed | excused).reshape(keys.shape)
    for row in np.flatnonzero(missing.any(axis=1)).tolist():
        found.note(f"document {documents.ordinals[row]} is not in the bucket of one of its keys")


def _named(
    view: IndexView, tables: WindowTables, documents: Documents, found: Inspection, stored: _Stored
) -> None:
    if not view.ids:
        return
    names = names_of(documents)
    answers = iter(tables.named([name for each in names for name in each]))
    for ordinal, each in zip(documents.ordinals.tolist(), names, strict=True):
        stored.names += len(each)
        for place, named in enumerate(islice(answers, len(each))):
            if ordinal not in named:
                which = "value of verify.also_same" if place else "id"
                found.note(f"document {ordinal} is not found by its {which}")


def _buckets(view: IndexView, run: SortedRun, found: Inspection, stored: _Stored) -> None:
    found.buckets += len(run)
    lists, names = run.lists(np.arange(len(run))), encoded_integers(run.keys)
    owners = np.repeat(np.arange(len(run)), lists.counts)
    known = stored.holds(lists.ordinals)
    known[known] = stored.there[lists.ordinals[known] - stored.first]
    for at in np.flatnonzero(~known).tolist():
        name = names[int(owners[at])].hex()
        found.note(f"bucket {name} lists document {lists.ordinals[at]}, which is not there")
    falls = (np.diff(lists.ordinals) <= 0) & (np.diff(owners) == 0)
    for at in np.flatnonzero(falls).tolist():
        found.note(f"bucket {names[int(owners[at])].hex()} does not rise")
    most = cap_at(view.bucket_cap, DEPTH)  # a key does not tell how long it is
    for at in np.flatnonzero(lists.counts > most).tolist():
        found.note(f"bucket {names[at].hex()} lists more than {most} documents")
