"""`config/reference.yaml`, written from the sections: every key, its default and its reason.

Write it anew after changing a setting::

    python -m streamfilter.config.reference > config/reference.yaml
"""

import sys
import textwrap
from collections.abc import Iterator
from typing import Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from streamfilter.config.configuration import Config
from streamfilter.config.problems import defaults, manual, plain

_WIDTH = 96

_HEAD = """\
yaml-language-server: $schema=schemas/configuration.json

Every setting of streamfilter with its default and its reason: a file to look things up in, not
to start from (streamfilter.yaml is). Generated from the code, and tested equal to it.

Precedence: defaults < files (later ones win) < environment < --set section.key=value
Environment: STREAMFILTER_SECTION__KEY, so STREAMFILTER_SIMILARITY__THRESHOLD=0.9 and, for a
librdkafka property, STREAMFILTER_KAFKA__COMMON__SASL_PASSWORD (its dots become underscores).
Inside any text: ${VAR}, ${VAR:-default}, ${file:/run/secrets/password}; $${ is a plain ${.
Durations: 500ms, 30s, 5m, 2h, 7d. Sizes: 65536, 64Ki, 8Mi (2^20), 1GB (10^9)."""


def reference() -> str:
    head = "\n".join(f"# {line}".rstrip() for line in _HEAD.splitlines())
    blocks = [head]
    for name, field in Config.model_fields.items():
        blocks.append("\n".join(_section(name, field, "")))
    return "\n\n".join(blocks) + "\n"


def keys(section: type[BaseModel] = Config, above: str = "") -> Iterator[str]:
    """Yield the path of every setting, as ``--set`` takes it."""
    for name, field in section.model_fields.items():
        if isinstance(field.default, BaseModel):
            yield from keys(type(field.default), f"{above}{name}.")
        else:
            yield f"{above}{name}"


def _section(name: str, field: FieldInfo, indent: str) -> Iterator[str]:
    model: BaseModel = field.default
    yield from _comment(type(model).__doc__ or "", indent)
    yield f"{indent}{name}:"
    written, texts = defaults(type(model)), manual(type(model))
    for key, each in type(model).model_fields.items():
        if isinstance(each.default, BaseModel):
            yield from _section(key, each, indent + "  ")
        else:
            yield from _comment(_choices(each.annotation) + texts[key], indent + "  ")
            yield from _value(key, written[key], indent + "  ")


def _choices(annotation: object) -> str:
    """Return the words that a setting takes, where words are all it takes."""
    words = get_args(annotation) if get_origin(annotation) is Literal else ()
    return f"{' | '.join(map(str, words))}. " if len(words) > 1 else ""


def _value(key: str, value: object, indent: str) -> Iterator[str]:
    if isinstance(value, dict) and value:
        yield f"{indent}{key}:"
        for name, each in value.items():
            yield f"{indent}  {name}: {plain(each)}"
    else:
        yield f"{indent}{key}: {plain(value)}"


def _comment(text: str, indent: str) -> Iterator[str]:
    for line in textwrap.wrap(" ".join(text.split()), _WIDTH - len(indent)):
        yield f"{indent}# {line}"


if __name__ == "__main__":
    sys.stdout.write(reference())
