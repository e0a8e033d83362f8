"""What must be true: while it happens (`Watcher`), and of what is left (`judge`).

| check     | oracle       | what it finds                                                      |
|-----------|--------------|--------------------------------------------------------------------|
| lost      | A            | an input record that is in no output                               |
| doubled   | B            | one that came out more often than it was read                      |
| order     | B            | one that came out before its predecessor                           |
| later     | C            | a match with itself, or with what was judged later                 |
| misjudged | C            | another verdict, match, similarity or content than the model's     |
| withheld  | C            | a match that was not itself forwarded                              |
| changelog | D            | gaps or repeats in what the changelog tells                        |
| state     | D            | an index that is not a prefix of the model's                       |
| ahead     | D            | an index that was written before its transaction was committed     |
| trimmed   | D            | a changelog that was cut off behind the beginning of a live window |
| prefix    | –            | a reader during the faults saw what was not to stay                |
| stop      | E            | a process that ended with a code it should not                     |
| refusal   | E            | one that went on where it had to refuse                            |
| stuck     | E            | no end although all faults are over                                |
| locked    | –            | an index opened twice, or used after it was closed                 |
| bug       | –            | any other exception                                                |
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from streamfilter.engine.ports import Outgoing
from streamfilter.index.protocol import Changes
from streamfilter.stops import ExitCode
from tests.simulator.broker import Partition
from tests.simulator.disk import Disk
from tests.simulator.history import Expected, History, Place, anew_at, read_batches, windows_at
from tests.simulator.log import CHANGELOG
from tests.simulator.process import DEAD, DUPLICATES, UNIQUE
from tests.simulator.world import Failure, World
from tests.support.arrivals import buckets_below, documents_below

OURS = "__streamfilter."


class Watcher:
    """Looks on while it happens."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.refusals: list[str] | None = None
        """Where refusals go while one is expected."""
        self._seen: dict[tuple[str, int], list[Outgoing]] = {}
        self._read_to: dict[tuple[str, int], int] = {}

    def written(self, where: str, changes: Changes) -> None:
        """Check that what an index is about to write was committed."""
        partition = self._world.broker.topics[CHANGELOG][int(where.partition("/")[2])]
        offset = changes.progress.changelog_offset
        txn = partition.cells[offset].txn if offset < partition.end else None
        if txn is None or not txn.committed:
            self._world.fail("ahead", f"{where} writes offset {offset}, which is not committed")

    def trimmed(self, partition: Partition, before: int) -> None:
        """Check that what is cut off is of no window that is alive, by what is committed."""
        committed = Partition(partition.name)
        committed.cells = partition.cells  # also what is committed, and lacks its marker still
        oldest, *_ = windows_at(read_batches(committed))
        if before > max(oldest.offset, anew_at(committed, oldest.number)):
            self._world.fail("trimmed", f"{partition.name} is cut off before {before}: {oldest}")

    def exited(self, name: str, code: ExitCode, message: str) -> None:
        """Check that a process ended for a reason."""
        if code is ExitCode.CONFIG and self.refusals is not None:
            self.refusals.append(message)
        elif code is ExitCode.CONFIG:
            self._world.fail("stop", f"{name} exits with {code}: {message}")

    def read(self) -> None:
        """Read on in the outputs, as a consumer of committed records does."""
        for topic in (UNIQUE, DUPLICATES, DEAD):
            for p, partition in enumerate(self._world.broker.topics[topic]):
                seen = self._seen.setdefault((topic, p), [])
                begin = self._read_to.get((topic, p), 0)
                seen += [value for _, value in partition.committed(begin)]
                self._read_to[topic, p] = partition.stable

    def check_prefix(self) -> None:
        """Check that what was seen is how the final outputs begin."""
        for (topic, p), seen in self._seen.items():
            final = outputs(self._world, topic, p)
            if any(a is not b for a, b in zip(seen, final, strict=False)) or len(seen) > len(final):
                raise Failure("prefix", f"a reader of {topic}/{p} saw what did not stay")


def outputs(world: World, topic: str, partition: int) -> list[Outgoing]:
    return [value for _, value in world.broker.topics[topic][partition].committed(0)]


