"""Bugs planted into the engine, to see that the oracle sees them. Each is a real one."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from streamfilter.documents import reader
from streamfilter.engine import start_checks, transaction, transactor, writer_check
from streamfilter.engine.batches import inputs, refusals, seeding
from streamfilter.engine.messages import changelog_header, forwarding
from streamfilter.engine.ports import Entry, Moves, Outgoing, Watermarks
from streamfilter.engine.task_position import TaskPosition
from streamfilter.index import input_table
from streamfilter.index.ages import Ages
from streamfilter.index.bands import bucket_overflow as longer
from streamfilter.index.bands import bucket_writes, buckets, page_writes
from streamfilter.index.errors import DiskFull, IndexMismatch
from streamfilter.index.protocol import Changes
from streamfilter.index.rocks.column_families import Families
from streamfilter.index.rocks.database import STAMP
from streamfilter.matching import batch
from streamfilter.matching.blocking import forgetting
from streamfilter.matching.blocking.forgetting import Forgetting, removals_of
from streamfilter.matching.blocking.retention import UNLIMITED, Retention
from streamfilter.matching.verdict import verification
from streamfilter.similarity.sketch import Sketcher, Sketches
from streamfilter.tasks import changelog_rewrite, index_storage, restore, standby, task, task_start
from streamfilter.workers import crew
from tests.simulator import chapters, world
from tests.simulator.cluster.log import CHANGELOG, SimChangelog, SimReader, SimSource
from tests.simulator.disk import SimIndex
from tests.simulator.life.planted import PLANTED_LIFE
from tests.simulator.oracle import Watcher
from tests.simulator.planted_runs import CALM, PLANTED_RUNS, only_in_worlds
from tests.simulator.story import Planted
from tests.simulator.texts import SCHEME, SEED, keys_of
from tests.support.values import replace

FORGETFUL = {"cap": 1, "retentions": (Retention(documents=2, least=100),), "forgets": 0.0}
"""A world in which texts come again, forgotten, while those before are still stored."""


def no_as_of_rule(patch: pytest.MonkeyPatch) -> None:
    """A record that is read again meets whatever the index holds by now."""
    real = transactor.decide

    def decide(*args: Any, reread: bool, **kwargs: Any) -> Any:
        return real(*args, reread=False, **kwargs)

    patch.setattr(transactor, "decide", decide)


def index_written_before_the_commit(patch: pytest.MonkeyPatch) -> None:
    """Step 13 comes before step 12."""
    real_send, real_init = transaction.Transactions._send, transactor.Transactor.__init__

    def init(self: Any, parts: Any, index: Any, *rest: Any) -> None:
        real_init(self, parts, index, *rest)
        self._transactions.index = index

    def send(self: Any, load: Any, *rest: Any) -> int:
        offset = real_send(self, load, *rest)
        if load.update is not None:
            with suppress(DiskFull):
                self.index.apply(load.update.changes(offset))
        return offset

    patch.setattr(transactor.Transactor, "__init__", init)
    patch.setattr(transaction.Transactions, "_send", send)


def no_restore(patch: pytest.MonkeyPatch) -> None:
    """The changelog's positions are taken over, its documents are not."""
    patch.setattr(restore.Replay, "_additions", lambda self, offset: None)


def the_forgotten_come_back_by_replay(patch: pytest.MonkeyPatch) -> None:
    """A restore adds the documents, and takes no one away."""
    patch.setattr(restore.Replay, "_removals", lambda self: None)


def the_forgotten_are_found_by_their_values(patch: pytest.MonkeyPatch) -> None:
    """A tombstone, or an update, takes a document away, and leaves what its values name."""
    only_in_worlds(patch, digests=("also /url",), forgets=0.4)
    real = forgetting._removals

    def without_values(*args: Any) -> Any:
        *found, names = real(*args)
        return (*found, [each[:1] for each in names])

    patch.setattr(forgetting, "_removals", without_values)


def values_are_not_restored(patch: pytest.MonkeyPatch) -> None:
    """A restored document is found by its text, and no more by its values."""
    only_in_worlds(patch, digests=("also /url",))
    real = restore.Replay._additions

    def additions(self: Any, offset: int) -> Any:
        found = real(self, offset)
        if found is None:
            return None
        contents = replace(found.documents.contents, also=0)
        return replace(found, documents=replace(found.documents, contents=contents))

    patch.setattr(restore.Replay, "_additions", additions)


