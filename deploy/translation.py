"""From the world of containers to one machine: addresses, paths, and copies of what they mount."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from deploy.composition import HERE, Service


@dataclass(frozen=True, slots=True)
class Translation:
    """Where things inside of containers are on this machine."""

    directory: Path
    """Everything that is written, volumes and copies, is below it."""
    addresses: Mapping[tuple[str, int], int]
    """Loopback port by (service, port inside)."""
    replacing: Mapping[str, str] = field(default_factory=dict)
    """Texts of the mounted files to replace: a test's shorter clock."""

    def of(self, text: str, service: Service) -> str:
        """Return an argument or a value of *service* with addresses and paths as they are here."""
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
        """Return where a volume is: a directory of its own, or a translated copy of our files."""
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
