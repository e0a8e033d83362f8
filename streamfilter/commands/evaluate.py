"""``streamfilter evaluate``: was a run right, and would it be on this input?"""

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import click

from streamfilter.assembly import reader_for
from streamfilter.commands.options import (
    Number,
    answer,
    file_option,
    inputs_argument,
    output_option,
    over_files,
    plot_option,
)
from streamfilter.commands.similarity_options import config_of, seed_of, similarity_options
from streamfilter.config.configuration import Config
from streamfilter.files.evaluation import Evaluation, evaluate_sample, read_run, read_truth, run_now
from streamfilter.files.inputs import check_read_again
from streamfilter.files.outputs import write_whole
from streamfilter.files.summary import all_broken
from streamfilter.model import Verdict
from streamfilter.monitoring.curve_picture import Curve, Dot, Dots, picture
from streamfilter.process import standard
from streamfilter.process.signals import INTERRUPTION
from streamfilter.quality.judge import evaluate
from streamfilter.quality.run import Run
from streamfilter.quality.sample.text_sample import BruteForceSample
from streamfilter.stops import ExitCode

UNSOUND = 1  # exit code of a run that broke a promise, or missed a required share

EPILOG = """\b
Examples:
  streamfilter evaluate news.jsonl.gz --sample 3000 --plot curve.svg
  streamfilter evaluate --pairs truth.tsv.gz news.jsonl.gz
  streamfilter evaluate --pairs truth.tsv.gz news.jsonl.gz \\
      --unique unique.jsonl --duplicates duplicates.jsonl

Without --unique and --duplicates the filter runs first, in a temporary directory. To judge a
finished run, give its outputs and --pairs.

Without --pairs the truth is made by brute force: the exact similarity of all pairs of the first
--sample records, because duplicates are seldom far apart. A table shows how often pairs of each
similarity share a band, and what the theory says. The time grows with the square of the sample.

\b
A line of TRUTH is a pair, separated by tabs: id_a, id_b, Jaccard similarity. All other pairs count
as dissimilar.

Exit code 1 if a record is lost or doubled, or matched with itself, a later document or a withheld
one. Also if recall is below --min-recall, or precision below --min-precision.
"""


@click.command("evaluate", epilog=EPILOG)
@inputs_argument("INPUT...")
@file_option("--pairs", "File of the true pairs (TSV, also .gz).", metavar="TRUTH")
@click.option("--sample", type=click.IntRange(2), default=5_000, show_default=True, metavar="N",
              help="Records to judge by brute force, without --pairs.")  # fmt: skip
@plot_option("Draw the measured S-curve and the theory's, without --pairs.")
@file_option("--unique", "Unique output of a finished run of filter.")
@file_option("--duplicates", "Duplicates of that run.")
@file_option("--dead-letter", "Dead letters of that run, if it wrote any.")
@click.option("--topics", is_flag=True, help="Judge the topics of --config instead of files.")
@click.option("--recall-from", type=Number(0, 1), metavar="J",
              help="A document is expected to be withheld if an earlier kept one is this similar "
                   "[.84; by brute force: the threshold].")  # fmt: skip
@click.option("--precision-from", type=Number(0, 1), metavar="J",
              help="A withheld document is right if its match is this similar [.76; by brute "
                   "force: the threshold].")  # fmt: skip
@click.option("--min-recall", type=Number(0, 1), default=0.0, metavar="SHARE",
              help="Exit with 1 if recall is lower.")  # fmt: skip
@click.option("--min-precision", type=Number(0, 1), default=0.0, metavar="SHARE",
              help="Exit with 1 if precision is lower.")  # fmt: skip
@similarity_options
@output_option
def command(
    inputs: tuple[str, ...], pairs: str | None, sample: int, plot: Path | None, topics: bool,
    recall_from: float | None, precision_from: float | None, min_recall: float,
    min_precision: float, output: str, **others: Any,
) -> int:  # fmt: skip
    """Compare a run with the true similarities: lost records, recall, precision.

    INPUT are the input files of the run, in their order.
    """
    _check_usage(inputs, topics, others)
    config = config_of(others, None if topics else inputs)
    low, high = (0.76, 0.84) if pairs else (config.similarity.threshold,) * 2
    recall_from = high if recall_from is None else recall_from
    precision_from = low if precision_from is None else precision_from
    shares = {"recall_from": recall_from, "precision_from": precision_from}
    with nullcontext() if topics else INTERRUPTION.listening():  # a topic's reader does not ask
        if pairs is None:
            if topics or others["unique"]:
                raise click.UsageError(
                    "a finished run needs a truth: give --pairs TRUTH, or only the INPUT"
                )
            if plot is not None and config.input.records:
                raise click.UsageError(
                    "records are found by equal fields, not by chance; omit --plot"
                )
            seed = seed_of(others, config)
            found = evaluate_sample(config, inputs, records=sample, seed=seed, **shares)
        else:
            if topics:
                from streamfilter.kafka import output_reader  # Kafka's client is large

                run = output_reader.read_run(config, reader_for(config))
            else:
                run = _files_run(config, inputs, others)
            found = Evaluation(evaluate(run, read_truth(pairs), **shares), None)
            for note in () if found.report.sound else run.notes:
                standard.say(note)
    report = found.report
    if report.given and report.verdicts[Verdict.REJECTED.value] == report.given:
        raise all_broken(report.given)  # a report of nothing but zeros would look like an answer
    if plot is not None and pairs is None:
        write_whole(plot, _picture(found, format=plot.suffix.lower()[1:]))
    answer(found, output)
    return ExitCode.OK if report.passes(min_recall, min_precision) else UNSOUND


def _check_usage(inputs: tuple[str, ...], topics: bool, others: dict[str, Any]) -> None:
    outputs = [others["unique"], others["duplicates"]]
    if topics and (inputs or any(outputs)):
        raise click.UsageError("--topics reads the topics of --config; leave the files out")
    if not topics and not inputs:
        raise click.UsageError("name the INPUT files that the run was given, or use --topics")
    if any(outputs) and not all(outputs):
        raise click.UsageError("give both --unique and --duplicates, or neither")
    if others["dead_letter"] and not all(outputs):
        raise click.UsageError("--dead-letter needs --unique and --duplicates")


def _files_run(config: Config, inputs: tuple[str, ...], others: dict[str, Any]) -> Run:
    """Return the run whose outputs are given; without them, filter now."""
    if others["unique"]:
        places = {name: others[name] for name in ("unique", "duplicates", "dead_letter")}
        return read_run(inputs, config, **places)
    check_read_again(inputs, who="evaluate --pairs without a run's outputs")
    with over_files("filtering", inputs) as advanced:
        return run_now(config, inputs, seed=seed_of(others, config), advanced=advanced)


def _picture(found: Evaluation, *, format: str) -> bytes:
    """Return the measured curve over the theoretical one, with the run's recall and precision."""
    report, sample = found.report, found.sample
    assert isinstance(sample, BruteForceSample), "checked: records have no S-curve"
    dots = [Dot(each.similarity, each.share, *each.interval) for each in sample.curve]
    return picture(
        title=f"{sample.shape}: measured on all pairs of {sample.documents:,} documents",
        subtitle=f"recall {report.recalled}, precision {report.precise}",
        lines=[Curve("theory", sample.shape.curve(200))],
        dots=[Dots("measured, with 95 % intervals", dots)],
        threshold=sample.threshold,
        format=format,
    )
