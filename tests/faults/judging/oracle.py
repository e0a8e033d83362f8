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

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from streamfilter.index.directory.opening import open_index, read_identity
from streamfilter.model import Record
from tests.faults.judging.expected import follow
from tests.faults.judging.recording import Recording, digest
from tests.truth.changelog import SEEDS_FROM, Failure, Place, windows_at
from tests.truth.history import Expected, History
from tests.truth.outputs import SHOWN, counted, difference
from tests.truth.state import state_differences


@dataclass(frozen=True, slots=True)
class Finding:
    """One broken promise."""

    letter: str
    check: str
    what: str

    def __str__(self) -> str:
        return f"{self.letter} {self.check}: {self.what}"


def judge(recording: Recording, tasks: Mapping[int, History], *, whole: bool) -> list[Finding]:
    """Return every broken promise of a run.

    Args:
        recording: what it left behind.
        tasks: the model of each task, by number; it is taken on to the changelog's end.
        whole: the input was judged to its end, so that what is missing is lost.
    """
    for number, task in tasks.items():
        try:
            follow(task, recording.changelog.get(number, []), recording.inputs)
        except Failure as error:
            return [Finding("D", "changelog", f"task {number}: {error}")]
    expected = [task.expected for task in tasks.values()]
    found = compare(recording, expected, whole=whole) or [*_cut(recording, tasks)]
    return [*found, *unstable(recording)]


def compare(
    recording: Recording, parts: Sequence[Mapping[Place, Expected]], *, whole: bool
) -> list[Finding]:
    """Return what is wrong with the outputs; each of the *parts* is what one index says of them."""
    expected = {at: each for part in parts for at, each in part.items() if at[0] < SEEDS_FROM}
    found = [*_unjudged(recording, expected)] if whole else []
    found += _counted(recording, expected)
    for place, partitions in recording.outputs.items():
        for records in partitions.values():
            for part in parts:
                found += _compared(place, records, part)
    return found or [*_ordered(recording, expected)]  # only right records have an order


def _unjudged(recording: Recording, expected: Mapping[Place, Expected]) -> Iterator[Finding]:
    places = ((p, r.source.offset) for p, records in recording.inputs.items() for r in records)
    if missing := [place for place in places if place not in expected]:
        yield Finding("A", "lost", f"{len(missing)} never judged: {missing[:SHOWN]}")


def _counted(recording: Recording, expected: Mapping[Place, Expected]) -> Iterator[Finding]:
    records = [r for place in recording.outputs.values() for some in place.values() for r in some]
    wanted = Counter(each.source.record.key or b"" for each in expected.values())
    for check, what in counted(wanted, Counter(each.key or b"" for each in records)):
        yield Finding("A" if check == "lost" else "B", check, what)


def _compared(
    place: str, records: list[Record], expected: Mapping[Place, Expected]
) -> Iterator[Finding]:
    by_key = {e.source.record.key: e for (p, _), e in expected.items() if p < SEEDS_FROM}
    for record in records:
        want = by_key.get(record.key)
        if want is not None and (wrong := difference(place, record, want, expected)):
            yield Finding("C", wrong[0], f"{record.key!r} {wrong[1]}")


def _ordered(recording: Recording, expected: Mapping[Place, Expected]) -> Iterator[Finding]:
    """Hold each output partition to its input partition: they have equal numbers here."""
    for place, partitions in recording.outputs.items():
        for partition, records in partitions.items():
            order = [
                each.source.record.key
                for (p, _), each in sorted(expected.items())
                if p == partition and each.topic == place
            ]
            if [record.key for record in records] != order:
                yield Finding("B", "order", f"{place}/{partition} is not in the input's order")


def _cut(recording: Recording, tasks: Mapping[int, History]) -> Iterator[Finding]:
    """Hold the changelogs' beginnings to what their ends need."""
    for number, task in tasks.items():
        begins, wanted = recording.starts.get(number, 0), windows_at(task.batches)[0].offset
        if begins != wanted:
            yield Finding("D", "cut", f"changelog {number} begins at {begins}, not at {wanted}")


def unstable(recording: Recording) -> Iterator[Finding]:
    """Yield what a reader saw, and what did not stay."""
    for (place, partition), seen in recording.seen.items():
        records = recording.outputs[place].get(partition, [])
        final = [(record.source.offset, digest(record)) for record in records]
        if final[: len(seen)] != seen:
            odd = next((a for a, b in zip(seen, final, strict=False) if a != b), seen[-1])
            yield Finding(
                "-", "prefix", f"{place}/{partition}: {odd[0]} was seen, and did not stay"
            )


def judge_index(path: Path, seed: bytes, task: History, start: int = 0) -> list[Finding]:
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
        found = state_differences(index, then, start)
        return [Finding("D", "state", f"{path.name}: {what}") for what in found]
    finally:
        index.close()
