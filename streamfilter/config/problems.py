"""From a validation error to sentences that tell an operator what to write instead."""

import ast
import inspect
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import Any, get_origin

from msgspec import Struct
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from streamfilter.config.settings.types import SECRET_PROPERTY
from streamfilter.stops import Problem

SHOWN_CHARACTERS_MAX = 80  # a value is quoted no longer than this

_MAPPING_WANTED = ("model_type", "model_attributes_type", "dict_type")


class LocatedProblem(Struct, frozen=True):
    """A problem, and where in the values it sits."""

    location: tuple[str | int, ...]
    problem: Problem


def explain(
    error: ValidationError, model: type[BaseModel], spelled: Mapping[tuple[str, ...], str]
) -> list[LocatedProblem]:
    """Return one problem per wrong setting, in the order of the sections.

    *spelled* is what the operator wrote where a variable or a file filled a value in. It is shown
    in place of the value, which may be a secret.
    """
    found: dict[tuple[str | int, ...], LocatedProblem] = {}
    for details in error.errors(include_url=False):
        location = _setting(details["loc"], model)
        if location not in found:
            problem = _problem(details, location, model, spelled)
            found[location] = LocatedProblem(location, problem)
    return list(found.values())


def without(values: Mapping[str, Any], locations: Iterable[tuple[str | int, ...]]) -> Any:
    gone: dict[str, list[tuple[str | int, ...]]] = {}
    for first, *rest in locations:
        gone.setdefault(str(first), []).append(tuple(rest))
    return {
        key: without(value, gone[key]) if key in gone else value
        for key, value in values.items()
        if () not in gone.get(key, ())
    }


def did_you_mean(word: str, known: Sequence[str], *, what: str = "known keys here") -> str:
    """Return the cure for an unknown name: the nearest known one first, then all of them."""
    import difflib  # only for a mistake

    nearest = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    question = f"did you mean {nearest[0]}? " if nearest else ""
    return f"{question}{what}: {', '.join(known) or 'none'}"


def show(value: object) -> str:
    """Return *value* as it may be shown: short, on one line, containers by their kind only."""
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    text = str(value) if isinstance(value, int | float) else repr(str(value))
    return text if len(text) <= SHOWN_CHARACTERS_MAX else text[: SHOWN_CHARACTERS_MAX - 1] + "…"


def kind_of(value: object) -> str:
    """Return the type of a value that should be a mapping, never the value itself.

    The value may contain half of a configuration, with passwords.
    """
    return "a text" if isinstance(value, str) else show(value)


def _setting(location: tuple[str | int, ...], model: type[BaseModel]) -> tuple[str | int, ...]:
    """Cut what pydantic adds below a setting: the branches of a union."""
    kept: list[str | int] = []
    inside: type[BaseModel] | None = model
    for step in location:
        kept.append(step)
        if inside is None:  # one step below a plain setting: a key of a librdkafka map
            break
        field = inside.model_fields.get(str(step))
        inside = None if field is None else _model(field)
        is_map = field is not None and get_origin(field.annotation) is dict
        if inside is None and not is_map:
            break
    return tuple(kept)


def _model(field: FieldInfo) -> type[BaseModel] | None:
    kind = field.annotation
    return kind if isinstance(kind, type) and issubclass(kind, BaseModel) else None


def _problem(
    details: ErrorDetails,
    location: tuple[str | int, ...],
    model: type[BaseModel],
    spelled: Mapping[tuple[str, ...], str],
) -> Problem:
    key = ".".join(map(str, location))
    path = tuple(map(str, location))
    owner: type[BaseModel] | None = model
    for step in location[:-1]:
        field = owner.model_fields.get(str(step)) if owner else None
        owner = _model(field) if field else None
    if details["type"] == "extra_forbidden" and owner is not None:
        cure = did_you_mean(str(location[-1]), list(owner.model_fields))
        kind = "unknown key" if len(location) > 1 else "unknown section"
        return Problem(key, kind, cure)
    got = _USER.sub(r"\1********@", spelled.get(path) or _shown(path, details))
    if path[0] == "kafka" and owner is None:
        cure = _PROPERTY_CURES[kind_of(details["input"])]
        return Problem(key, f"got {got}; expected a text, a number, true or false", cure)
    return Problem(key, f"got {got}; {_expected(details)}", _cure(owner, path[-1], details))


_PROPERTY_CURES = {
    "a list": "write one text: several brokers are a:9092,b:9092",
    "a mapping": "write the whole name before one colon, such as bootstrap.servers: a:9092",
    "null": "remove it; a text that reads null or ~ stands in quotes",
}
"""What was written for a property of librdkafka → what to write."""


_USER = re.compile(r"(://).*@")  # the user and the password in an address


def _shown(path: tuple[str, ...], details: ErrorDetails) -> str:
    if path[0] == "kafka" and SECRET_PROPERTY.search(path[-1]):  # not similarity's token_bytes
        return "a value that is not shown"
    mapping = details["type"] in _MAPPING_WANTED
    return kind_of(details["input"]) if mapping else show(details["input"])


def _expected(details: ErrorDetails) -> str:
    """Return what was expected, from pydantic's own words, without its class names."""
    message = details["msg"].removeprefix("Value error, ")
    if details["type"] in _MAPPING_WANTED:
        return "expected a mapping of keys"
    if details["type"] in _BY_TYPE:
        return f"expected {_BY_TYPE[details['type']]}"
    kind = message.partition(", unable to")[0].removeprefix("Input should be a valid ")
    if kind in _IN_WORDS:
        return f"expected {_IN_WORDS[kind]}"
    return message.replace("Input should be", "expected").partition(", unable to")[0]


_BY_TYPE = {
    "int_from_float": "a whole number",
    "path_type": "a path",
    "string_too_short": "a text that is not empty",
    "too_short": "a list that is not empty",
}
"""Kinds of error whose words name pydantic's insides → what one writes."""

_IN_WORDS = {
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "string": "a text",
    "tuple": "a list, such as [a, b]",
}
"""pydantic's name of a type → the user's word for it."""

_TEXT_WANTED = ("string_type", "path_type")


def _cure(owner: type[BaseModel] | None, name: str, details: ErrorDetails) -> str:
    """Return the setting's default and reason: enough to choose a value without the manual."""
    given = details["input"]
    if details["type"] in _TEXT_WANTED and isinstance(given, int | float):
        return f"write it in quotes: '{show(given)}'"
    field = owner.model_fields.get(name) if owner is not None else None
    if owner is None or field is None:
        return "use a text, a number, true or false"
    default = defaults(owner)[name]
    such = "" if isinstance(default, dict) else f"the default is {plain(default)}. "
    return f"{such}{manual(owner).get(name, '')}".strip()


@cache
def manual(section: type[BaseModel]) -> dict[str, str]:
    """Return the text under each setting of *section*; only errors and generated files need it.

    pydantic would read it at every start (`use_attribute_docstrings`), which takes 60 ms.
    """
    (tree,) = ast.parse(inspect.getsource(section)).body
    assert isinstance(tree, ast.ClassDef)
    found = {name: field.description or "" for name, field in section.model_fields.items()}
    for field, text in pairwise(tree.body):
        match field, text:
            case ast.AnnAssign(ast.Name(name)), ast.Expr(ast.Constant(str(said))):
                found[name] = " ".join(said.split())
    return found


def defaults(section: type[BaseModel]) -> dict[str, Any]:
    """Return the section's defaults, spelled as one writes them: ``8Mi``, ``20ms``."""
    return section().model_dump(mode="json")


def plain(value: object) -> str:
    """Return a value of `defaults` the way one writes it in YAML."""
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)
