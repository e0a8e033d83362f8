"""The files of `evaluate`: a run's outputs, a truth file, and a run of its own over a sample.

A truth file has tab-separated columns ``id_a  id_b  jaccard  …``, plain or packed.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from streamfilter.assembly import policy_for, reader_for, sketcher_for
from streamfilter.config.configuration import Config
from streamfilter.documents.sketching import scope_of
from streamfilter.files.formats.lines import lines_of
from streamfilter.files.inputs import copy_first, documents_of, pass_over, records_in
from streamfilter.files.run import FileRun, filter_files, no_progress
from streamfilter.files.state import scratch
from streamfilter.index.directory.seed_file import MEASURING
from streamfilter.matching.verdict import envelope
from streamfilter.model import Verdict
from streamfilter.quality.judge import evaluate, forwarded
from streamfilter.quality.report import Report
from streamfilter.quality.run import Placed, Run, Truth, digest, given_of, placed_of
from streamfilter.quality.sample.record_sample import RecordSample, measure_records
from streamfilter.quality.sample.text_sample import BruteForceSample, measure
from streamfilter.similarity.sketch import digester_for
from streamfilter.stops import BrokenInput


def run_now(
    config: Config,
    inputs: Sequence[str],
    *,
    seed: bytes,
    advanced: Callable[[int], None] = no_progress,
) -> Run:
    """Filter *inputs* into a temporary directory, and return what went where."""
    with scratch() as directory:
        names = ("unique", "duplicates", "dead")
        unique, duplicates, dead = (str(directory / name) for name in names)
        job = FileRun(inputs, unique, duplicates, dead, seed=seed)
        filter_files(config, job, advanced=advanced)
        return read_run(inputs, config, unique=unique, duplicates=duplicates, dead_letter=dead)


class Evaluation(Struct, frozen=True):
    """The answer of `evaluate`: the verdicts of a run, and the pairs of a sample by brute force."""

    report: Report
    sample: BruteForceSample | RecordSample | None

    def as_json(self) -> dict[str, Any]:
        extra = {} if self.sample is None else {"sample": self.sample.as_json()}
        return self.report.as_json() | extra

    def as_text(self) -> str:
        parts = [self.report, self.sample] if self.sample else [self.report]
        return "\n\n".join(each.as_text() for each in parts)


def evaluate_sample(
    config: Config, inputs: Sequence[str], *, records: int, recall_from: float,
    precision_from: float, seed: bytes,
) -> Evaluation:  # fmt: skip
    """Filter the first *records* lines of *inputs* and judge the result by brute force."""
    with scratch() as directory:
        path = str(directory / "input")
        copy_first(inputs, config, Path(path), records=records)
        found = list(documents_of([path], config, rejected=pass_over))
        run = run_now(config, [path], seed=seed)
    if config.input.id is None:  # an id is a place, and the copy is removed
        shown = inputs[0] if len(inputs) == 1 else "input"
        found = [replace(each, id=each.id.replace(path, shown)) for each in found]
        run = _moved(run, path, shown)
    ids, texts = [each.id for each in found], [each.text for each in found]
    values = [each.values for each in found]
    sketcher, threshold = sketcher_for(config.scheme(), seed=seed), config.similarity.threshold
    scopes = [scope_of(each) for each in found] if sketcher.scheme.scope else None
    sample: BruteForceSample | RecordSample
    if config.input.records:
        rules = policy_for(config).field_rules
        sample = measure_records(
            ids, texts, sketcher, rules=rules, threshold=threshold, scopes=scopes
        )
    else:
        policy, kept = policy_for(config), forwarded(run)
        sample = measure(
            ids, texts, sketcher, policy=policy, kept=kept, scopes=scopes, values=values
        )
    pairs = sample.pairs
    rows = zip(pairs.later.tolist(), pairs.earlier.tolist(), pairs.similarity.tolist(), strict=True)
    alike = [(ids[later], ids[earlier], similarity) for later, earlier, similarity in rows]
    contained = [
        pair[:2] for pair, each in zip(alike, pairs.contained.tolist(), strict=True) if each
    ]
    truth = Truth(alike, contained)
    report = evaluate(run, truth, recall_from=recall_from, precision_from=precision_from)
    return Evaluation(report, sample)


def _moved(run: Run, path: str, shown: str) -> Run:
    """Return *run* with the ids of its records, which begin with *path*, beginning with *shown*."""
    given = [replace(each, id=each.id and each.id.replace(path, shown)) for each in run.given]
    placed = [
        replace(each, match_id=each.match_id and each.match_id.replace(path, shown))
        for each in run.placed
    ]
    return replace(run, given=given, placed=placed)


def read_run(
    inputs: Sequence[str], config: Config, *, unique: str, duplicates: str, dead_letter: str | None
) -> Run:
    """Return the records of *inputs*, and the output that each one went to, or raise `Stop`.

    If the configuration drops short texts, any record may be missing: only the filter could say
    which texts are short.
    """
    reader, droppable = reader_for(config), config.input.short_text == "drop"
    digester = digester_for(config.scheme(), seed=MEASURING)
    given = [
        given_of(record, reader, digester, order=(rank,), droppable=droppable)
        for rank, record in enumerate(records_in(inputs, config))
    ]
    forwarded = records_in([unique], config)
    placed = [Placed("unique", Verdict.UNIQUE, digest(each.value or b"")) for each in forwarded]
    placed += _envelopes(duplicates, "duplicates")
    if dead_letter is not None:
        placed += _envelopes(dead_letter, "dead_letter")
    return Run(given, placed)


def _envelopes(path: str, place: str) -> Iterator[Placed]:
    for line in lines_of(path):
        try:
            record = envelope.decode(line.value or b"")
        except ValueError as error:
            raise BrokenInput(f"{path}, line {line.source.offset}: {error}") from None
        yield placed_of(record, place)


HEADER = "id_a"
COLUMNS = 3  # columns that are read; others (intersection, union) may follow


def read_truth(path: str) -> Truth:
    """Return the pairs in the file at *path*, without a first line that begins with ``id_a``."""
    lines = ((line.source.offset, line.value or b"") for line in lines_of(path))
    return Truth(_pairs(path, lines))


def _pairs(path: str, lines: Iterator[tuple[int, bytes]]) -> Iterator[tuple[str, str, float]]:
    for number, raw in lines:
        columns = raw.decode("utf-8", "replace").rstrip("\r").split("\t")
        if number == 1 and columns[0] == HEADER:
            continue
        trouble = _trouble(columns)
        if trouble:
            raise BrokenInput(
                f"{path}, line {number}: {trouble}\n    cure: write id_a, id_b and their Jaccard "
                "similarity parted by tabs, such as doc-4<tab>doc-9<tab>0.914"
            )
        yield columns[0], columns[1], float(columns[2])


def _trouble(columns: list[str]) -> str:
    if len(columns) < COLUMNS:
        return f"{len(columns)} column{'s' * (len(columns) > 1)} instead of at least {COLUMNS}"
    if columns[0] == columns[1]:
        return "a pair of an id with itself"
    try:
        similarity = float(columns[2])
    except ValueError:
        return "the third column is no number"
    return "" if 0 <= similarity <= 1 else f"a similarity of {similarity}; it must be 0 to 1"
