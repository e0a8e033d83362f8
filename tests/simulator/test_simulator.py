import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, date, datetime
from typing import Any

import pytest

from streamfilter.matching.blocking import forgetting
from streamfilter.matching.blocking.retention import UNLIMITED
from tests.simulator.story import Result, run
from tests.simulator.world import World

QUICK, FIRST = 10, 100
"""Stories of the inner loop and of CI, from seed 0 on. A story takes about .15 s."""
RARE = (
    358, 257, 329, 258, 583, 533, 501, 277, 555, 234, 463, 434, 281, 364,
    487, 549, 566, 587, 483, 297, 528, 317, 236,
)  # fmt: skip
"""Seeds whose stories together have all of `SEEN`: CI runs them, too."""
RARE_MAX = 600
"""Further seeds up to this one are tried until every event was seen."""
PARTS = (12, 28, 71, 89, 148, 151, 153, 173, 181, 185, 189, 208)
"""Seeds in which a batch ends early, or forgets in parts, if each forgets one document at most."""
SHELF, SHELVES = 500, 23
"""Stories of a test of the long run, and how many such tests there are. `python -m tests.simulator`
runs any range."""
DAILY = 30
"""Stories that no one has run before, in every run of a day."""


def of_today() -> range:
    """Return the seeds of this day (UTC)."""
    first = (datetime.now(UTC).date() - date(2026, 1, 1)).days * DAILY + 1_000_000
    return range(first, first + DAILY)


@pytest.mark.parametrize(
    "seeds", [range(QUICK), pytest.param(range(QUICK, FIRST), marks=pytest.mark.slow(20))], ids=str
)
def test_all_is_well_in_the_first_stories(seeds):
    failed = Stories(seeds).failed
    assert not failed, failed[0].text()


@pytest.mark.slow
def test_a_batch_that_would_forget_too_much_ends_before_it_does(monkeypatch):
    """A tombstone that names more forgets its documents in parts, each in a transaction."""
    events: Counter[str] = Counter()
    of = forgetting.Forgetting.of

    def watched(*args: Any, **more: Any) -> Any:
        try:
            asked = of(*args, **more)
        except forgetting.CutBatch as cut:
            events["a batch ends early" if cut.records else "a part is forgotten"] += 1
            raise
        return asked

    monkeypatch.setattr(forgetting, "FORGET_MAX", 1)
    monkeypatch.setattr(forgetting.Forgetting, "of", watched)
    # Without a retention: the model does not know when those behind the horizon left the disk.
    shapes = [World(seed).shape for seed in PARTS]
    assert all(each.forgets and each.retentions == (UNLIMITED,) for each in shapes)
    failed = Stories(PARTS).failed
    assert not failed, failed[0].text()
    assert min(events["a batch ends early"], events["a part is forgotten"]) > 5, events


@pytest.mark.slow(10)
def test_nothing_is_lost_doubled_or_misjudged_in_any_story():
    """A simulator that has stopped to simulate something finds nothing in it: all is seen."""
    stories = Stories(RARE)
    further = iter(range(FIRST, RARE_MAX))
    while stories.unseen() and (seed := next(further, None)):
        print(f"seed {seed}, for {stories.unseen()}")
        stories.run(seed)
    assert not stories.failed, stories.failed[0].text()
    assert not stories.unseen(), stories.seen


@pytest.mark.long
@pytest.mark.parametrize("first", range(FIRST, FIRST + SHELVES * SHELF, SHELF))
def test_nor_in_the_stories_of_a_shelf(first):
    stories = Stories(range(first, first + SHELF))
    assert not stories.failed, stories.failed[0].text()
    assert stories.seen[RETURN] > 5


@pytest.mark.slow(10)
def test_nothing_is_lost_doubled_or_misjudged_in_the_stories_of_the_day():
    """A failure is a fault that no run has met yet, not chance: its seed fails on any other day."""
    seeds = of_today()
    again = f"python -m tests.simulator --seeds {seeds.start}:{seeds.stop}"
    print(again)
    failed = Stories(seeds).failed
    assert not failed, f"{again}\n{failed[0].text()}"


