"""What an operator's tasks left behind is held to the law.

`python -m tests.long.kills --operations` keeps its directory if it found something. It is judged
again by `python -m tests.long.judging_operations DIRECTORY`.
"""

import pickle
import shutil
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

from streamfilter.backup import download, manifest
from streamfilter.backup.stores import DirectoryStore
from streamfilter.config.loading import load_config
from streamfilter.index.directory.opening import read_identity
from streamfilter.index.directory.seed_file import read_seed
from streamfilter.matching import law
from streamfilter.matching.verdict.side_records import ATTEMPTS, RELEASED
from streamfilter.model import Record, Source
from tests.faults.judging.expected import SavedLog, history_of, kinds_of
from tests.faults.judging.oracle import compare, judge_index, unstable
from tests.faults.judging.recording import Recording
from tests.support.topics import header
from tests.support.values import replace
from tests.truth import outputs
from tests.truth.changelog import SEEDS_FROM, SEEDS_TO, Failure
from tests.truth.history import History, Input

ARCHIVE, OPERATED = "archive", "operated.pickle"


@dataclass(frozen=True, slots=True)
class Operated:
    """Two groups; the second one took over from the first."""

    configs: tuple[Path, Path]
    raw: Recording
    """With the first one's changelog."""
    later: Sequence[tuple[int, bytes]]
    """The changelog of the second one."""
    mended_at: Mapping[int, int]
    """From where on the first one read texts under both names, by partition."""
    released: Sequence[str]
    """Ids."""

    def judged(self, directory: Path) -> list[str]:
        """Return what is wrong with what is in *directory* and was in the topics."""
        inputs = {p: [*map(own, records)] for p, records in self.raw.inputs.items()}
        came = {
            name: {p: [own(each) for each in some if not noted(each)] for p, some in found.items()}
            for name, found in self.raw.outputs.items()
        }
        known = inputs | self._seeds(directory)
        old = {p: [self._input(each) for each in records] for p, records in known.items()}
        new = {p: [as_input(each) for each in records] for p, records in known.items()}
        histories: list[History] = []
        try:
            histories += self._histories(read_seed(directory / "seed"), old, new)
        except Failure as failure:
            return [f"D changelog of group {len(histories)}: {failure}"]
        unique = load_config([self.configs[0]]).output.unique
        names = (ARCHIVE, *(f"{unique}/{p}" for p in range(len(inputs))))
        with patch.object(outputs, "SEED_NAMES", names):
            run = replace(self.raw, inputs=inputs, outputs=came)
            found = compare(run, [each.expected for each in histories], whole=True)
        found += unstable(self.raw)
        every = [each for p in inputs for each in old[p]]
        return [*map(str, found), *self._corrected(every), *indexes(directory, histories)]

    def _seeds(self, directory: Path) -> dict[int, list[Record]]:
        """Return the records of the seeds, by their numbers: the archive, and the unique topic."""
        lines = enumerate((directory / ARCHIVE).read_bytes().split(b"\n"), 1)
        found = {SEEDS_TO: [Record(Source("", SEEDS_TO, n), None, v, (), -1) for n, v in lines]}
        for p, records in self.raw.outputs["unique"].items():
            n = SEEDS_TO - 1 - p
            found[n] = [replace(e, source=replace(e.source, partition=n)) for e in records]
        return found

    def _histories(
        self, secret: bytes, *inputs: Mapping[int, Sequence[Input]]
    ) -> Iterator[History]:
        """Yield what each group should have done with its *inputs*."""
        skipped = {(SEEDS_TO, 0): 1}  # a file has no line 0
        logs = self.raw.changelog[0], self.later
        for path, log, each in zip(self.configs, logs, inputs, strict=True):
            config = load_config([path])
            policy = law.Settings(threshold=config.similarity.threshold)
            history = history_of(config.scheme(), secret)
            history = replace(history, settings=policy, skipped=skipped)
            yield history.follow(SavedLog(log), each)
            skipped |= {(p, 0): at for p, at in history.known.items() if p < SEEDS_FROM}

    def _corrected(self, every: Sequence[Input]) -> Iterator[str]:
        """Yield what was not released or sent back exactly once, byte for byte."""
        copies = [own(each) for some in self.raw.outputs["unique"].values()
                  for each in some if is_released(each)]  # fmt: skip
        known = {each.record.key: each.record for each in every}
        wanted = Counter(each.record.key for each in every if each.id in self.released)
        if (have := Counter(each.key for each in copies)) != wanted:
            yield f"B released: {have}, not {wanted}"
        sent = {(each.record.key or b"") + b"#1" for each in every if each.kind == "missing_text"}
        back = {key: each for key, each in known.items() if (key or b"").endswith(b"#1")}
        if sent != back.keys():
            yield f"B replayed: {sorted(back)}, not {sorted(sent)}"
        pairs = [(each, known[each.key]) for each in copies if each.key in known]
        pairs += [(each, known[key[:-2]]) for key, each in back.items() if key]
        for copy, first in pairs:
            if (copy.value, copy.headers[:-1], copy.timestamp) != (
                first.value, first.headers, first.timestamp
            ):  # fmt: skip
                yield f"C corrected: {copy} is not {first}"

    def _input(self, record: Record) -> Input:
        """Return what a record was to the old group."""
        mended = record.source.offset >= self.mended_at.get(record.source.partition, 0)
        return as_input(record) if mended else Input(record, *kinds_of(record))


def indexes(directory: Path, histories: Sequence[History]) -> Iterator[str]:
    """Yield what is wrong with the indexes, and with those that the last backups hold."""
    store, secret = DirectoryStore(directory / "backups"), read_seed(directory / "seed")
    for name, history in zip("wn", histories, strict=True):
        paths = sorted(directory.glob(f"{name}[0-9]"))
        identities = [read_identity(each, seed=secret) for each in paths]
        ids = {each.index_id for each in identities if each}
        for index_id in ids.intersection(manifest.index_ids(store)):
            paths.append(directory / f"restored-{name}")
            shutil.rmtree(paths[-1], ignore_errors=True)
            download.restore(store, download.of_index(store, index_id), paths[-1])
        for path in paths:
            yield from map(str, judge_index(path, secret, history))


def as_input(record: Record) -> Input:
    """Return what *record* is to a group that reads a text under both names."""
    value = record.value and record.value.replace(b'"body"', b'"text"')
    return Input(record, *kinds_of(replace(record, value=value)))


def own(record: Record) -> Record:
    """Return *record* with a key that no other one has: one that came back has the same key."""
    headers = dict(record.headers)  # behind a side topic it has the name of a foreign header
    attempts = headers.get(ATTEMPTS, headers.get(ATTEMPTS.replace(outputs.OURS, outputs.THEIRS)))
    return record if attempts is None else replace(record, key=(record.key or b"") + b"#1")


def is_released(record: Record) -> bool:
    return any(name == RELEASED for name, _ in record.headers)


def noted(record: Record) -> bool:
    """Return whether the record is a release's copy, or a note."""
    return is_released(record) or header(record, "__streamfilter.note") is not None


if __name__ == "__main__":
    kept = Path(sys.argv[1])
    wrong = pickle.loads((kept / OPERATED).read_bytes()).judged(kept)
    print("\n".join(wrong) or "nothing found")