def the_forgotten_leave_before_what_came_before(patch: pytest.MonkeyPatch) -> None:
    """A restore writes batches with what the next one forgets: which it has yet to add, stays."""
    patch.setattr(restore, "_ALONE", ())


def a_tombstone_read_again_forgets_again(patch: pytest.MonkeyPatch) -> None:
    """Documents that came after it, under the same id, are forgotten, too."""
    often = {"crash": 0.03, "commit_lost": 0.3, "rebalance": 0.1}
    plain = {"tasks": 1, "retentions": (UNLIMITED,), "digests": (), "seeds": 0, "thin": None}
    only_in_worlds(
        patch, forgets=0.4, rates={**CALM, **often}, **plain, documents=16, steps=80,
        corrections="", backups=False,
    )  # fmt: skip
    real = transactor.decide

    def decide(prepared: Any, index: Any, *args: Any, reread: bool, **kwargs: Any) -> Any:
        decided = real(prepared, index, *args, reread=reread, **kwargs)
        if reread and prepared.tombstones:
            asked = Forgetting.of(prepared.tombstones, [], index, first_ordinal=1 << 40, records=())
            removals = removals_of(asked.stored, index, keys_of)
            index.apply(Changes(index.progress, removals=removals))
        return decided

    patch.setattr(transactor, "decide", decide)


def a_record_is_dropped(patch: pytest.MonkeyPatch) -> None:
    """The last record of a batch of three or more is forgotten."""
    real = forwarding.Forwarder.written

    def written(self: Any, *batch: Any) -> list[Outgoing]:
        leaving = real(self, *batch)
        return leaving[:-1] if len(leaving) > 2 else leaving

    patch.setattr(forwarding.Forwarder, "written", written)


def own_counters_kept_after_a_takeover(patch: pytest.MonkeyPatch) -> None:
    """A task that comes back to a process goes on where that process had left it."""
    left: dict[Any, tuple[Any, Any]] = {}
    real_run, real_standing = task_start.TaskStart.run, task_start.TaskStart._position

    def run(self: Any) -> Iterator[Any]:
        made = yield from real_run(self)
        left[self._parts.source._life, self._plan.number] = self._plan, made
        return made

    def position(self: Any, *args: Any) -> Iterator[Any]:
        found: TaskPosition = yield from real_standing(self, *args)
        plan, made = left.get((self._parts.source._life, self._plan.number), (self._plan, None))
        return found if plan is self._plan else made.position

    patch.setattr(task_start.TaskStart, "run", run)
    patch.setattr(task_start.TaskStart, "_position", position)


def changelog_end_is_the_last_stable_offset(patch: pytest.MonkeyPatch) -> None:
    """The end is asked for under read_committed (the KAFKA-10167 class of bug)."""
    real = SimChangelog.bounds

    def bounds(self: SimChangelog) -> Watermarks:
        return Watermarks(real(self).start, self._changelog().stable)

    patch.setattr(SimChangelog, "bounds", bounds)
    open_ends = {"late_markers": 0.9, "commit_lost": 0.3, "squatter": 0.05, "crash": 0.03}
    only_in_worlds(patch, rates={**CALM, **open_ends})


def a_worn_producer_goes_on(patch: pytest.MonkeyPatch) -> None:
    """After a slow commit or abort the same producer begins the next transaction."""
    never = property(lambda self: False, lambda self, value: None)
    patch.setattr(transaction.Transactions, "worn", never, raising=False)
    late = {"commit_slow": 0.15, "commit_lost": 0.3, "abort_lost": 0.4, "produce_fails": 0.1}
    only_in_worlds(patch, rates={**CALM, **late})


def a_blamed_batch_is_refused_whole(patch: pytest.MonkeyPatch) -> None:
    """Every record of a batch that a broker refuses is taken for a bad one."""
    real = refusals.Refusals.learn

    def learn(self: Any, items: Any, blame: Any) -> str:
        return real(self, items, blame and replace(blame, each=True))

    patch.setattr(refusals.Refusals, "learn", learn)
    only_in_worlds(patch, rates=CALM, odd=0.3, strict=world.OUTPUTS, thin=None, documents=16)


def a_lost_changelog_is_begun_anew(patch: pytest.MonkeyPatch) -> None:
    """An empty changelog always means a fresh start."""
    patch.setattr(start_checks, "refuse_lost_changelog", lambda names, committed: None)
    patch.setattr(chapters, "DISASTERS", (chapters.changelog_emptied,))


