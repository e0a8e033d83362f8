"""What must be true of a recorded run; the letters are those of the fault matrix.

| check     | letter | what it finds                                                        |
|-----------|--------|----------------------------------------------------------------------|
| lost      | A      | an input record that is in none of the three outputs                 |
| doubled   | B      | one that is there more than once                                     |
| stranger  | B      | an output that no input explains                                     |
| order     | B      | an output partition that is not in the order of its input partition  |
| misjudged | C      | another place, verdict, match, similarity or content than the model's|
| later     | C      | a match with itself, or with what was judged later                   |
| withheld  | C      | a match with what was not itself forwarded                           |
| forgotten | C      | a match with what is older than the retention                        |
| changelog | D      | a changelog with gaps, repeats, or another set of unique documents   |
| state     | D      | an index that is not what the model remembers                        |
| cut       | D      | a changelog that begins elsewhere than the oldest window alive       |
| prefix    | -      | a reader during the faults saw what is not in the final log          |
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from streamfilter.index.directory.opening import open_index, read_identity
from streamfilter.index.format import ORDINAL_BYTES
from streamfilter.model import Headers, Record
from tests.faults.expected import Expected, Place, Relived, UntrueError
from tests.faults.recording import Recording, digest
from tests.simulator.history import windows_at
from tests.simulator.world import Failure
from tests.support.arrivals import buckets_below, documents_below

OURS = "__streamfilter."
THEIRS = OURS + "input."
SHOWN = 3


@dataclass(frozen=True, slots=True)
class Finding:
    """One broken promise."""

    letter: str
    check: str
    what: str

    def __str__(self) -> str:
        return f"{self.letter} {self.check}: {self.what}"


def judge(recording: Recording, tasks: Mapping[int, Relived], *, whole: bool) -> list[Finding]:
    """Return every broken promise of a run.

    Args:
        recording: what it left behind.
        tasks: the model of each task, by number; it is taken on to the changelog's end.
        whole: the input was judged to its end, so that what is missing is lost.
    """
    for number, task in tasks.items():
        try:
            task.follow(recording.changelog.get(number, []), recording.inputs)
        except (UntrueError, Failure) as error:
            return [Finding("D", "changelog", f"task {number}: {error}")]
    expected = {at: each for task in tasks.values() for at, each in task.expected.items()}
    found = [*_unjudged(recording, expected)] if whole else []
    found += _counted(recording, expected)
    for place, partitions in recording.outputs.items():
        for records in partitions.values():
            found += _compared(place, records, expected)
    # An order can only be told of the right records.
    found = found or [*_ordered(recording, expected), *_cut(recording, tasks)]
    return [*found, *_prefix(recording)]


def _unjudged(recording: Recording, expected: Mapping[Place, Expected]) -> Iterator[Finding]:
    places = ((p, r.source.offset) for p, records in recording.inputs.items() for r in records)
    if missing := [place for place in places if place not in expected]:
        yield Finding("A", "lost", f"{len(missing)} never judged: {missing[:SHOWN]}")


def _keys(partitions: Mapping[int, list[Record]]) -> Iterator[bytes]:
    return (record.key or b"" for records in partitions.values() for record in records)


def _counted(recording: Recording, expected: Mapping[Place, Expected]) -> Iterator[Finding]:
    given = {each.source.key or b"" for each in expected.values()}
    have = Counter(key for outputs in recording.outputs.values() for key in _keys(outputs))
    if lost := [key for key in given if key not in have]:
        yield Finding("A", "lost", f"{len(lost)} are in no output: {lost[:SHOWN]}")
    if twice := [key for key, count in have.items() if count > 1]:
        yield Finding("B", "doubled", f"{len(twice)} came out more than once: {twice[:SHOWN]}")
    if odd := [key for key in have if key not in given]:
        yield Finding("B", "stranger", f"{len(odd)} come from no judged input: {odd[:SHOWN]}")


def _compared(
    place: str, records: list[Record], expected: Mapping[Place, Expected]
) -> Iterator[Finding]:
    by_key = {each.source.key: each for each in expected.values()}
    for record in records:
        want = by_key.get(record.key)
        if want is not None and (wrong := _difference(place, record, want, expected)):
            yield Finding("C", wrong[0], f"{record.key!r} {wrong[1]}")


def _difference(
    place: str, record: Record, want: Expected, expected: Mapping[Place, Expected]
) -> tuple[str, str] | None:
    """Return the check and what is wrong with an output record; None if it is right."""
    said, plain = _parted(record, forwarded=place == "unique")
    matches = [
        (each["id"], each["similarity"], each["bands"], (each["partition"], each["offset"]))
        for each in json.loads(said.get("matches") or "[]")
    ]
    for _, _, _, at in matches:
        if at not in expected or expected[at].order >= want.order:
            return "later", f"was matched with {at}, which is not earlier"
        if expected[at].topic != "unique":
            return "withheld", f"was matched with {at}, which was not forwarded"
        if expected[at].ordinal < want.horizon:
            return "forgotten", f"was matched with {at}, which was forgotten"
    if place != want.topic:
        return "misjudged", f"is in {place}, the model says {want.topic}"
    given = want.source
    if want.verdict == "refused":  # its letter is of the present
        given = replace(given, timestamp=record.timestamp)
    if (record.value, plain, record.timestamp) != (given.value, given.headers, given.timestamp):
        return "misjudged", "was changed on its way"
    told = said.get("verdict") or said.get("error.code") or ""
    if told != want.verdict:
        return "misjudged", f"is {told!r}, the model says {want.verdict!r}"
    if matches != list(want.matches):
        return "misjudged", f"matches {matches}, the model says {want.matches}"
    if matches and said["match.id"] != matches[0][0]:
        return "misjudged", "names another match than its best"
    return None


def _parted(record: Record, *, forwarded: bool) -> tuple[dict[str, str], Headers]:
    """Part the filter's headers from those that came: none are the filter's where it forwards.

    Elsewhere those that came with a name like the filter's were renamed, and get it back.
    """
    if forwarded:
        return {}, record.headers
    said: dict[str, str] = {}
    came: list[tuple[str, bytes | None]] = []
    for name, value in record.headers:
        if name.startswith(THEIRS):
            came.append((OURS + name.removeprefix(THEIRS), value))
        elif name.startswith(OURS):
            said[name.removeprefix(OURS)] = (value or b"").decode()
        else:
            came.append((name, value))
    return said, tuple(came)


def _ordered(recording: Recording, expected: Mapping[Place, Expected]) -> Iterator[Finding]:
    """Hold each output partition to its input partition: they have equal numbers here."""
    for place, partitions in recording.outputs.items():
        for partition, records in partitions.items():
            order = [
                each.source.key
                for (p, _), each in sorted(expected.items())
                if p == partition and each.topic == place
            ]
            if [record.key for record in records] != order:
                yield Finding("B", "order", f"{place}/{partition} is not in the input's order")


def _cut(recording: Recording, tasks: Mapping[int, Relived]) -> Iterator[Finding]:
    """Hold the changelogs' beginnings to what their ends need."""
    for number, task in tasks.items():
        begins, wanted = recording.starts.get(number, 0), windows_at(task.batches)[0].offset
        if begins != wanted:
            yield Finding("D", "cut", f"changelog {number} begins at {begins}, not at {wanted}")


