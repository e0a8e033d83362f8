"""Shared by `query`, `explain` and `compare`: an open index, a document, its verdict."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

import click
import numpy as np

from streamfilter.assembly import sketcher_for
from streamfilter.commands.options import config_options, load, once, output_option, text_of
from streamfilter.commands.states import found_state_option, state_of
from streamfilter.documents.fields.pointers import Unreadable
from streamfilter.documents.fields.record_fields import FieldsReader
from streamfilter.documents.fields.strict_json import parse_json
from streamfilter.documents.sketching import values_in
from streamfilter.entities.joined import join_fields, pointers_of
from streamfilter.files.sources import FILE, Sources
from streamfilter.index.directory.index_paths import indexes_in
from streamfilter.index.directory.read_only_view import IndexView, viewed
from streamfilter.index.directory.seed_file import seed_at
from streamfilter.index.errors import IndexFault, as_stop
from streamfilter.index.input_table import FACT, origins_of
from streamfilter.index.protocol import Documents
from streamfilter.matching.blocking.retention import Retention, came_at
from streamfilter.matching.explanation import Explanation
from streamfilter.matching.search import Candidate
from streamfilter.matching.verdict.decision import Finding
from streamfilter.matching.verdict.envelope import p_false_positive
from streamfilter.matching.verdict.policy import MatchPolicy
from streamfilter.model import Origins
from streamfilter.similarity.scheme import Scheme, scheme_of
from streamfilter.similarity.sketch import Sketcher, Sketches
from streamfilter.similarity.text.boilerplate import TableError
from streamfilter.stops import ExitCode, SchemeMismatch, Stop

Command = TypeVar("Command", bound=Callable[..., Any])

_OPTIONS = (
    click.argument("text", required=False),
    found_state_option,
    click.option("--id", "id_", metavar="ID", multiple=True, callback=once,
                 help="Look for this document of the index instead."),
    click.option("--scope", metavar="VALUE",
                 help="The scope of TEXT, if the index has index.scope_field: JSON, or a plain "
                      "string. null: the records without one."),
    click.option("--threshold", type=click.FloatRange(0, 1, min_open=True), metavar="J",
                 help="Similarity that makes a duplicate, instead of the index's own."),
)  # fmt: skip


def view_options(command: Command) -> Command:
    """Add TEXT, ``--state``, ``--id``, ``--threshold`` and the options of every verb."""
    command = config_options(output_option(command))
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@dataclass(frozen=True, slots=True)
class OpenIndex:
    """One index of a state directory, open to be read."""

    path: Path
    view: IndexView
    sketcher: Sketcher
    policy: MatchPolicy
    origins: Origins
    """Where its documents came from; the names of inputs, where `filter` wrote them down."""


@dataclass(frozen=True, slots=True)
class Question:
    """The document that is asked about, as one index sees it."""

    sketches: Sketches
    ordinal: int | None = None
    """Its own ordinal, if it is in the index itself."""
    reach: int = 0
    """The lowest ordinal that it may match, by `verify.within`: as when it arrived, or for a text
    that arrives now, at the index's last stream time."""


@contextmanager
def places(given: dict[str, Any]) -> Iterator[list[OpenIndex]]:
    """Yield every index of ``--state``.

    Raises:
        Stop: there is none, or it cannot be read; says what to do.
    """
    config = load(given["files"], given["overrides"])
    seed = seed_at(config.index.seed_file)
    given["state"] = state = state_of(config, given["state"], given["files"])
    with ExitStack() as stack:
        try:
            opened = [
                _place(path, stack.enter_context(viewed(path, seed=seed)), given["threshold"])
                for path in indexes_in(state)
            ]
        except IndexFault as fault:
            raise as_stop(fault) from fault
        except ValueError as error:  # a FormatError, or a policy that no version stores
            raise SchemeMismatch(str(error)) from error
        yield opened


def _place(path: Path, view: IndexView, threshold: float | None) -> OpenIndex:
    known = json.loads(view.fact("policy") or b"{}")
    names = {field.name for field in fields(MatchPolicy)} & known.keys()
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


