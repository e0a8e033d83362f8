import json
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from streamfilter.cli import main


@pytest.fixture(autouse=True)
def heeded() -> Iterator[None]:
    """Let SIGINT mean something: a shell ignores it for what it starts in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@dataclass
class Desk:
    """A directory with a filter in it; the seed is fixed, so that runs can be compared."""

    path: Path

    def run(self, *inputs: str | Path, state: str | None = None, **options: Any) -> int:
        return main(self.arguments(*inputs, state=state, **options))

    def arguments(
        self,
        *inputs: str | Path,
        state: str | None = None,
        dead_letter: bool = True,
        **options: Any,
    ) -> list[str]:
        arguments = ["filter", *map(str, inputs), "--set", f"index.seed_file={self.seed}"]
        arguments += ["--unique", str(self.unique), "--duplicates", str(self.duplicates)]
        if dead_letter:
            arguments += ["--dead-letter", str(self.dead)]
        if state is not None:
            arguments += ["--state", str(self.path / state)]
        for name, value in options.items():
            arguments += [f"--{name.replace('_', '-')}", str(value)]
        return arguments

    @property
    def seed(self) -> Path:
        path = self.path / "seed"
        path.write_bytes(b"a seed that tests share")
        return path

    @property
    def unique(self) -> Path:
        return self.path / "unique"

    @property
    def duplicates(self) -> Path:
        return self.path / "duplicates"

    @property
    def dead(self) -> Path:
        return self.path / "dead"

    @property
    def outputs(self) -> tuple[bytes, ...]:
        return tuple(p.read_bytes() for p in (self.unique, self.duplicates, self.dead))

    def clear(self) -> None:
        for path in (self.unique, self.duplicates, self.dead):
            path.unlink(missing_ok=True)

    def records(self, path: Path) -> list[dict[str, Any]]:
        return [json.loads(line) for line in path.read_bytes().splitlines()]


@pytest.fixture
def desk(tmp_path: Path, no_settings: None) -> Desk:
    return Desk(tmp_path)
