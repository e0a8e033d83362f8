"""What an example of config/ finds on a labelled stream, by the labels alone."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

from streamfilter.config.boilerplate import KEY
from streamfilter.config.loading import load_config
from streamfilter.files.run import FileRun, filter_files
from streamfilter.quality.sample.boilerplate import boilerplate_of
from tests.recipes.streams import STREAMS
from tests.support.texts import ROOT

WITH_TABLE = ("web",)
"""Examples that need a table of boilerplate, made of the stream itself."""


@dataclass(frozen=True)
class Figures:
    """Counts of one run."""

    documents: int
    again: int
    """Documents whose story came before."""
    withheld: int
    rightly: int
    """Withheld documents whose best match tells the same story."""

    def __add__(self, other: Figures) -> Figures:
        """Return the counts of both runs together."""
        return Figures(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))

    @property
    def found(self) -> float:
        """Return the share of the repeated documents that was withheld rightly."""
        return self.rightly / max(self.again, 1)

    @property
    def right(self) -> float:
        """Return the share of the withheld documents that was withheld rightly."""
        return self.rightly / max(self.withheld, 1)


def measured(name: str, *, seed: int, stories: int, recipe: bool, **changes: str) -> Figures:
    """Filter the stream *name* with its example, or with the default settings."""
    example = ROOT / "config" / f"{name}.yaml"
    given = load_config([example], {}).input
    identity = (given.id or "/id").removeprefix("/")
    labels, records = zip(*STREAMS[name](seed, stories), strict=True)
    lines = [json.dumps({identity: f"{n}"} | each) for n, each in enumerate(records)]
    settings = dict(changes)
    if not recipe:
        settings |= {"input.text": given.text[0], "input.id": f"/{identity}"}
    with tempfile.TemporaryDirectory() as directory:
        if recipe and name in WITH_TABLE:
            settings[KEY] = str(_table(example, records, given.text[0], Path(directory, "table")))
        overrides = [f"{key}={value}" for key, value in settings.items()]
        config = load_config([example] if recipe else [], {}, overrides)
        source, unique, out = (Path(directory, each) for each in ("in.jsonl", "unique", "out"))
        source.write_text("\n".join(lines), encoding="utf-8")
        filter_files(config, FileRun([str(source)], str(unique), str(out), seed=bytes(16)))
        withheld = [*map(json.loads, out.read_bytes().splitlines())]

    def story(place: dict[str, Any]) -> str:
        return labels[int(place["offset"]) - 1]  # the line, from 1

    rightly = sum(story(each["matches"][0]) == story(each["source"]) for each in withheld)
    return Figures(len(labels), len(labels) - len(set(labels)), len(withheld), rightly)


def _table(example: Path, records: Sequence[dict[str, Any]], pointer: str, path: Path) -> Path:
    """Write the table of boilerplate of *records*, as `streamfilter boilerplate` does."""
    scheme = load_config([example], {}).scheme()
    texts = [each[pointer.removeprefix("/")] for each in records]
    found = boilerplate_of(
        texts, scheme, seed=bytes(16), share=0.001, at_least=10, threshold=0.8, compared=0
    )
    path.write_bytes(found.table.to_bytes())
    return path