def asked(text: str | None, id_: str | None) -> str | None:
    """Return the text that was given, None if an id was.

    Raises:
        click.UsageError: neither or both were given.
    """
    if (text is None) is (id_ is None):
        raise click.UsageError(
            "give a TEXT (or @file; @@ stands for an @ at its beginning), or --id ID of a "
            "document in the index"
        )
    return None if text is None else text_of(text)


def question(
    place: OpenIndex, text: str | None, id_: str | None, scope: str | None
) -> Question | None:
    """Return the document that is asked about; None if this index does not have the id.

    Raises:
        click.UsageError: the text needs a *scope*, or has none here.
    """
    scheme = place.sketcher.scheme
    if (scope is None) is (scheme.scope and text is not None):
        raise click.UsageError(
            f"name the value of {scheme.pointers[0]} of TEXT by --scope (null: it has none)"
            if scope is None
            else "--scope belongs to a TEXT, and to an index with index.scope_field"
        )
    if text is not None:
        values = () if scope is None else [values_in(scheme, scope)]
        try:
            sketches = place.sketcher.sketch([as_sketched(scheme, text)], values)
            return Question(sketches, reach=_reach(place, place.view.progress.highest_timestamp))
        except TableError as error:
            raise SchemeMismatch(f"{place.path}: {error}") from None
    stored = stored_as(place, id_ or "")
    if stored is None:
        return None
    sketches = Sketches(stored.contents, place.sketcher.keys_of(stored.contents))
    return Question(sketches, int(stored.ordinals[0]), _reach(place, came_at(place.view, stored)))


def _reach(place: OpenIndex, time: int) -> int:
    return Retention(within=place.policy.within).reach_at(place.view, time)


def as_sketched(scheme: Scheme, text: str) -> str:
    """Return *text* as it is sketched: a record, given as JSON, as its joined fields.

    Raises:
        Stop: it is no record; says what one looks like.
    """
    named = scheme.fields
    if not named:
        return text
    pointers = [field.rpartition(" ")[0] for field in named]
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
    return joined or join_fields([""] * len(pointers))


def stored_as(place: OpenIndex, id_: str) -> Documents | None:
    """Return the oldest document with this id, None if the index has none."""
    ordinals = place.view.ordinals_of(id_)
    return place.view.fetch(np.array(ordinals[:1], np.int64)) if ordinals else None


def unknown(id_: str | None, state: Path) -> Stop:
    """Return the refusal of an id that no index has."""
    return Stop(
        f"{state}: no document has the id {id_!r}\n    cure: give the text itself, or @file; "
        "only forwarded documents are in the index, not withheld ones",
        exit_code=ExitCode.USAGE,
    )


def as_numbers(finding: Finding) -> dict[str, object]:
    """Return the numbers of one pair as JSON values; containment where the policy asks for it."""
    fields: dict[str, object] = {
        "fate": finding.fate.value,
        "similarity": finding.similarity,
        "estimate": finding.estimate,
        "exact": finding.exact,
        "wanted": finding.wanted,
    }
    if finding.containment is not None:
        fields["containment"] = finding.containment
    return fields


def as_points(scheme: Scheme, found: Candidate) -> dict[str, Any]:
    """Return what each field of a record gave, as a JSON value; nothing for texts."""
    if not found.points:
        return {}
    weights = found.finding.policy.weights or (1.0,) * len(scheme.fields)
    each = zip(scheme.fields, found.points, weights, strict=True)
    return {
        "fields": {
            field.rpartition(" ")[0]: {"points": points, "weight": weight}
            for field, points, weight in each
        }
    }


def points_in_words(fields: Mapping[str, Any]) -> str:
    """Return the points of each field for a person: ``/name 90 x 2, /phone absent``."""
    return ", ".join(
        f"{name} absent" if each["points"] is None
        else f"{name} {each['points']:.0f}" + (f" x {each['weight']:g}" * (each["weight"] != 1))
        for name, each in fields.items()
    )  # fmt: skip


def as_verdict(explanation: Explanation) -> dict[str, object]:
    """Return the decision as JSON values: what the evidence would hold, and the reason in words."""
    decision = explanation.decision
    return {
        "verdict": decision.verdict.value,
        "reason": explanation.reason,
        "method": decision.method or None,
        "canonical_id": decision.match.document_id if decision.match else None,
        "p_false_positive": p_false_positive(decision),
    }
