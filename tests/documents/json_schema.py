"""As much of JSON Schema as the envelope's schema uses: a checker for tests, nothing more."""

import re
from typing import Any

TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}
KNOWN = {
    "$schema", "$id", "$defs", "$ref", "title", "description", "type", "required", "properties",
    "const", "enum", "items", "allOf", "if", "then", "else", "dependentRequired", "pattern",
    "minimum", "maximum", "exclusiveMinimum",
}  # fmt: skip


def violations(value: Any, schema: dict[str, Any], root: dict[str, Any], at: str = "") -> list[str]:
    """Return where *value* breaks *schema*; a keyword that is not known here is an error."""
    assert schema.keys() <= KNOWN, schema.keys() - KNOWN
    found = [f"{at}: {trouble}" for trouble in _own(value, schema)]
    for other in _implied(value, schema, root):
        found += violations(value, other, root, at)
    if isinstance(value, dict):
        for key, inner in schema.get("properties", {}).items():
            if key in value:
                found += violations(value[key], inner, root, f"{at}/{key}")
    if isinstance(value, list) and "items" in schema:
        for number, item in enumerate(value):
            found += violations(item, schema["items"], root, f"{at}/{number}")
    return found


def _implied(value: Any, schema: dict[str, Any], root: dict[str, Any]) -> list[dict[str, Any]]:
    implied = list(schema.get("allOf", []))
    if "$ref" in schema:
        implied.append(root["$defs"][schema["$ref"].removeprefix("#/$defs/")])
    if "if" in schema:
        implied.append(schema["else" if violations(value, schema["if"], root) else "then"])
    return implied


def _own(value: Any, schema: dict[str, Any]) -> list[str]:
    troubles = []
    types = schema.get("type", [])
    if types and not any(
        _is(value, each) for each in ([types] if isinstance(types, str) else types)
    ):
        troubles.append(f"not {types}")
    if "const" in schema and value != schema["const"]:
        troubles.append(f"not {schema['const']!r}")
    if "enum" in schema and value not in schema["enum"]:
        troubles.append(f"{value!r} not in {schema['enum']}")
    if isinstance(value, dict):
        troubles += [f"no {key}" for key in schema.get("required", []) if key not in value]
        for key, needed in schema.get("dependentRequired", {}).items():
            troubles += [
                f"{key} without {each}" for each in needed if key in value and each not in value
            ]
    if isinstance(value, str) and "pattern" in schema and not re.search(schema["pattern"], value):
        troubles.append(f"{value!r} does not match")
    if _is(value, "number"):
        low, high = schema.get("minimum", value), schema.get("maximum", value)
        if not low <= value <= high or not schema.get("exclusiveMinimum", value - 1) < value:
            troubles.append(f"{value} out of bounds")
    return troubles


def _is(value: Any, name: str) -> bool:
    if name in ("number", "integer"):
        numbers = (int,) if name == "integer" else (int, float)
        return isinstance(value, numbers) and not isinstance(value, bool)
    return isinstance(value, TYPES[name])
