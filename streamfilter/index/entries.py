"""The entries of one write to the database."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(slots=True)
class Entries:
    """Puts and deletes of one atomic write, by family; rising order of keys is fastest."""

    keys: dict[str, list[bytes]] = field(default_factory=dict)
    values: dict[str, list[bytes]] = field(default_factory=dict)
    deleted: dict[str, list[bytes]] = field(default_factory=dict)

    def put(self, family: str, keys: Sequence[bytes], values: Sequence[bytes]) -> None:
        """Add entries of *family*."""
        self.keys.setdefault(family, []).extend(keys)
        self.values.setdefault(family, []).extend(values)

    def delete(self, family: str, keys: Sequence[bytes]) -> None:
        """Delete *keys* of *family*. Do not also put them. Absent keys do no harm."""
        self.deleted.setdefault(family, []).extend(keys)