def index_written_early_and_nobody_looks(patch: pytest.MonkeyPatch) -> None:
    """The same, but found by what comes of it, not by looking on."""
    index_written_before_the_commit(patch)
    patch.setattr(Watcher, "written", lambda self, where, changes: None)


def judged_in_the_order_of_arrival(patch: pytest.MonkeyPatch) -> None:
    """Batches are not sorted, so a replay judges in another order."""

    def unsorted(records: Sequence[Any]) -> list[Any]:
        return list(records)

    patch.setattr(transactor, "in_order", unsorted)


def a_standby_reads_what_is_not_committed(patch: pytest.MonkeyPatch) -> None:
    """The tail reads uncommitted: faster, and ahead of what may be aborted."""
    real = SimReader.read

    def read(self: Any, count: int, timeout: float) -> list[Entry]:
        if self._end < standby.ENDLESS:
            return real(self, count, timeout)
        cells = list(enumerate(self._partition.cells))[self.position :]
        self.position = self._partition.end
        return [Entry(o, c.value) for o, c in cells if not c.marker and c.value is not None]

    patch.setattr(SimReader, "read", read)


def a_standby_goes_on_beside_the_owner(patch: pytest.MonkeyPatch) -> None:
    """The tail is not ended when its task becomes ours: two write one index."""
    patch.setattr(standby.Standbys, "close", lambda self: None)
    patch.setattr(standby.Standbys, "release", lambda self, number: None)


def a_standby_forgets_what_it_could_not_write(patch: pytest.MonkeyPatch) -> None:
    """A full disk loses what the tail has read, and it reads on."""
    real = restore.Replay._write

    def write(self: Any) -> Iterator[str]:
        for waiting in real(self):
            self._documents, self._marks, self._last = [], [], None
            self._index.drop_owed()
            yield waiting
            return

    patch.setattr(restore.Replay, "_write", write)
    never = property(lambda self: None, lambda self, value: None)
    patch.setattr(restore.Replay, "_next", never, raising=False)
    only_in_worlds(patch, rates={**CALM, "disk_full": 0.2}, hot=True, processes=3)


def a_write_is_owed_beyond_its_tail(patch: pytest.MonkeyPatch) -> None:
    """What a standby could not write must be written by the owner as that very write."""
    patch.setattr(SimIndex, "drop_owed", lambda self: None)
    # A disk that stays full for a while, as real ones do: long enough for a takeover.
    only_in_worlds(
        patch, rates={**CALM, "disk_full": 0.85, "rebalance": 0.1},
        eager=True, hot=True, processes=3, batch=1, documents=16, steps=80,
    )  # fmt: skip


def where_the_last_assignment_stood_is_believed(patch: pytest.MonkeyPatch) -> None:
    """As `Consumer.position` says for a while after an assign; what was taken is dropped then."""
    real = SimSource.reached

    def reached(self: Any) -> dict[int, int]:
        self.highest = {p: max(o, self.highest.get(p, o)) for p, o in real(self).items()}
        return dict(self.highest)

    patch.setattr(SimSource, "highest", {}, raising=False)
    patch.setattr(SimSource, "reached", reached)


def a_full_disk_ends_an_opening(patch: pytest.MonkeyPatch) -> None:
    """An index that cannot be opened for want of room is a fault of the configuration."""

    def impatient(call: Any, *args: Any) -> Iterator[Any]:
        try:
            return call(*args)
        except DiskFull as error:
            raise IndexMismatch(str(error)) from error
        yield

    patch.setattr(index_storage, "with_room", impatient)


def nobody_looks_whose_records_lie_between(patch: pytest.MonkeyPatch) -> None:
    """What stands in the changelog between two transactions of ours is taken for ours."""
    patch.setattr(writer_check.WriterCheck, "check", lambda self, last, *, count: None)
    patch.setattr(chapters, "DISASTERS", (chapters.changelog_shared,))


def longer_keys_are_not_restored(patch: pytest.MonkeyPatch, most: int = 0) -> None:
    """What the changelog tells is listed under the shortest keys alone: full buckets only count."""
    real = restore.Replay._write

    def write(self: Any) -> Iterator[str]:
        steps = real(self)
        while True:
            bucket_writes.DEPTH = most
            try:
                waiting = next(steps)
            except StopIteration:
                return
            finally:
                bucket_writes.DEPTH = longer.DEPTH
            yield waiting

    patch.setattr(restore.Replay, "_write", write)