@pytest.mark.slow
def test_a_seed_is_the_same_story_in_another_process():
    """Neither the order of sets nor what ran before may matter: a failing seed must come back."""
    seeds = range(3_010, 3_014)
    command = [sys.executable, "-m", "tests.simulator", "--seeds", "3010:3014", "--story"]
    environment = os.environ | {"PYTHONHASHSEED": "4711"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    told = done.stdout.rpartition("\nseeds ")[0]
    assert told == "\n".join(run(seed, trace=True).text() for seed in seeds)


RETURN = "a task that was lost comes back to the same process"
SEEN = {
    "a crash": "CRASHES before",
    "a crash inside the index's write": "CRASHES before index.apply",
    "a crash between the commit and its answer": "CRASHES before commit\n",
    "a crash in a restore": "CRASHES before reader.read",
    "a crash while closing": "CRASHES before membership.close",
    "a pause in the middle of a transaction": "is paused before send_offsets",
    "a standby that takes over with what it has read": "takes over with an index at",
    "a zombie that was fenced": "exits with 76",
    "a place that was lost": "learns that it lost its place",
    "a commit without an answer": "commit: reply lost",
    "a commit that failed and was done": "commit: fails for good, done",
    "a commit that failed and was not done": "commit: fails for good, not done",
    "a late end of a transaction": "a late EndTxn",
    "a transaction that was too old": "'s transaction: too old",
    "a stranger's open transaction": "squatter opens a transaction on changelog",
    "records that an output refuses": "are refused, and watched",
    "a batch too large for the line": "records do not pass in time",
    "a full disk": "the disk is full",
    "a full disk at an opening": "the disk is full at an opening",
    "a takeover of what a standby could not write": "reads again what found no room",
    "a crash while a run is written": "CRASHES writing a run",
    "a crash while runs are merged": "CRASHES merging runs",
    "a crash while a window begins": ": create bands-",
    "a crash while a window goes": ": drop bands-",
    "a full disk while a run is written": "the disk is full, writing a run",
    "a full disk while runs are merged": "the disk is full, merging runs",
    "a window that goes while its runs are merged": "drops a window whose runs are being merged",
    "a bucket that splits": "goes on under",
    "a bucket that splits twice": "under a key of the second split",
    "a broken block": "reads a broken block",
    "a power cut": "loses the last",
    "a directory that was deleted": ": deleted",
    "a directory that was damaged": "removed and restored",
    "a rewind": "moves the group on",
    "expired offsets": "deletes the group's offsets",
    "accepted positions": "as accepted",
    "an idle hour": "an hour passes",
    "a new partition": "adds partition",
    "a new partition under an owner": "begins again: topics have more partitions",
    "a partition that a broker has not heard of": "brokers do not know yet of",
    "a new partition of the changelog": "adds a partition to the changelog",
    "a deleted changelog": "The changelog topic is deleted",
    "a recreated changelog": "deleted, and created again",
    "a shortened changelog": "The changelog loses its end. ",
    "an index ahead of it": "rewound to hide it",
    "another's changelog": "becomes that of another index",
    "another group's changelog": "becomes that of another group",
    "a changelog of other buckets": "becomes that of an index with another bucket_cap",
    "a changelog that another group writes": "Another group writes to the changelog",
    "a next batch that another group wrote": "Another group commits the changelog's very next",
    "a changelog without its beginning": "deletes the changelog before",
    "a rewritten changelog": "The changelog is written anew, and says a little else",
    "a changelog that is written anew": "the changelog is written anew, and whole",
    "a recreated input": "The input is deleted",
    "retention that passed us": "Retention removes input",
    "retention behind us": "removes all of the input, which was judged",
    "a group that was skipped": "Someone moves the group forward",
    "a seed's line that is too old": "lines are too old",
    "a backup": "has a backup at",
    "a backup that a kill ends": "CRASHES before backup.put",
    "a kill between the manifest and its check": "CRASHES before backup.listing",
    "a store that fails": "the store fails at put",
    "a restore from a backup": "restores a backup at",
    "no room for a backup": "has no room for a backup",
    "brokers that lost what backups have": "and all that was committed with it",
    "a release": "records, as it releases",
    "a release that is killed": "is killed while it releases",
    "two releases at once": "releases, beside another",
    "a release that is fenced": "ends: ",
    "dead letters that come back": "records, as it replays",
    "a replay that is killed": "is killed while it replays",
}


class Stories:
    """Seeds, each run once."""

    def __init__(self, seeds: Iterable[int]) -> None:
        self.failed: list[Result] = []
        self.seen: Counter[str] = Counter()
        for seed in seeds:
            self.run(seed)

    def run(self, seed: int) -> None:
        result = run(seed)
        text = result.text()
        self.seen.update(event for event, words in SEEN.items() if words in text)
        self.seen[RETURN] += returns(result)
        if result.failure:
            self.failed.append(result)

    def unseen(self) -> set[str]:
        return {event for event in (*SEEN, RETURN) if not self.seen[event]}


def returns(result: Result) -> bool:
    """Return True if one life of a process lost a task, another worked, and it came back."""
    owners = [who for _, who, what in result.story if what == "group.0: committed"]
    changes = [who for i, who in enumerate(owners) if i == 0 or owners[i - 1] != who]
    return any(changes[i] == changes[i - 2] for i in range(2, len(changes)))