def judge_outputs(
    world: World, history: History, partition: int, segments: Sequence[tuple[int, int]]
) -> None:
    """Check one input partition's records in all outputs.

    Args:
        world: with the outputs.
        history: of the task that the partition belongs to.
        partition: of the input, and of each output.
        segments: what was read, from and to: more than one after a rewind.
    """
    wanted = [
        known
        for begin, end in segments
        for (p, offset), known in sorted(history.expected.items())
        if p == partition and begin <= offset < end
    ]
    found = {topic: outputs(world, topic, partition) for topic in (UNIQUE, DUPLICATES, DEAD)}
    _count(wanted, found)
    # Who is read again does not meet whom was forgotten since: not the verdict of then, for some.
    times = Counter(each.source.name for each in wanted)
    twice = {name for name, count in times.items() if count > 1}
    by_name = {each.source.name: each for each in history.expected.values()}
    again = {name for name in twice if world.shape.forgets or _is_vague(by_name[name], history)}
    for topic, records in found.items():
        for record in records:
            name = _name(record)
            _compare(topic, record, by_name[name], history, again=name in again)
    for topic, records in found.items():
        order = [each.source.name for each in wanted if each.topic == topic]
        if not again and [_name(record) for record in records] != order:
            raise Failure("order", f"{topic}/{partition} is not in the order of {order}")


def _is_vague(want: Expected, history: History) -> bool:
    """Return whether a record, read again, may get another verdict: who it met may be gone.

    Then it meets fewer, and perhaps others that nobody stands before any more, but none later.
    """
    oldest, *_ = windows_at(history.batches)
    judged = want.source.kind == "document" and want.verdict != "refused"
    return judged and want.horizon < oldest.first_ordinal


def _count(wanted: list[Expected], found: dict[str, list[Outgoing]]) -> None:
    want = Counter(each.source.name for each in wanted)
    have = Counter(_name(record) for records in found.values() for record in records)
    if lost := sorted((want - have).elements()):
        raise Failure("lost", f"{lost} did not come out (often enough)")
    if more := sorted((have - want).elements()):
        raise Failure("doubled", f"{more} came out too often")


def _name(record: Outgoing) -> str:
    """Return which input a record was."""
    return (dict(record.headers)["h"] or b"").decode()


def _compare(
    topic: str, record: Outgoing, want: Expected, history: History, *, again: bool
) -> None:
    """Hold one output record against the model; one that was read *again* meets nobody later."""
    id_, headers = want.source.name, dict(record.headers)
    matches = _matches(headers)
    for _, _, _, place in matches:
        met = history.expected[place]
        if met.place >= want.place:
            raise Failure("later", f"{id_} was matched with {met.source.id}, which is not earlier")
        if met.topic != UNIQUE:
            raise Failure("withheld", f"{id_} was matched with {met.source.id}: not forwarded")
    if again:
        return
    if topic != want.topic:
        raise Failure("misjudged", f"{id_} is in {topic}, the model says {want.topic}")
    given = want.source.record
    if want.verdict == "refused":  # its letter is of the present
        given = replace(given, timestamp=-1)
    ours = {name: value for name, value in headers.items() if name.startswith(OURS)}
    plain = tuple(pair for pair in record.headers if pair[0] not in ours)
    came = (record.key, record.value, plain, record.timestamp)
    if came != (given.key, given.value, given.headers, given.timestamp):
        raise Failure("misjudged", f"{id_} was changed on its way")
    told = headers.get(OURS + "verdict") or headers.get(OURS + "error.code") or b""
    if told.decode() != want.verdict or (topic == UNIQUE and ours):
        raise Failure("misjudged", f"{id_} is {told!r}, the model says {want.verdict!r}")
    close = [(i, round(s, 6), b, place) for i, s, b, place in want.matches]
    if matches != close:
        raise Failure("misjudged", f"{id_} matches {matches}, the model says {close}")
    if matches and headers[OURS + "match.id"] != matches[0][0].encode():
        raise Failure("misjudged", f"{id_} names another match than its best")