def a_second_split_is_not_restored(patch: pytest.MonkeyPatch) -> None:
    """The changelog's documents are listed under a key that is one step longer, and no further."""
    longer_keys_are_not_restored(patch, most=1)
    only_in_worlds(patch, **world.TEMPLATE)


def only_written_anew(patch: pytest.MonkeyPatch) -> None:
    """Let nothing happen but changelogs that lose their beginning and are written anew."""

    def chapter(story: Any) -> None:
        story.all_down()
        if CHANGELOG in story.world.broker.topics:
            chapters.changelog_written_anew(story)

    patch.setattr(chapters, "next_one", chapter)
    only_in_worlds(patch, tasks=1, forgets=0.0, thin=None)


def an_end_comes_before_the_last_batches(patch: pytest.MonkeyPatch) -> None:
    """A changelog that is written anew is said to be whole, and lacks what was judged last."""
    only_written_anew(patch)
    real = changelog_rewrite.Rewriting._values

    def values(self: Any, marks: Any) -> list[bytes]:
        more = marks[-1].number + 1 < self._position.progress.next_batch
        return real(self, marks) if more else []

    patch.setattr(changelog_rewrite.Rewriting, "_values", values)


def what_has_no_end_is_believed(patch: pytest.MonkeyPatch) -> None:
    """A restore goes on from where someone began to write the changelog anew, and was killed."""
    only_written_anew(patch)
    real = index_storage.IndexKeeper.find_anew

    def find(self: Any, bounds: Watermarks) -> Iterator[Any]:
        begun = [
            offset
            for offset, value in self._changelog._changelog().committed(bounds.start)
            if value[1] == changelog_header.HEADER and b'"anew":"begin"' in value
        ]
        if not begun:
            return (yield from real(self, bounds))
        self.anew, self.lost = begun[-1], -1
        return True

    patch.setattr(index_storage.IndexKeeper, "find_anew", find)


def what_is_written_anew_is_read_again(patch: pytest.MonkeyPatch) -> None:
    """A process that has the batches already takes them for ones that come next."""
    only_written_anew(patch)
    never = property(lambda self: False, lambda self, value: None)
    patch.setattr(restore.Replay, "_anew", never, raising=False)


def time_is_the_clocks(patch: pytest.MonkeyPatch) -> None:
    """What is forgotten follows our clock, not the stream."""

    def stream_times(self: Any, before: int, records: Any, now: int) -> Any:
        return np.full(len(records), max(before, now))

    patch.setattr(Retention, "stream_times", stream_times)


FORGETTING = {"forgets": 0.4, "retentions": (UNLIMITED,), "template": False, "thin": None}


def an_own_earlier_version_is_met(patch: pytest.MonkeyPatch) -> None:
    """An update is compared with the version that it replaces: it is withheld for its own text."""
    only_in_worlds(patch, **FORGETTING, updates=True)
    real = Forgetting.meets

    def meets(self: Any, rows: Any, ordinals: Any) -> Any:
        return real(self, rows - 1, ordinals)

    patch.setattr(Forgetting, "meets", meets)


SCOPED: Any = {**FORGETTING, "digests": ("scope /tenant",)}


def an_id_is_known_in_all_scopes(patch: pytest.MonkeyPatch) -> None:
    """An update replaces the document of another scope that has its id."""
    only_in_worlds(patch, **SCOPED, updates=True)
    known_as = forgetting.known_as
    patch.setattr(batch, "known_as", lambda id_, scope: known_as(id_, b""))


def a_tombstone_forgets_in_all_scopes(patch: pytest.MonkeyPatch) -> None:
    """Its header is not read, so it forgets the documents of its id in the other scopes, too."""
    only_in_worlds(patch, **SCOPED, updates=False)
    patch.setattr(reader, "scope_of_tombstone", lambda record, keys: ())


def an_update_is_forgotten_by_a_replay(patch: pytest.MonkeyPatch) -> None:
    """A restore takes away what a tombstone forgets, and not what its batch writes again."""
    only_in_worlds(patch, **FORGETTING, updates=True)
    real = restore.Replay._removals
    patch.setattr(restore.Replay, "_removals", lambda self: None if self._documents else real(self))


