"""Bugs planted into the life of an index: what is corrected, sent back and copied."""

from typing import Any

import pytest

from streamfilter.engine import transactor
from streamfilter.engine.batches import seeding
from streamfilter.matching.blocking.retention import Retention
from streamfilter.matching.verdict.side_records import ATTEMPTS
from streamfilter.tasks.index_backups import IndexBackups
from tests.simulator import chapters
from tests.simulator.cluster.log import CHANGELOG
from tests.simulator.life import backups, corrections
from tests.simulator.planted_runs import CALM, only_in_worlds
from tests.support.values import replace

BUSY: dict[str, Any] = {
    "rates": {**CALM, "pause": 0.03, "crash": 0.03, "late_markers": 0.5},
    "tasks": 1,
}
"""A world in which people are killed, and others begin meanwhile."""


def two_releases_do_not_fence_each_other(patch: pytest.MonkeyPatch) -> None:
    """Each person's producer has an id of its own: both read that no note is there yet."""
    real = corrections.People._correct

    def correct(self: Any, *args: Any) -> Any:
        with pytest.MonkeyPatch.context() as now:
            now.setattr(corrections, "TID", f"corrections {self._count}")
            return real(self, *args)

    patch.setattr(corrections.People, "_correct", correct)
    only_in_worlds(patch, **BUSY, corrections="release", documents=16, steps=80)


def notes_are_read_up_to_what_is_stable(patch: pytest.MonkeyPatch) -> None:
    """A note behind the service's open transaction is not seen, and its record goes again."""
    real = corrections.SimSideTopic.bounds

    def bounds(self: Any) -> Any:
        partitions = self._world.broker.topics[self._topic]
        return {
            p: (start, partitions[p].stable) for p, (start, _) in real(self).items()
        }  # fmt: skip

    patch.setattr(corrections.SimSideTopic, "bounds", bounds)
    late = {**BUSY, "rates": {**BUSY["rates"], "late_markers": 0.95}}
    only_in_worlds(patch, **late, corrections="release", documents=16, steps=160)


def a_letter_that_came_back_is_read_again(patch: pytest.MonkeyPatch) -> None:
    """The header of attempts is taken for the sign of a record that was judged before."""
    real = transactor.accept

    def accept(known: Any, records: Any) -> Any:
        found = real(known, records)
        back = [each for each in found.new if ATTEMPTS in dict(each.headers)]
        new = [each for each in found.new if ATTEMPTS not in dict(each.headers)]
        return replace(found, new=new, reread=[*found.reread, *back])

    patch.setattr(transactor, "accept", accept)
    only_in_worlds(patch, rates=CALM, tasks=1, corrections="both", documents=16, steps=80)


def a_backup_ahead_of_the_changelog_is_chosen(patch: pytest.MonkeyPatch) -> None:
    """The newest backup is restored, whatever the changelog holds."""

    def fits(self: Any, *args: Any) -> Any:
        return True
        yield

    patch.setattr(IndexBackups, "_unfit", lambda self, *args: "")
    patch.setattr(IndexBackups, "_is_in", fits)

    def chapter(story: Any) -> None:
        story.all_down()
        if CHANGELOG in story.world.broker.topics:
            backups.cluster_set_back(story)

    patch.setattr(chapters, "next_one", chapter)
    only_in_worlds(patch, rates=CALM, tasks=1, corrections="", backups=True, documents=16)


def old_lines_of_a_seed_are_added(patch: pytest.MonkeyPatch) -> None:
    """A document of a seed that is older than the retention is added as if it were new."""
    patch.setattr(seeding.SeedSource, "_recent", lambda self, records: records)
    shape = {"retentions": (Retention(time=1_000),), "tasks": 1, "digests": (), "dated": True}
    only_in_worlds(patch, rates=CALM, seeds=4, thin=None, **shape)


def passed_lines_of_a_seed_are_not_noted(patch: pytest.MonkeyPatch) -> None:
    """Old lines alone make no batch with records, and the header stays where it was."""
    real = transactor.Transactor._commit_idle

    def commit_idle(self: Any) -> Any:
        with pytest.MonkeyPatch.context() as now:
            now.setattr(transactor.Transactor, "_header_of", lambda self, opens, positions: None)
            return real(self)

    patch.setattr(transactor.Transactor, "_commit_idle", commit_idle)
    shape = {"retentions": (Retention(time=1_000),), "tasks": 1, "digests": (), "dated": True}
    only_in_worlds(patch, rates={**CALM, "hour": 0.1}, seeds=9, thin=None, **shape)


PLANTED_LIFE = (
    (old_lines_of_a_seed_are_added, "changelog", 1),
    (passed_lines_of_a_seed_are_not_noted, "changelog", 4),
    (a_backup_ahead_of_the_changelog_is_chosen, "stop", 16),
    (two_releases_do_not_fence_each_other, "released", 15),
    (notes_are_read_up_to_what_is_stable, "released", 5),
    (a_letter_that_came_back_is_read_again, "stop", 0),
)