def _matches(headers: dict[str, Any]) -> list[tuple[str, float, int, Place]]:
    found = json.loads(headers.get(OURS + "matches") or b"[]")
    return [
        (each["id"], each["similarity"], each["bands"], (each["partition"], each["offset"]))
        for each in found
    ]


def judge_disk(disk: Disk, history: History, start: int) -> None:
    """Check that an index is what the model was after some batch.

    One that is about to be restored from a changelog that begins at *start* lacks windows that were
    alive at that batch, and are gone by its end.
    """
    if not disk.used or disk.damaged:
        return
    progress, model = disk.index.progress, history.model
    done = history.batches[: progress.next_batch]
    if len(done) != progress.next_batch or done[-1].next_ordinal != progress.next_ordinal:
        raise Failure("state", f"{disk.name} stands at batch {progress.next_batch}")
    limit, windows = progress.next_ordinal, windows_at(done)
    have = disk.index.windows
    midway = history.anew and progress.next_batch < len(history.batches)
    # A standby restores what is left of a changelog that was cut off inside of a window; a start
    # finds that its oldest window begins behind the horizon, and restores what was written anew.
    partial = history.anew and have[0].first_ordinal > progress.horizon
    if have[0].offset <= start or midway or partial:
        windows = windows[-len(have) :]
    if history.anew:  # restored from there, or not: they begin elsewhere
        have, windows = (tuple(replace(w, offset=0) for w in each) for each in (have, windows))
    if (have, progress.horizon) != (windows, done[-1].horizon):
        raise Failure("state", f"{disk.name} has {disk.index.windows}, not {windows}")
    oldest = windows[0]
    marks = {
        batch.number: (
            {p: span for p, span in batch.spans.items() if span[0] < span[1]},
            batch.horizon,
            batch.time,
        )
        for batch in done[oldest.first_batch :]
    }
    first = max(progress.horizon, oldest.first_ordinal)
    remembered = sum(at >= first for at in documents_below(model, limit))
    stored_buckets, stored, stored_marks = _contents(disk)
    if len(disk.index) != remembered:
        raise Failure("state", f"{disk.name} says that it remembers {len(disk.index)}")
    told = {p: end for p, (_, end) in done[-1].spans.items()}
    have_positions = dict(progress.positions or {})
    if history.anew:  # inside of it, a batch tells only of the partitions that it judged
        told = {p: end for p, end in told.items() if p in have_positions}
    if have_positions != told:
        raise Failure("state", f"{disk.name} has positions {progress.positions}")
    for what, have, want in (
        ("documents", stored, _documents(history, limit, oldest.first_ordinal)),
        ("buckets", stored_buckets, buckets_below(model, limit, oldest.number)),
        ("marks", stored_marks, marks),
    ):
        if have != want:
            odd = sorted(k for k in have.keys() | want.keys() if have.get(k) != want.get(k))
            raise Failure("state", f"{disk.name}: {what} {odd[:3]} differ from the model's")


def _documents(history: History, limit: int, oldest: int) -> dict[int, Any]:
    """Return what the model stores from *oldest* to *limit*, under the ids that the records have.

    In windows that are alive also those are stored that the horizon has passed.
    """
    known = documents_below(history.model, limit)
    return {
        at: (history.inputs[name].id, mark) for at, (name, mark) in known.items() if at >= oldest
    }


def _contents(disk: Disk) -> tuple[dict[Any, Any], dict[Any, Any], dict[Any, Any]]:
    """Return buckets, documents and marks of an index."""
    parts = disk.index._parts
    ordinals = sorted(ordinal for part in parts.values() for ordinal in part.documents)
    found = disk.index.fetch(np.array(ordinals, np.int64))
    rows = zip(found.ordinals.tolist(), found.ids, found.contents.fingerprints, strict=True)
    documents = {ordinal: (id_, print_.tobytes()) for ordinal, id_, print_ in rows}
    marks = {
        number: (
            {span.partition: (span.start, span.end) for span in mark.spans},
            mark.horizon,
            mark.stream_time,
        )
        for part in parts.values()
        for number, mark in part._marks.items()
    }
    buckets = {
        (window.number, key): bucket
        for window, part in parts.items()
        for key, bucket in part._buckets.items()
        if bucket
    }
    return buckets, documents, marks
