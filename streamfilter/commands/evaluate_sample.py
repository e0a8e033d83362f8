"""``evaluate`` without a truth: brute force over a sample, its table, its JSON and its picture."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamfilter.commands.curve_picture import Curve, Dot, Dots, save_picture
from streamfilter.commands.evaluate_records import records_as_json, records_as_text
from streamfilter.commands.evaluation_report import share_as_text
from streamfilter.config.configuration import Config
from streamfilter.files.finished_run import read_run
from streamfilter.files.run import FileRun, filter_files
from streamfilter.files.sampling import copy_first, documents_of, pass_over
from streamfilter.files.scratch import scratch
from streamfilter.process.visible import inline
from streamfilter.quality.judge import evaluate, forwarded
from streamfilter.quality.record_sample import RecordSample, measure_records
from streamfilter.quality.report import Report
from streamfilter.quality.run import Truth
from streamfilter.quality.text_sample import BruteForceSample, measure
from streamfilter.similarity.sketch import Sketcher
from streamfilter.stops import ExitCode, Stop


@dataclass(frozen=True, slots=True)
class Sampled:
    """The verdicts of a run over the sample, and the pairs themselves."""

    report: Report
    sample: BruteForceSample | RecordSample


def evaluate_sample(
    config: Config, inputs: tuple[str, ...], *, records: int, recall_from: float,
    precision_from: float, seed: bytes,
) -> Sampled:  # fmt: skip
    """Filter the first *records* lines of *inputs* and judge that by brute force."""
    with scratch() as directory:
        names = ("input", "unique", "duplicates", "dead")
        path, unique, duplicates, dead = (str(directory / name) for name in names)
        copy_first(inputs, config, Path(path), records=records)
        found = list(documents_of([path], config, rejected=pass_over))
        ids, texts = [id_ for id_, _ in found], [text for _, text in found]
        filter_files(config, FileRun([path], unique, duplicates, dead, seed=seed))
        run = read_run(
            [path], config, unique=unique, duplicates=duplicates, dead_letter=dead,
            short_dropped=config.input.short_text == "drop",
        )  # fmt: skip
    sample = _measured(config, ids, texts, forwarded(run), seed)
    pairs = sample.pairs
    truth = Truth(
        (ids[later], ids[earlier], similarity)
        for later, earlier, similarity in zip(
            pairs.later.tolist(), pairs.earlier.tolist(), pairs.similarity.tolist(), strict=True
        )
    )
    report = evaluate(run, truth, recall_from=recall_from, precision_from=precision_from)
    return Sampled(report, sample)


def _measured(
    config: Config, ids: list[str], texts: list[str], kept: NDArray[np.bool_], seed: bytes
) -> BruteForceSample | RecordSample:
    """Compare all pairs, of texts or of records."""
    sketcher, threshold = Sketcher(config.scheme(), seed=seed), config.similarity.threshold
    if config.input.records:
        return measure_records(ids, texts, sketcher, threshold=threshold)
    recall = config.similarity.recall
    return measure(ids, texts, sketcher, threshold=threshold, recall=recall, kept=kept)


def sample_as_json(sample: BruteForceSample | RecordSample) -> dict[str, Any]:
    """Return the sample's findings as JSON values."""
    if isinstance(sample, RecordSample):
        return records_as_json(sample)
    shape = sample.shape
    return {
        "documents": sample.documents,
        "threshold": sample.threshold,
        "bands": shape.bands,
        "rows": shape.rows,
        "slots": shape.slots,
        "layout": shape.layout,
        "similar_pairs": sample.similar,
        "false_negatives": sample.similar - sample.found,
        "false_positives": sample.false_candidates,
        "missed": [
            {"id": each.id, "other": each.other, "similarity": each.similarity}
            for each in sample.missed
        ],
        "curve": [
            {
                "from": bucket.low,
                "to": bucket.high,
                "similarity": bucket.similarity,
                "pairs": bucket.pairs,
                "met": bucket.met,
                "measured": bucket.share,
                "interval": list(bucket.interval),
                "theory": bucket.expected / bucket.pairs,
            }
            for bucket in sample.curve
        ],
        "recommendation": sample.recommendation,
    }


def sample_as_text(sample: BruteForceSample | RecordSample) -> str:
    """Return the sample's findings as lines for a terminal."""
    if isinstance(sample, RecordSample):
        return records_as_text(sample)
    in_vain = sample.false_candidates / max(sample.documents, 1)
    lines = [
        f"bands          {sample.shape}: {sample.found:,} of {sample.similar:,} pairs from "
        f"{sample.threshold:g} on meet, {sample.similar - sample.found:,} do not (false negatives)",
        f"               {sample.false_candidates:,} pairs below it meet a forwarded one "
        f"and are rejected (false positives), {in_vain:.2f} a document",
        "",
        "pairs of different texts; copies of a text count once",
        "similarity         pairs       met   measured   95 % interval   theory",
    ]
    for bucket in sample.curve:
        low, high = bucket.interval
        lines.append(
            f"{bucket.low:.2f} to {bucket.high:.2f}{bucket.pairs:>12,}{bucket.met:>10,.1f}"
            f"{bucket.share:>11.4f}   {low:.3f} to {high:.3f}{bucket.expected / bucket.pairs:>9.4f}"
        )
    if sample.missed:
        lines += ["", "pairs that never met (the most similar)"]
        lines += [f"  {inline(each.id)}  and  {inline(each.other)}  (J {each.similarity:.3f})"
                  for each in sample.missed]  # fmt: skip
    return "\n".join([*lines, "", f"recommended    {sample.recommendation}"])


def draw(sampled: Sampled, path: Path) -> None:
    """Draw the measured curve over the theoretical one, and say what the run came to.

    Raises:
        Stop: the file cannot be written; or records have no such curve.
    """
    report, sample = sampled.report, sampled.sample
    if isinstance(sample, RecordSample):
        message = "records meet by equal fields and have no S-curve; leave --plot out"
        raise Stop(message, exit_code=ExitCode.USAGE)
    dots = [Dot(each.similarity, each.share, *each.interval) for each in sample.curve]
    save_picture(
        path,
        title=f"{sample.shape}: measured on all pairs of {sample.documents:,} documents",
        subtitle=f"recall {share_as_text(report.recalled)}, precision "
        f"{share_as_text(report.precise)}",
        lines=[Curve("theory", sample.shape.curve(200))],
        dots=[Dots("measured, with 95 % intervals", dots)],
        threshold=sample.threshold,
    )