def _prefix(recording: Recording) -> Iterator[Finding]:
    for (place, partition), seen in recording.seen.items():
        records = recording.outputs[place].get(partition, [])
        final = [(record.source.offset, digest(record)) for record in records]
        if final[: len(seen)] != seen:
            odd = next((a for a, b in zip(seen, final, strict=False) if a != b), seen[-1])
            yield Finding(
                "-", "prefix", f"{place}/{partition}: {odd[0]} was seen, and did not stay"
            )


def judge_index(path: Path, seed: bytes, task: Relived, start: int = 0) -> list[Finding]:
    """Hold a closed index to the model, at whatever batch it stands.

    If its restore is not over it lacks windows that were alive at that batch, and are gone at the
    end of the changelog, which begins at *start*.
    """
    identity = read_identity(path, seed=seed)
    if identity is None:
        return []
    index = open_index(path, identity)
    try:
        then = task.standing_at(index.progress.next_batch)
        found = _state(index, then, start)
        return [Finding("D", "state", f"{path.name}: {what}") for what in found]
    finally:
        index.close()


def _state(index: object, task: Relived, start: int) -> Iterator[str]:
    limit, done = index.progress.next_ordinal, task.batches[: index.progress.next_batch]
    windows, horizon = windows_at(done), done[-1].horizon if done else 0
    if index.windows[0].offset <= start:
        windows = windows[-len(index.windows) :]
    if (index.windows, index.progress.horizon) != (windows, horizon):
        yield f"remembers {index.windows} from {index.progress.horizon} on, not {windows} {horizon}"
        return
    oldest = windows[0]
    documents = {
        ordinal: each
        for ordinal, each in documents_below(task.model, limit).items()
        if ordinal >= oldest.first_ordinal
    }
    found = index.fetch(np.array(sorted(documents), np.int64))
    remembered = sum(ordinal >= horizon for ordinal in documents)
    if len(index) != remembered or len(found) != len(documents):
        yield f"{len(index)} documents and {len(found)} stored, not {remembered}, {len(documents)}"
        return
    for ordinal, id_, mark in zip(
        found.ordinals.tolist(), found.ids, found.contents.fingerprints, strict=True
    ):
        if (id_, mark.tobytes()) != documents[ordinal]:
            yield f"ordinal {ordinal} is {id_}, the model says {documents[ordinal][0]}"
            return
    yield from _buckets(index, buckets_below(task.model, limit, oldest.number))


def _buckets(index: object, buckets: Mapping[tuple[int, int], list[int]]) -> Iterator[str]:
    # A bucket whose every member was forgotten still counts those that it had turned away.
    stored = sum(
        kind == "bucket" and len(value) >= ORDINAL_BYTES for kind, _, value in index.dump()
    )
    if stored != len(buckets):
        yield f"{stored} buckets, the model has {len(buckets)}"
    keys = np.array(sorted({key for _, key in buckets}), np.uint64).reshape(-1, 1)
    for window, probed in zip(index.windows, index.probe(keys).windows, strict=True):
        ends = np.cumsum(probed.counts[:, 0].astype(np.int64)).tolist()
        ordinals = probed.ordinals.tolist()
        for key, begin, end in zip(keys[:, 0].tolist(), [0, *ends], ends, strict=False):
            wanted = buckets.get((window.number, key), [])
            if ordinals[begin:end] != wanted:
                yield f"bucket {key:x} of {window} differs from the model's {wanted}"
                return
