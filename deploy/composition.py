"""Parses compose.yaml, the files beside it and the Dockerfile: services, ports, volumes."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

HERE = Path(__file__).parent
COMPOSE, AVRO, CLUSTER, DOCKERFILE = (
    HERE / name
    for name in ("compose.yaml", "compose.avro.yaml", "compose.cluster.yaml", "Dockerfile")
)
OURS, REGISTRY = "streamfilter:demo", "apicurio/"
UNCHECKED = ["NONE"]
"""The health check of a service without one; it disables the image's health check."""


@dataclass(frozen=True, slots=True)
class Service:
    """The settings of one container in compose.yaml."""

    name: str
    image: str
    command: tuple[str, ...]
    environment: Mapping[str, str]
    volumes: tuple[tuple[str, str], ...]
    """(source, path in the container)."""
    published: Mapping[int, int]
    """Loopback port by port in the container."""
    once: bool
    """True: other services wait until it has ended with exit code 0."""
    waits_for: Mapping[str, str]
    """Service → the condition that it must reach first."""
    checked: bool
    """Whether it has a health check."""


def services(*, avro: bool = False, cluster: bool = False) -> dict[str, Service]:
    """Return the services of compose.yaml by name, with other files merged into them.

    *avro* is compose.avro.yaml, *cluster* is compose.cluster.yaml.
    """
    raw = _raw(COMPOSE)
    beside = [path for path, asked in ((AVRO, avro), (CLUSTER, cluster)) if asked]
    for name, more in (each for path in beside for each in _raw(path).items()):
        raw[name] = _laid_over(raw.get(name, {}), more)
    waited_for = {
        name
        for each in raw.values()
        for name, how in each.get("depends_on", {}).items()
        if how["condition"] == "service_completed_successfully"
    }
    return {name: _service(name, each, name in waited_for) for name, each in raw.items()}


def _laid_over(given: dict[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Return a service merged as Compose does: mappings in both files are combined."""
    both = {
        key: {**given[key], **value}
        for key, value in more.items()
        if isinstance(value, dict) and isinstance(given.get(key), dict)
    }
    return {**given, **more, **both}


def _raw(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))["services"]
    return found


def _service(name: str, raw: Mapping[str, Any], once: bool) -> Service:
    ports = [port.split(":") for port in raw.get("ports", ())]
    command = raw.get("command", ())
    return Service(
        name,
        raw["image"],
        tuple(shlex.split(command) if isinstance(command, str) else command),
        {key: str(value) for key, value in raw.get("environment", {}).items()},
        tuple((volume.split(":")[0], volume.split(":")[1]) for volume in raw.get("volumes", ())),
        {int(inside): int(outside) for _, outside, inside in ports},
        once,
        {name: how["condition"] for name, how in raw.get("depends_on", {}).items()},
        raw.get("healthcheck", {}).get("test", UNCHECKED) != UNCHECKED,
    )


def image_environment() -> dict[str, str]:
    """Return the STREAMFILTER_* variables that the Dockerfile sets in the image."""
    return dict(re.findall(r"(STREAMFILTER_\w+)=(\S+)", DOCKERFILE.read_text(encoding="utf-8")))
