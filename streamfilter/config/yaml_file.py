"""YAML without its traps: a key twice is an error, ``no`` is a word, ``1:30`` is no number.

Only the values of JSON are recognised (null, true, false, numbers); all else is text and each
setting reads its own. A number is one only if its digits say no more than its value: ``0123``
and ``1.50`` may be passwords, and stay texts. Aliases are refused: they let a kilobyte stand for
a terabyte. An error tells the line, never quotes the text, which may hold a password.
"""

import re
from typing import Any

import yaml  # type: ignore[import-untyped]

CHARACTERS_MAX = 1_000_000  # a longer configuration is a wrong file


class YamlError(ValueError):
    """Not usable as YAML; the message holds the line and no part of the text."""


class _Loader(yaml.SafeLoader):  # type: ignore[misc]
    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 (set by the library on the class)

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise YamlError(f"line {self.peek_event().start_mark.line + 1}: aliases are refused")
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode) or not key.value:
                raise YamlError(f"line {line}: a key must be a word")
            if key.value in seen:
                raise YamlError(f"line {line}: the key {key.value!r} stands there twice")
            seen.add(key.value)
        return {key.value: self.construct_object(value, deep=True) for key, value in node.value}

    def construct_yaml_map(self, node: Any) -> Any:
        yield self.construct_mapping(node)


_Loader.add_constructor("tag:yaml.org,2002:map", _Loader.construct_yaml_map)
for _tag, _regexp, _first in (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|false", list("tf")),
    ("int", r"0|-?[1-9][0-9]{0,17}", list("-0123456789")),
    ("float", r"-?[0-9.]+([eE][-+]?[0-9]+)?", list("-.0123456789")),
):
    _Loader.add_implicit_resolver(
        f"tag:yaml.org,2002:{_tag}", re.compile(rf"^({_regexp})$"), _first
    )


def _number(_: Any, node: Any) -> float | str:
    """Return a number that Python would print as it is written; any other stays text."""
    text: str = node.value
    try:
        return number if repr(number := float(text)) == text else text
    except ValueError:  # 1.2.3
        return text


_Loader.add_constructor("tag:yaml.org,2002:float", _number)


def parse_yaml(text: str) -> Any:
    """Return the plain values in *text*; None for an empty one.

    Raises `YamlError` if it is not one document of usable YAML.
    """
    if len(text) > CHARACTERS_MAX:
        raise YamlError(f"longer than {CHARACTERS_MAX} characters")
    try:
        return yaml.load(text, Loader=_Loader)  # a SafeLoader
    except yaml.MarkedYAMLError as error:
        raise YamlError(_in_words(error)) from None
    except yaml.YAMLError:
        raise YamlError("a character that YAML does not allow") from None
    except RecursionError:
        raise YamlError("nested too deeply") from None


_WORDS: tuple[tuple[str, str, str, bool], ...] = (
    # what was read, what was wrong with it, what a person did, whether to look where it began
    ("quoted scalar", "", "a quotation mark is not closed", True),
    ("flow mapping", "", "a { is not closed, or a comma is missing behind it", True),
    ("flow sequence", "", "a [ is not closed, or a comma is missing behind it", True),
    ("", "'\\t'", "a tab; YAML is indented with spaces", False),
    ("block mapping", "<block mapping start>", "indented otherwise than the lines above it", False),
    ("block mapping", "<block sequence start>", "a list where a key belongs", False),
    ("simple key", "':'", "neither a key with its colon nor a part of the line above", True),
    ("", "found another document", "a second document; a configuration is one", False),
    ("", "mapping values are not allowed", "a colon too many; quote a text that has one", False),
)
_OPENING = re.compile(r"character '([@`%|>&*!])' that cannot start")


def _in_words(error: yaml.MarkedYAMLError) -> str:
    """Return where and what is wrong, as a person would say it; the library's words else."""
    context, problem = error.context or "", error.problem or ""
    for read, wrong, words, at_its_beginning in _WORDS:
        if read in context and wrong in problem:
            begun = error.context_mark if at_its_beginning else None
            return _place(begun or error.problem_mark or error.context_mark) + words
    place = _place(error.problem_mark or error.context_mark)
    if opening := _OPENING.search(problem):
        return f"{place}a text that begins with {opening[1]} must be quoted"
    # The library's words without what they quote of the text.
    return place + re.sub(r"(['\"])(?!<)(?!.\1).*\1", "…", problem or "not YAML", flags=re.DOTALL)


def _place(mark: Any) -> str:
    return f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
