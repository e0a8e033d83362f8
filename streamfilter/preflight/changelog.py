"""The changelog check of an index that forgets (`check --connect`): is it cut off, and where.

The brokers report its start and our rights on it. The index in this host's directory shows from
which offset on it is needed. This check cuts off nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from streamfilter.config.configuration import Config
from streamfilter.index.directory.index_paths import index_of
from streamfilter.index.directory.read_only_view import viewed
from streamfilter.index.directory.seed_file import seed_at
from streamfilter.index.errors import IndexFault
from streamfilter.stops import Problem


@dataclass(frozen=True, slots=True)
class Kept:
    """The offsets of one partition of the changelog."""

    changelog: str
    start: int
    end: int
    needed: int | None
    """First offset that this host's index needs; None: no index, or it cannot be read."""

    def __str__(self) -> str:
        """Return it for people."""
        keeps = f"{self.changelog} keeps the offsets {self.start} to {self.end}"
        if self.needed is None:
            return f"{keeps}; this host has no index that shows which of them are needed"
        if self.needed <= self.start:
            return f"{keeps}; all belong to windows that still exist"
        return f"{keeps}; those before {self.needed} belong to dropped windows and are cut off"


def check_changelog(config: Config) -> tuple[list[Problem], list[Kept]]:
    """Return what is wrong with cutting it off, and what each partition holds.

    Raises `Stop`: the cluster does not answer (`Temporary`), or refuses us.
    """
    from streamfilter.kafka.brokers import changelog_topic, topics
    from streamfilter.kafka.connection.clients import admin_client

    admin = admin_client(config)
    found = topics.described(config, admin)
    changelog = found.get(config.changelog_topic)
    if changelog is None or not topics.inputs_of(config, found):
        return [], []
    layout, name = topics.layout_of(config, found), config.changelog_topic
    used = min(changelog.partitions, layout.tasks)
    bounds = changelog_topic.changelog_bounds(config, admin, used)
    kept = [
        Kept(f"{name}/{task}", each.start, each.end, _needed(config, task, layout.whole))
        for task, each in enumerate(bounds)
    ]
    return changelog_topic.warnings_of_rights(config, admin), kept


def _needed(config: Config, task: int, whole: bool) -> int | None:
    index = config.index
    path = index_of(index.path, task, whole=whole)
    try:
        with viewed(path, seed=seed_at(index.seed_file)) as view:
            return view.windows[0].offset
    except IndexFault:
        return None
