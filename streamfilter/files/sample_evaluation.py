"""Runs the filter in a temporary directory, and judges a sample of its input by brute force."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from streamfilter.config.configuration import Config
from streamfilter.files.finished_run import read_run
from streamfilter.files.run import FileRun, filter_files, no_progress
from streamfilter.files.sampling import copy_first, documents_of, pass_over
from streamfilter.files.scratch import scratch
from streamfilter.quality.judge import evaluate, forwarded
from streamfilter.quality.record_sample import RecordSample, measure_records
from streamfilter.quality.report import Report
from streamfilter.quality.run import Run, Truth
from streamfilter.quality.text_sample import BruteForceSample, measure
from streamfilter.similarity.sketch import Sketcher


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


@dataclass(frozen=True, slots=True)
class Sampled:
    """The verdicts of a run over the sample, and the pairs themselves."""

    report: Report
    sample: BruteForceSample | RecordSample


def evaluate_sample(
    config: Config, inputs: Sequence[str], *, records: int, recall_from: float,
    precision_from: float, seed: bytes,
) -> Sampled:  # fmt: skip
    """Filter the first *records* lines of *inputs* and judge the result by brute force."""
    with scratch() as directory:
        path = str(directory / "input")
        copy_first(inputs, config, Path(path), records=records)
        found = list(documents_of([path], config, rejected=pass_over))
        run = run_now(config, [path], seed=seed)
    ids, texts = [id_ for id_, _ in found], [text for _, text in found]
    sketcher, threshold = Sketcher(config.scheme(), seed=seed), config.similarity.threshold
    sample: BruteForceSample | RecordSample
    if config.input.records:
        sample = measure_records(ids, texts, sketcher, threshold=threshold)
    else:
        recall, kept = config.similarity.recall, forwarded(run)
        sample = measure(ids, texts, sketcher, threshold=threshold, recall=recall, kept=kept)
    pairs = sample.pairs
    rows = zip(pairs.later.tolist(), pairs.earlier.tolist(), pairs.similarity.tolist(), strict=True)
    truth = Truth((ids[later], ids[earlier], similarity) for later, earlier, similarity in rows)
    report = evaluate(run, truth, recall_from=recall_from, precision_from=precision_from)
    return Sampled(report, sample)
