"""The table of sources: gives every input of a state directory a number.

The index stores a source as (partition, offset). For files the partition is the input's number in
this table. The table is written before a new input enters the index, so it is never behind.

It also stores a digest of the judged lines. A changed file would be re-read as if it were the old
one, so it is refused.
"""

import json
from pathlib import Path

from msgspec import Struct, to_builtins

from streamfilter.index.directory.lock_and_marker import write_whole
from streamfilter.index.errors import file_errors
from streamfilter.model import Origins
from streamfilter.stops import SchemeMismatch

FILE = "sources.json"
VERSION = 1


class Known(Struct, frozen=True):
    """One input, as far as it was read by runs that were not killed."""

    name: str
    lines: int = 0
    digest: str = ""  # of its first ``lines`` lines: XXH3-128; of earlier versions BLAKE2b-128


class Sources:
    """The table of one state directory; without a directory it lasts for this run only."""

    def __init__(self, directory: Path | None) -> None:
        """Read the table, or raise `SchemeMismatch`."""
        self._path = None if directory is None else directory / FILE
        self._known: list[Known] = []
        if self._path is not None and self._path.exists():
            self._known = _read(self._path)
        self._names = {number: known.name for number, known in enumerate(self._known)}
        self.origins = Origins(names=self._names)

    @property
    def kept(self) -> bool:
        """Return whether the table is stored for later runs."""
        return self._path is not None

    def __len__(self) -> int:
        return len(self._known)

    def number_of(self, name: str) -> int:
        """Return the number of the input *name*; a new input is first added to the stored table."""
        for number, known in enumerate(self._known):
            if known.name == name:
                return number
        number = len(self._known)
        self._known.append(Known(name))
        self._names[number] = name
        self._write()
        return number

    def known(self, number: int) -> Known:
        return self._known[number]

    def remember(self, number: int, *, lines: int, digest: str) -> None:
        """Store how far the input was read, unless the table already has more lines."""
        known = self._known[number]
        if lines > known.lines:
            self._known[number] = Known(known.name, lines, digest)
            self._write()

    def _write(self) -> None:
        if self._path is None:
            return
        table = {"version": VERSION, "sources": [to_builtins(known) for known in self._known]}
        with file_errors(self._path):
            write_whole(self._path, [json.dumps(table, ensure_ascii=False, indent=1).encode()])


def _read(path: Path) -> list[Known]:
    try:
        table = json.loads(path.read_text(encoding="utf-8"))
        if table["version"] != VERSION:
            raise SchemeMismatch(
                f"{path} has version {table['version']}, this program knows {VERSION}; "
                "use the program that wrote it, or another --state directory"
            )
        return [Known(**known) for known in table["sources"]]
    except (ValueError, KeyError, TypeError) as error:
        raise SchemeMismatch(
            f"{path} is damaged ({type(error).__name__}); remove the state directory and run again"
        ) from None
