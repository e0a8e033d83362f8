"""Reads the configuration from files, environment and command line at once.

``load_config`` returns a frozen `Config` or raises one `ConfigError` with every problem that
could be found. Precedence: defaults < files in their order < environment < overrides.

Every source gives plain nested mappings, which are laid over each other; only the result is
validated. A source that is wrong is a problem like any other: it never stops the reading of the
next one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from pydantic import SecretStr, ValidationError

from streamfilter.config.checks import check_meaning
from streamfilter.config.configuration import Config
from streamfilter.config.problems import did_you_mean, explain, kind_of, without
from streamfilter.stops import ConfigError, Problem

PREFIX = "STREAMFILTER_"
SECRET_FILE_BYTES_MAX = 1 << 16

# Kubernetes sets the first two for a service that is called like us; the rest is our own.
_NO_SETTING = re.compile(r"SERVICE_(HOST|PORT)(_.*)?|PORT(_\d+_.*)?|CONFIG|KILL.*|TEST.*")
_REFERENCE = re.compile(r"\$\$\{|\$\{([^}]*)\}")
_VARIABLE = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?", re.DOTALL)
_MAPS = ("common", "consumer", "producer")
_SECTIONS = tuple(Config.model_fields)

Paths = dict[tuple[str, ...], str]


class RawSettings(Struct):
    """The merged settings of all sources."""

    values: dict[str, Any] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    spelled: Paths = field(default_factory=dict)
    """Path of each value that held a ``${…}`` → how it was written."""


def literal(text: str) -> str:
    """Return how a setting spells *text* so that it means itself: ``${…}`` in it is none."""
    return text.replace("${", "$${")


def read_settings(
    files: Sequence[Path], environment: Mapping[str, str], overrides: Sequence[str]
) -> RawSettings:
    """Return the settings of all sources, later ones over earlier ones, references filled in."""
    settings = RawSettings()
    layers = [_file(path, settings.problems) for path in files]
    layers += _environment(environment, settings.problems)
    layers += _overrides(overrides, settings.problems)
    for layer in layers:
        settings.values = overlay(settings.values, layer)
    settings.values = _fill(settings.values, (), environment, settings)
    return settings


def overlay(
    below: Mapping[str, Any], above: Mapping[str, Any], *, sections: bool = True
) -> dict[str, Any]:
    """Return *below* with *above* laid over it; mappings merge, all else replaces.

    An empty section (``consumer:`` with nothing behind it) reads as null and changes nothing. With
    *sections*, the keys are sections, and an empty mapping is such a one. Deeper, ``{}`` is a
    value: it replaces the mapping below it.
    """
    merged = dict(below)
    for key, value in above.items():
        under = merged.get(key)
        if isinstance(value, Mapping) and (value or sections):
            under = under if isinstance(under, Mapping) else {}
            merged[key] = overlay(under, value, sections=False)
        elif not (value is None and isinstance(under, Mapping)):
            merged[key] = value
    return merged


def _file(path: Path, problems: list[Problem]) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        problems.append(Problem(str(path), "no such file", "check the path after --config"))
        return {}
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        problems.append(Problem(str(path), reason, "give a readable YAML file"))
        return {}
    return _mapping(text, str(path), problems)


def _mapping(text: str, where: str, problems: list[Problem]) -> dict[str, Any]:
    value, mistake = _parsed(text)
    if mistake:
        cure = "repair the line; quote text that holds special characters, such as ${…} inside {…}"
        problems.append(Problem(where, mistake, cure))
        return {}
    if value is None:
        return {}
    if not isinstance(value, dict):
        problems.append(Problem(where, f"holds {kind_of(value)}", "write a mapping of keys"))
        return {}
    return {key: {} if each is None else each for key, each in value.items()}


def _parsed(text: str) -> tuple[Any, str]:
    """Return what *text* spells as YAML, and what is wrong with it, if anything is."""
    from streamfilter.config.yaml_file import YamlError, parse_yaml  # slow import: only for YAML

    try:
        return parse_yaml(text), ""
    except YamlError as error:
        return None, str(error)


def _environment(variables: Mapping[str, str], problems: list[Problem]) -> list[dict[str, Any]]:
    layers = []
    for name in sorted(variables):
        bare = name.removeprefix(PREFIX)
        if bare == name or ("__" not in bare and _NO_SETTING.fullmatch(bare)):
            continue
        path = _path_of_variable(bare)
        if path is None:
            cure = f"two underscores part section and key: {PREFIX}INPUT__TOPIC is input.topic"
            problems.append(Problem(name, "not the name of a setting", cure))
            continue
        layers.append(_layer(path, variables[name], name, problems))
    return layers


def _path_of_variable(bare: str) -> tuple[str, ...] | None:
    """``KAFKA__COMMON__SASL_PASSWORD`` → kafka, common, sasl.password."""
    path = bare.lower().split("__")
    if path[0] == "kafka" and len(path) > 2 and path[1] in _MAPS:
        path = [*path[:2], ".".join(path[2:]).replace("_", ".")]
    one_section = len(path) == 1 and path[0] in _SECTIONS
    return tuple(path) if all(path) and (len(path) > 1 or one_section) else None


def _overrides(overrides: Sequence[str], problems: list[Problem]) -> list[dict[str, Any]]:
    layers = []
    for number, override in enumerate(overrides, 1):
        key, equals, text = override.partition("=")
        path = _path_of_key(key.strip())
        if not equals or not all(path):
            # The text is not quoted: it may be a password that lost its key.
            cure = "write --set section.key=value, such as --set similarity.threshold=0.9"
            problems.append(Problem(f"--set number {number}", "not section.key=value", cure))
            continue
        layers.append(_layer(path, text, f"--set {key.strip()}", problems))
    return layers


def _path_of_key(key: str) -> tuple[str, ...]:
    """Split at the dots, but keep librdkafka's dotted names whole."""
    path = key.split(".")
    whole = path[0] == "kafka" and len(path) > 3 and path[1] in _MAPS
    return (*path[:2], ".".join(path[2:])) if whole else tuple(path)


