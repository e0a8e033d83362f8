"""The indexes of a state directory, open to be read, and one document as each of them sees it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
from msgspec import Struct

from streamfilter.assembly import sketcher_for
from streamfilter.documents.fields.pointers import Unreadable
from streamfilter.documents.fields.record_fields import FieldsReader
from streamfilter.documents.fields.strict_json import parse_json
from streamfilter.documents.sketching import values_in
from streamfilter.entities.joined import pointers_of
from streamfilter.index.directory.index_paths import indexes_in
from streamfilter.index.directory.read_only_view import IndexView, viewed
from streamfilter.index.errors import IndexFault, as_stop
from streamfilter.index.input_table import FACT, origins_of
from streamfilter.index.protocol import Documents
from streamfilter.matching.blocking.retention import Retention, came_at
from streamfilter.matching.verdict.policy import MatchPolicy
from streamfilter.model import Origins
from streamfilter.similarity.scheme import Scheme, scheme_of
from streamfilter.similarity.sketch import Sketcher, Sketches
from streamfilter.similarity.text.boilerplate import TableError
from streamfilter.stops import ExitCode, SchemeMismatch, Stop


class AskedDocument(Struct, frozen=True):
    """The document that is asked about: a text with its scope, or the id of a stored one."""

    text: str | None
    id: str | None
    scope: str | None = None
    """JSON, or a plain string; only with an index that has `index.scope_field`."""
    fields: Sequence[str] = ()
    """``POINTER=VALUE`` of the text's values that the index compares, each written as the scope."""
    record: Mapping[str, str | None] | None = None
    """The values by pointer, the scope too, as a reader found them in a record."""

    def values(self, scheme: Scheme) -> list[tuple[str | None, ...]]:
        """Return the values beside the text, if any are given.

        Raises:
            Stop: the index does not compare one of them, or the text needs a scope, or has one in
                vain.
        """
        if self.record is not None:
            if missing := [each for each in scheme.pointers if each not in self.record]:
                raise Stop(
                    f"the index compares {missing[0]}, which the configuration does not name",
                    exit_code=ExitCode.USAGE,
                )
            return [tuple(self.record[each] for each in scheme.pointers)] if scheme.pointers else []
        if (self.scope is None) is (scheme.scope and self.text is not None):
            raise Stop(
                f"name the value of {scheme.pointers[0]} of TEXT by --scope (null: it has none)"
                if self.scope is None
                else "--scope belongs to a TEXT, and to an index with index.scope_field",
                exit_code=ExitCode.USAGE,
            )
        known = {}
        for each in self.fields:
            pointer, equals, value = each.partition("=")
            if self.text is None or not equals or pointer not in scheme.pointers:
                raise Stop(f"--field {each!r:.80}: {self._why(scheme)}", exit_code=ExitCode.USAGE)
            known[pointer] = value
        if self.scope is not None:
            known[scheme.pointers[0]] = self.scope
        return [values_in(scheme, known)] if known else []

    def _why(self, scheme: Scheme) -> str:
        if self.text is None:
            return "it belongs to a TEXT; a document of the index has its own"
        if not scheme.pointers:
            return "this index compares no fields"
        return f"write POINTER=VALUE, with one of {', '.join(scheme.pointers)}"


class OpenIndex(Struct, frozen=True):
    """One index of a state directory, open to be read."""

    path: Path
    view: IndexView
    sketcher: Sketcher
    policy: MatchPolicy
    origins: Origins
    """Where its documents came from; the names of inputs, where `filter` wrote them down."""

    def stored(self, id_: str) -> Documents | None:
        """Return the oldest document with this id, None if the index has none."""
        ordinals = self.view.ordinals_of(id_)
        return self.view.fetch(np.array(ordinals[:1], np.int64)) if ordinals else None


