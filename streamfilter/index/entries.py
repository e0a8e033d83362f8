"""What one write to the database holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(slots=True)
class Entries:
    """What one atomic write puts and deletes, family by family, best in rising order of keys."""

    keys: dict[str, list[bytes]] = field(default_factory=dict)
    values: dict[str, list[bytes]] = field(default_factory=dict)
    deleted: dict[str, list[bytes]] = field(default_factory=dict)

    def put(self, family: str, keys: Sequence[bytes], values: Sequence[bytes]) -> None:
        """Add entries of *family*."""
        self.keys.setdefault(family, []).extend(keys)
        self.values.setdefault(family, []).extend(values)

    def delete(self, family: str, keys: Sequence[bytes]) -> None:
        """Delete *keys* of *family*, none of which is also put; absent ones do no harm."""
        self.deleted.setdefault(family, []).extend(keys)