def a_scope_is_missing_in_one_key(patch: pytest.MonkeyPatch) -> None:
    """The key of the whole text is that of any scope: an equal text of another tenant is met."""
    only_in_worlds(patch, digests=("scope /tenant",))
    real = crew.sketched

    def sketched(sketcher: Any, documents: Any) -> Any:
        found, bare = real(sketcher, documents), Sketcher(SCHEME, seed=SEED)
        fingerprints = bare.sketch([each.text for each in documents]).contents.fingerprints
        contents = replace(found.contents, fingerprints=fingerprints)
        return Sketches(contents, sketcher.keys_of(contents))

    patch.setattr(crew, "sketched", sketched)


def a_condition_is_not_in_the_reread(patch: pytest.MonkeyPatch) -> None:
    """A record that is read again matches one that differs in what a match must agree in."""
    only_in_worlds(patch, digests=("agree /date",), forgets=0.0, retentions=(UNLIMITED,))
    real, differs = transactor.decide, verification.Verifier._differs

    def decide(*args: Any, reread: bool, **kwargs: Any) -> Any:
        with pytest.MonkeyPatch.context() as now:
            now.setattr(
                verification.Verifier,
                "_differs",
                lambda self, *pairs: None if reread else differs(self, *pairs),
            )
            return real(*args, reread=reread, **kwargs)

    patch.setattr(transactor, "decide", decide)


def the_first_part_of_a_tombstone_moves_behind_it(patch: pytest.MonkeyPatch) -> None:
    """A kill between two parts loses the others: the positions say that it was judged."""
    only_in_worlds(patch, **FORGETTING)
    patch.setattr(forgetting, "FORGET_MAX", 1)
    real = transactor.Transactor._decide

    def decide(self: Any, records: Any, *args: Any, **how: Any) -> Any:
        decided = real(self, records, *args, **how)
        if decided.prepared.records:
            return decided
        first = self._batches.prepared(records[:1])
        return replace(decided, prepared=first, outcomes=[*first.others.values()])

    patch.setattr(transactor.Transactor, "_decide", decide)


def the_forgotten_hide_a_copy(patch: pytest.MonkeyPatch) -> None:
    """No one looks for a copy in the pages of a bucket that forgotten documents have filled."""
    patch.setattr(buckets, "paged", lambda *_, **__: iter(()))
    only_in_worlds(patch, **FORGETFUL)


def copies_are_restored_without_pages(patch: pytest.MonkeyPatch) -> None:
    """A restore writes what the bucket of a whole text turned away into its first page alone."""
    real = restore.Replay._write

    def write(self: Any) -> Iterator[float | None]:
        steps = real(self)
        while True:
            with pytest.MonkeyPatch.context() as now:
                now.setattr(page_writes, "page_keys", lambda keys, numbers: keys)
                try:
                    waiting = next(steps)
                except StopIteration:
                    return
            yield waiting

    patch.setattr(restore.Replay, "_write", write)
    only_in_worlds(patch, **FORGETFUL)


def a_window_is_dropped_before_the_commit(patch: pytest.MonkeyPatch) -> None:
    """What a batch will forget is gone at once, and the batch may be aborted."""
    real = Retention.extent_of

    def extent_of(self: Any, index: Any, *batch: Any) -> Any:
        found = real(self, index, *batch)
        for window, following in pairwise(index.windows):
            if following.first_ordinal <= found.horizon:
                rows = index._disk.files.families[Families.of(window.number).documents]
                for key in [key for key in rows if key != STAMP]:
                    del rows[key]
        return found

    patch.setattr(Retention, "extent_of", extent_of)


def old_matches_are_met_when_a_record_is_read_again(patch: pytest.MonkeyPatch) -> None:
    """The mark of a batch has what was remembered, not what `verify.within` let match."""
    ages = property(
        lambda self: (
            Ages(
                self.prepared.batch.partitions,
                self.prepared.batch.offsets,
                self.extent.horizons,
                self.extent.times,
            )
            if self.extent.horizons is not None and len(self.extent.horizons)
            else None
        )
    )
    patch.setattr(batch.Decided, "ages", ages)
    only_in_worlds(patch, retentions=(Retention(within=500),), forgets=0.0)