class Question(Struct, frozen=True):
    """The document that is asked about, as one index sees it."""

    index: OpenIndex
    sketches: Sketches
    ordinal: int | None = None  # its own ordinal, if it is in the index itself
    reach: int = 0
    """The lowest ordinal that it may match, by `verify.within`: as when it arrived, or for a text
    that arrives now, at the index's last stream time."""

    @classmethod
    def of(cls, asked: AskedDocument, index: OpenIndex) -> Question | None:
        """Return the question to *index*; None if it does not have the id.

        Raises `Stop`: the text needs a scope, has one or a field in vain, or is no record.
        """
        view, sketcher = index.view, index.sketcher
        scheme, stored = sketcher.scheme, None
        values = asked.values(scheme)
        if asked.text is not None:
            try:
                sketches = sketcher.sketch([as_sketched(scheme, asked.text)], values)
            except TableError as error:
                raise SchemeMismatch(f"{index.path}: {error}") from None
        else:
            stored = index.stored(asked.id or "")
            if stored is None:
                return None
            sketches = Sketches(stored.contents, sketcher.keys_of(stored.contents))
        time = view.progress.highest_timestamp if stored is None else came_at(view, stored)
        reach = Retention(within=index.policy.within).reach_at(view, time)
        return cls(index, sketches, None if stored is None else int(stored.ordinals[0]), reach)


@contextmanager
def opened(
    state: Path, *, seed: bytes | None, threshold: float | None = None
) -> Iterator[list[OpenIndex]]:
    """Yield every index of *state*; with *threshold* for matches instead of its own.

    Raises `Stop`: there is none, or it cannot be read; says what to do.
    """
    with ExitStack() as stack:
        try:
            found = [
                _opened(path, stack.enter_context(viewed(path, seed=seed)), threshold)
                for path in indexes_in(state)
            ]
        except IndexFault as fault:
            raise as_stop(fault) from fault
        except ValueError as error:  # a FormatError, or a policy that no version stores
            raise SchemeMismatch(str(error)) from error
        yield found


def _opened(path: Path, view: IndexView, threshold: float | None) -> OpenIndex:
    from streamfilter.files.sources import FILE, Sources  # `check` needs none of that room

    known = json.loads(view.fact("policy") or b"{}")
    names = {*MatchPolicy.__struct_fields__} & known.keys()
    settings = {name: known[name] for name in names}
    if threshold is not None:
        settings["threshold"] = threshold
    named = path.name == "index" and (path.parent / FILE).exists()
    return OpenIndex(
        path=path,
        view=view,
        sketcher=sketcher_for(scheme_of(view.identity.scheme), seed=view.identity.seed),
        policy=MatchPolicy(**settings),
        origins=Sources(path.parent).origins if named else origins_of(view.fact(FACT)),
    )


def as_sketched(scheme: Scheme, text: str) -> str:
    """Return *text* as it is sketched: a record, given as JSON, as its joined fields.

    Raises `Stop`: it is no record; says what one looks like.
    """
    if not scheme.fields:
        return text
    pointers = [field.rpartition(" ")[0] for field in scheme.fields]
    try:
        joined, _ = FieldsReader(pointers, id_pointer=None)(parse_json(text.encode()))
    except Unreadable as trouble:
        places = [pointer for field in pointers for pointer in pointers_of(field)]
        example = ", ".join(f'"{pointer[1:]}": "..."' for pointer in places)
        raise Stop(
            f"here a document is a record: {trouble.reading.message}\n"
            f"    cure: give one as JSON, such as '{{{example}}}'",
            exit_code=ExitCode.USAGE,
        ) from None
    return joined


class UnknownId(Stop):
    """No index has a document with this id."""

    exit_code = ExitCode.USAGE


def unknown(id_: str | None, state: Path) -> UnknownId:
    return UnknownId(
        f"{state}: no document has the id {id_!r}\n    cure: give the text itself, or @file; "
        "only forwarded documents are in the index. For a withheld one: `streamfilter explain "
        "--id ID` with the service's --config, which reads the duplicates topic"
    )