def _layer(path: tuple[str, ...], text: str, where: str, problems: list[Problem]) -> dict[str, Any]:
    """Return *text* at *path*.

    Only what looks like a mapping, a quoted text or null is read as YAML. All else stays text
    and its setting reads it: a topic called 0815 or a password with a colon arrive unharmed. A
    property of librdkafka is always text.
    """
    value: Any = text
    if path[0] not in _SECTIONS:
        problems.append(Problem(where, f"unknown section {path[0]}",
                                did_you_mean(path[0], _SECTIONS)))  # fmt: skip
        return {}
    if not _plain_property(path) and (text.strip() in ("null", "~") or text[:1] in "{[\"'"):
        value, mistake = _parsed(text)
        if mistake:
            problems.append(Problem(where, mistake, "write a plain value, or one-line YAML"))
            return {}
    for key in reversed(path):
        value = {key: value}
    return dict(value)


def _plain_property(path: tuple[str, ...]) -> bool:
    return path[0] == "kafka" and len(path) == 3


def _fill(
    value: Any, path: tuple[str, ...], variables: Mapping[str, str], settings: RawSettings
) -> Any:
    """Return *value* with every ``${…}`` in its texts replaced."""
    if isinstance(value, Mapping):
        return {key: _fill(each, (*path, key), variables, settings) for key, each in value.items()}
    if not isinstance(value, str) or "${" not in value:
        return value

    def report(got: str, cure: str) -> str:
        settings.problems.append(Problem(".".join(path), got, cure))
        return ""

    settings.spelled[path] = value
    text = _REFERENCE.sub(lambda match: _resolve(match, variables, report), value)
    # A value from a file is a secret, whatever the property is called.
    return SecretStr(text) if "${file:" in value and _plain_property(path) else text


def _resolve(
    match: re.Match[str], variables: Mapping[str, str], report: Callable[[str, str], str]
) -> str:
    reference = match[1]
    if reference is None:
        return "${"  # written $${
    if reference.startswith("file:"):
        return _content(Path(reference.removeprefix("file:")), report)
    named = _VARIABLE.fullmatch(reference)
    if named is None:
        return report(
            "holds a ${…} that is no reference",
            "write ${VAR}, ${VAR:-default} or ${file:/path}; $${ stands for the plain characters",
        )
    name, default = named.groups()
    text = variables.get(name)
    if default is not None:
        return text or default  # as in a shell: ":-" also replaces an empty variable
    if text is None:
        return report(f"${{{name}}} is not set in the environment",
                      f"set {name}, or write ${{{name}:-default}}")  # fmt: skip
    return text


def _content(path: Path, report: Callable[[str, str], str]) -> str:
    """Return the file's text without its last line break."""
    cure = "give a readable text file, such as ${file:/run/secrets/password}"
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(SECRET_FILE_BYTES_MAX + 1)
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        return report(f"cannot read {path}: {reason}", cure)
    if len(text) > SECRET_FILE_BYTES_MAX:
        return report(f"{path} is longer than {SECRET_FILE_BYTES_MAX} bytes", cure)
    return text.rstrip("\r\n")


class Reading(Struct, frozen=True):
    """A configuration as far as it could be read, and everything wrong with it."""

    config: Config  # where a setting was wrong, it has its default
    problems: tuple[Problem, ...]


def read_config(
    files: Sequence[Path] = (),
    environment: Mapping[str, str] | None = None,
    overrides: Sequence[str] = (),
) -> Reading:
    """Read and validate; return what could be read with all problems. Never raises for them."""
    settings = read_settings(files, os.environ if environment is None else environment, overrides)
    problems = list(settings.problems)
    config, broken = _validate(settings, problems)
    problems += check_meaning(config, broken)
    return Reading(config, tuple(dict.fromkeys(problems)))


def load_config(
    files: Sequence[Path] = (),
    environment: Mapping[str, str] | None = None,
    overrides: Sequence[str] = (),
) -> Config:
    """Return the configuration, or raise `ConfigError` with every problem found.

    Later *files* win; *overrides* are ``section.key=value`` each, and win over the *environment*.
    """
    reading = read_config(files, environment, overrides)
    if reading.problems:
        raise ConfigError(reading.problems)
    return reading.config


def _validate(settings: RawSettings, problems: list[Problem]) -> tuple[Config, set[str]]:
    """Return the configuration without its broken settings, and the paths of those."""
    values: dict[str, Any] = settings.values
    broken = {each.key for each in problems}
    try:
        return Config.model_validate(values), broken
    except ValidationError as error:
        found = explain(error, Config, settings.spelled)
    problems += [each.problem for each in found if each.problem.key not in broken]
    broken |= {each.problem.key for each in found}
    return Config.model_validate(without(values, [each.location for each in found])), broken
