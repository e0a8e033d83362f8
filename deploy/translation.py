"""Translates addresses, paths and mounted files of the containers to those of one machine."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from deploy.composition import HERE, Service


@dataclass(frozen=True, slots=True)
class Translation:
    """Maps addresses and paths in containers to those on this machine.

    Example: with ``{("kafka", 9092): 20001}``, the text ``kafka:9092`` becomes ``127.0.0.1:20001``.
    """

    directory: Path
    """All written files are below it: volumes, and copies of mounted files."""
    addresses: Mapping[tuple[str, int], int]
    """Loopback port by (service, port in the container)."""
    replacing: Mapping[str, str] = field(default_factory=dict)
    """Texts to replace in the mounted files, for example a shorter interval in a test."""

    def of(self, text: str, service: Service) -> str:
        """Return an argument or a value of *service* with this machine's addresses and paths."""
        text = self._addressed(text)
        for source, inside in service.volumes:
            place = str(self._place(source))
            text = re.sub(rf"(?<![\w.]){re.escape(inside)}(?![\w-])", place, text)
        return text.replace("0.0.0.0", "127.0.0.1")

    def _addressed(self, text: str) -> str:
        for (name, port), here in self.addresses.items():
            text = re.sub(rf"(?<![\w-]){name}:{port}\b", f"127.0.0.1:{here}", text)
        return text

    def _place(self, source: str) -> Path:
        """Return a volume's path: its own directory, or a translated copy of the mounted files."""
        if not source.startswith("."):
            (volume := self.directory / "volumes" / source).mkdir(parents=True, exist_ok=True)
            return volume
        original, copy = HERE / source, self.directory / "files" / source
        for path in original.rglob("*") if original.is_dir() else [original]:
            if path.is_file():
                self._copy(path, copy / path.relative_to(original))
        return copy

    def _copy(self, path: Path, to: Path) -> None:
        text = self._addressed(path.read_text(encoding="utf-8"))
        for old, new in self.replacing.items():
            text = text.replace(old, new)
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_text(text, encoding="utf-8")
