"""Reads the configuration from files, environment and command line at once.

``load_config`` returns a frozen `Config` or raises one `ConfigError` with every problem that
could be found. Precedence: defaults < files in their order < environment < overrides.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from streamfilter.config.checks import check_meaning
from streamfilter.config.configuration import Config
from streamfilter.config.problems import explain, without
from streamfilter.config.sources import RawSettings, read_settings
from streamfilter.stops import ConfigError, Problem


@dataclass(frozen=True, slots=True)
class Reading:
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
