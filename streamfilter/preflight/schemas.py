"""The check of schemas: whether they have the configured text, id and fields."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from streamfilter.assembly import newest_schema
from streamfilter.config.configuration import Config
from streamfilter.config.problems import did_you_mean
from streamfilter.documents.codecs.outline import MAP, Outline
from streamfilter.documents.codecs.schemas import SchemasAway, SchemasWithheld
from streamfilter.documents.decoding import outlines_of
from streamfilter.documents.fields.pointers import Unreadable, outer, parse_pointer, pointer_of
from streamfilter.process.broker_wait import Waiting
from streamfilter.process.terminal_escapes import inline
from streamfilter.stops import Problem

T = TypeVar("T")

TEXT = frozenset({"a string", MAP})
ID = TEXT | {"an integer"}
VALUE = ID | {"a number"}
Wanted = tuple[str, str, frozenset[str]]  # a setting, the pointer in it, and what it may lead to


def check_schemas(config: Config) -> list[Problem]:
    """Return what the configuration needs and the newest schema of the values does not have.

    Raises `SchemasAway`: the registry does not answer.
    """
    where, schema = schemas_awaited(waiting_of(config), lambda: newest_schema(config))
    if schema is None:
        got = f"there is no {where.removeprefix('the newest schema of ')}"
        cure = (
            "run `streamfilter peek`: producers may name subjects otherwise, and it reads records"
        )
        return [Problem("input.registry.url", got, cure, warning=True)]
    try:
        outlines = outlines_of(config.input.format, schema)
    except Unreadable as trouble:
        cure = "set input.format to what producers write"
        return [Problem("input.format", f"{where}: {trouble.reading.message}", cure)]
    # A file may hold several messages, and records are of any of them.
    found = (list(_lacking(config, where, outline)) for outline in outlines)
    return min(found, key=len, default=[])


def _lacking(config: Config, where: str, outline: Outline) -> Iterator[Problem]:
    given = config.input
    if given.records:
        yield from _all("input.fields", given.field_pointers, VALUE, where, outline)
    else:
        yield from _all("input.text", given.text, TEXT, where, outline)
    if given.id is not None and given.id.startswith("/"):
        yield from _all("input.id", [given.id], ID, where, outline)
    if config.index.scope_field is not None:
        yield from _all("index.scope_field", [config.index.scope_field], ID, where, outline)


def _all(
    key: str, pointers: Sequence[str], kinds: frozenset[str], where: str, outline: Outline
) -> Iterator[Problem]:
    """Yield each of *pointers* that is not there; a warning if another one is."""
    lacking = {
        pointer: found
        for pointer in pointers
        if pointer.startswith("/")
        and not (found := outline.at(outer(path := parse_pointer(pointer))))
        & (kinds if path == outer(path) else TEXT)
    }
    known = [inline(pointer_of(path)) for path, kind in outline.paths().items() if kind in kinds]
    for pointer, found in lacking.items():
        what = f"{pointer} is {' or '.join(sorted(found))}" if found else f"there is no {pointer}"
        cure = did_you_mean(pointer, known[:30], what="it has")
        warning = len(lacking) < len(pointers)
        yield Problem(key, f"{what} in {where}", cure, warning=warning)


def waiting_of(config: Config) -> Waiting:
    """Return how long a registry may not answer, from now on."""
    return Waiting(config.kafka.start_timeout.total_seconds())


def schemas_awaited(patience: Waiting, call: Callable[[], T]) -> T:
    """Return what *call* returns, once the registry answers.

    Raises `SchemasAway`: it does not answer in time, or it refuses to show the schemas.
    """
    return patience.awaited(
        call, SchemasAway, hopeless=lambda error: isinstance(error, SchemasWithheld)
    )
