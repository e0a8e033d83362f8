"""The checks of the settings that name values beside the text: scope, agreement, also_same."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from streamfilter.stops import Problem

if TYPE_CHECKING:
    from streamfilter.config.configuration import Config


def _values(config: Config) -> Iterator[Problem]:
    yield from _scope(config)
    if config.input.records and config.verify.agree_on:
        yield Problem("verify.agree_on", "records are compared field by field",
                      "remove it, and give the field the kind exact in input.fields"
                      )  # fmt: skip
        return
    yield from _fields(config, "agree_on", "use numbers or urls, or an input.format with fields")
    yield from _fields(config, "also_same", "use an input.format with fields, such as json")
    empty, short = config.input.empty_text, config.input.short_text
    if config.verify.also_same and empty != short:
        yield Problem("input.empty_text", "with verify.also_same an empty text is a short one",
                      f"set it to {short}, as input.short_text")  # fmt: skip


def _scope(config: Config) -> Iterator[Problem]:
    """The scope's field is a field of its own, in values that have fields."""
    field, given = config.index.scope_field, config.input
    if field is None:
        return
    if given.format == "text" or "value" in given.text:
        yield Problem("index.scope_field", f"the whole value is the text, and has no field {field}",
                      "use input.format: json, or remove index.scope_field")  # fmt: skip
        return
    others = [*given.fields] if given.records else [*given.text]
    others += [given.id] if given.id is not None and given.id.startswith("/") else []
    if any(field != other and overlap(field, other) for other in others):
        yield Problem("index.scope_field", f"{field} is within a text or the id, or holds one",
                      "name a field of its own")  # fmt: skip


def _fields(config: Config, setting: str, cure: str) -> Iterator[Problem]:
    """A field that a list of the section ``verify`` names, where there is none."""
    pointers = [each for each in getattr(config.verify, setting) if each.startswith("/")]
    key, given = f"verify.{setting}", config.input
    if pointers and (given.format == "text" or "value" in given.text):
        yield Problem(key, f"the whole value is the text: no field {pointers[0]}", cure)
        return
    names = given.field_pointers if given.records else given.text
    beside = [*names, given.id or "", config.index.scope_field or "", *config.verify.agree_on]
    for at, pointer in enumerate(pointers):
        for other in (*beside, *pointers[:at]):
            if other.startswith("/") and other != pointer and overlap(other, pointer):
                yield Problem(key, f"{pointer} is within {other}, or holds it",
                              "name a field of its own")  # fmt: skip


def overlap(one: str, other: str) -> bool:
    """Return whether a pointer leads through the other one, or both are the whole value."""
    if "value" in (one, other):
        return True
    one, other = _steps(one), _steps(other)
    return one.startswith(other) or other.startswith(one)


def _steps(pointer: str) -> str:
    """Return *pointer* with one spelling of each name; a name and JSON in its string differ."""
    return re.sub("(?<=[^/])#/", "\0/", pointer).replace("~2", "#") + "/"


CHECK = (("index.scope_field", "input", "verify"), _values)