def the_changelog_is_cut_off_before_the_commit(patch: pytest.MonkeyPatch) -> None:
    """As above, and with it goes what would restore the window."""
    real = transactor.Transactor._decide

    def decide(self: Any, *batch: Any, **how: Any) -> Any:
        decided = real(self, *batch, **how)
        windows = self._index.windows
        gone = sum(each.first_ordinal <= decided.extent.horizon for each in windows[1:])
        self._parts.trimming.look(windows[gone:])
        return decided

    patch.setattr(transactor.Transactor, "_decide", decide)


def new_partitions_are_read_from_their_end(patch: pytest.MonkeyPatch) -> None:
    """What came before a new partition was noticed is passed over."""
    real = task_start.TaskStart._position

    def position(self: Any, opened: Any, committed: Any, partitions: Any) -> Iterator[Any]:
        known = opened.index.progress.positions
        found: TaskPosition = yield from real(self, opened, committed, partitions)
        ends = self._parts.source.start_positions(
            [p for p in partitions if p not in known], "latest"
        )
        progress = replace(found.progress, positions=found.known | ends)
        return replace(found, positions=found.positions | ends, progress=progress)

    patch.setattr(task_start.TaskStart, "_position", position)
    only_in_worlds(patch, rates=CALM, tasks=1, retentions=(UNLIMITED,), forgets=0.0)


def new_partitions_are_not_taken_up(patch: pytest.MonkeyPatch) -> None:
    """An owner goes on with the partitions that its start has found."""
    patch.setattr(task.Task, "follow", lambda self, layout: None)
    only_in_worlds(patch, rates=CALM, tasks=1)


def a_start_believes_the_first_broker(patch: pytest.MonkeyPatch) -> None:
    """Partitions that a predecessor has read, and this broker has not heard of, do not exist."""

    def never(self: Any, index: Any, layout: Any) -> Iterator[Any]:
        return False
        yield

    patch.setattr(task_start.TaskStart, "_was_late", never)
    patch.setattr(world, "HEARSAY_SECONDS", 60.0)
    only_in_worlds(patch, rates={**CALM, "rebalance": 0.1, "crash": 0.01}, tasks=1, processes=3)


def a_changelog_without_its_beginning_ends_all(patch: pytest.MonkeyPatch) -> None:
    """A whole index is of no use once the first record is no header."""

    def refuse(self: Any, start: int) -> Any:
        raise start_checks.refuse_lost_beginning(self._plan.names, start)

    patch.setattr(index_storage.IndexKeeper, "_without_header", refuse)
    only_in_worlds(patch, rates=CALM, tasks=1)


def whoever_gets_a_spare_partition_has_a_task(patch: pytest.MonkeyPatch) -> None:
    """A partition of the changelog is a task, however many there are."""
    patch.setattr(Moves, "among", lambda self, tasks: self)
    only_in_worlds(patch, rates=CALM, tasks=1)


def topics_are_numbered_by_name(patch: pytest.MonkeyPatch) -> None:
    """A start numbers the topics that exist, and does not ask what the changelog says."""
    real = inputs.Inputs.take
    patch.setattr(
        inputs.Inputs, "take", lambda self, table, *rest: real(self, input_table.ONE_TOPIC, *rest)
    )
    only_in_worlds(patch, rates={**CALM, "crash": 0.01}, tasks=1, several=True)


def a_restore_does_not_hear_of_topics(patch: pytest.MonkeyPatch) -> None:
    """Only the owner that wrote a table has it."""
    real = restore.Replay._head

    def head(self: Any, entry: Any, header: Any) -> None:
        real(self, entry, header)
        self._inputs = input_table.ONE_TOPIC

    patch.setattr(restore.Replay, "_head", head)
    only_in_worlds(patch, rates={**CALM, "crash": 0.01}, tasks=1, several=True)


def a_changelog_may_begin_with_further_topics(patch: pytest.MonkeyPatch) -> None:
    """A header in the middle looks like a beginning, once the records before it are deleted."""
    patch.setattr(transactor, "GROWN", "")
    only_in_worlds(patch, rates=CALM, tasks=1, several=True)


def a_seed_is_read_twice(patch: pytest.MonkeyPatch) -> None:
    """A seed that is run again does not ask how far it was read."""
    real = seeding.SeedSource._now_read

    def from_its_beginning(self: Any) -> Any:
        return {n: input_table.Seed(seed.name) for n, seed in real(self).items()}

    patch.setattr(seeding.SeedSource, "_now_read", from_its_beginning)
    only_in_worlds(patch, rates={**CALM, "crash": 0.05}, tasks=1, digests=(), seeds=4)


