"""The configuration's JSON Schema: an editor completes keys, shows reasons and marks mistakes.

It says what the sections say, in the spelling of the files. What holds between settings
(bands times rows, two topics of one name) is for `streamfilter check`. Write it anew after
changing a setting::

    python -m streamfilter.config.schema > config/schemas/configuration.json
"""

import json
import sys
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel

from streamfilter.config.configuration import Config
from streamfilter.config.problems import defaults, manual

DRAFT = "http://json-schema.org/draft-07/schema#"
"""The draft that the language servers of editors support best."""

REFERENCE = {"type": "string", "pattern": r"\$\{"}
"""``${VAR}`` may stand for any value: what it is, the start tells."""

_VALUE = ("type", "enum", "const", "anyOf", "pattern", "minimum", "maximum", "exclusiveMinimum",
          "exclusiveMaximum", "minLength", "maxLength")  # fmt: skip
_CLOSED = ("enum", "const", "pattern", "format")

Rule = dict[str, Any]


def schema() -> Rule:
    made = Config.model_json_schema()
    sections = {model.__name__: model for model in _models(Config)}
    definitions = {
        name: _section(made["$defs"][name], sections[name]) for name in sorted(made["$defs"])
    }
    whole = _section({**made, "description": "Settings of streamfilter."}, Config)
    whole.pop("$defs")
    return {"$schema": DRAFT, "title": "streamfilter", **whole, "definitions": definitions}


def schema_text() -> str:
    return json.dumps(schema(), indent=1, ensure_ascii=False) + "\n"


def _models(section: type[BaseModel]) -> Iterator[type[BaseModel]]:
    for field in section.model_fields.values():
        if isinstance(field.default, BaseModel):
            yield type(field.default)
            yield from _models(type(field.default))


def _section(rule: Rule, section: type[BaseModel]) -> Rule:
    """Return the rule of a section, which may be empty, with its settings as one writes them."""
    written, texts = defaults(section), manual(section)
    return {
        **{key: each for key, each in rule.items() if key != "title"},
        "description": " ".join(rule["description"].split()),
        "type": ["object", "null"],
        "properties": {
            name: _setting(each | {"description": texts[name]}, written[name])
            for name, each in rule["properties"].items()
        },
    }


def _setting(rule: Rule, default: object) -> Rule:
    if "$ref" in rule:
        return {"$ref": rule["$ref"].replace("#/$defs/", "#/definitions/")}
    about = {key: each for key, each in rule.items() if key not in _VALUE and key != "title"}
    value = {key: each for key, each in rule.items() if key in _VALUE}
    if rule.get("type") == "object":
        return {**about, "default": default, "type": ["object", "null"]}
    if not _takes_any_text(value):
        value = {"anyOf": [*value.get("anyOf", [value]), REFERENCE]}
    return {**about, "default": default, **value}


def _takes_any_text(value: Rule) -> bool:
    if value.get("type") == "array":
        return True
    branches = value.get("anyOf", [value])
    texts = (each for each in branches if each.get("type") == "string")
    return any(not any(key in each for key in _CLOSED) for each in texts)


if __name__ == "__main__":
    sys.stdout.write(schema_text())