def a_window_forgets_how_far_seeds_were_read(patch: pytest.MonkeyPatch) -> None:
    """The header that begins a window has no table, and trimming deletes the others."""
    real = transactor.Transactor._header_of

    def header_of(self: Any, opens: Any, positions: Any) -> Any:
        header = real(self, opens, positions)
        return header and replace(header, inputs=input_table.ONE_TOPIC) if opens else header

    patch.setattr(transactor.Transactor, "_header_of", header_of)
    shape = {"retentions": (Retention(documents=2, least=2),), "several": False, "forgets": 0.0}
    only_in_worlds(patch, rates=CALM, tasks=1, digests=(), seeds=4, **shape)


PLANTED = tuple(
    Planted(plant, (check,), seed)
    for plant, check, seed in (
        *PLANTED_RUNS,
        *PLANTED_LIFE,
        (no_as_of_rule, "later", 18),
        (index_written_before_the_commit, "ahead", 0),
        (index_written_early_and_nobody_looks, "stop", 17),
        (no_restore, "state", 5),
        (the_forgotten_come_back_by_replay, "state", 11),
        (the_forgotten_leave_before_what_came_before, "state", 11),
        (a_tombstone_read_again_forgets_again, "state", 25),
        (the_forgotten_are_found_by_their_values, "state", 11),
        (values_are_not_restored, "misjudged", 4),
        (a_record_is_dropped, "lost", 2),
        (own_counters_kept_after_a_takeover, "changelog", 83),
        (changelog_end_is_the_last_stable_offset, "stop", 19),
        (a_worn_producer_goes_on, "doubled", 5),
        (a_lost_changelog_is_begun_anew, "refusal", 5),
        (judged_in_the_order_of_arrival, "changelog", 19),
        (a_standby_reads_what_is_not_committed, "ahead", 8),
        (a_standby_goes_on_beside_the_owner, "locked", 1),
        (a_standby_forgets_what_it_could_not_write, "state", 0),
        (a_write_is_owed_beyond_its_tail, "stuck", 48),
        (where_the_last_assignment_stood_is_believed, "stop", 1),
        (a_full_disk_ends_an_opening, "stop", 5),
        (a_blamed_batch_is_refused_whole, "changelog", 75),
        (nobody_looks_whose_records_lie_between, "refusal", 44),
        (time_is_the_clocks, "changelog", 1),
        (an_own_earlier_version_is_met, "misjudged", 46),
        (an_id_is_known_in_all_scopes, "changelog", 6),
        (a_tombstone_forgets_in_all_scopes, "changelog", 4),
        (an_update_is_forgotten_by_a_replay, "state", 2),
        (a_scope_is_missing_in_one_key, "misjudged", 53),
        (a_condition_is_not_in_the_reread, "misjudged", 6),
        (the_first_part_of_a_tombstone_moves_behind_it, "changelog", 12),
        (the_forgotten_hide_a_copy, "misjudged", 11),
        (copies_are_restored_without_pages, "state", 11),
        (a_window_is_dropped_before_the_commit, "state", 188),
        (old_matches_are_met_when_a_record_is_read_again, "changelog", 2),
        (the_changelog_is_cut_off_before_the_commit, "trimmed", 7),
        (longer_keys_are_not_restored, "state", 4),
        (a_second_split_is_not_restored, "state", 4),
        (new_partitions_are_read_from_their_end, "changelog", 18),
        (new_partitions_are_not_taken_up, "stuck", 12),
        (a_start_believes_the_first_broker, "stop", 175),
        (a_changelog_without_its_beginning_ends_all, "stuck", 66),
        (an_end_comes_before_the_last_batches, "changelog", 21),
        (what_has_no_end_is_believed, "stop", 2),
        (what_is_written_anew_is_read_again, "stop", 1),
        (whoever_gets_a_spare_partition_has_a_task, "bug", 1),
        (topics_are_numbered_by_name, "changelog", 63),
        (a_restore_does_not_hear_of_topics, "stop", 1),
        (a_changelog_may_begin_with_further_topics, "changelog", 1),
        (a_seed_is_read_twice, "changelog", 8),
        (a_window_forgets_how_far_seeds_were_read, "changelog", 0),
    )
)
