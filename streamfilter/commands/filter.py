"""``streamfilter filter``: the filter over files, no broker needed."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from streamfilter.commands.options import Named, completed_files, output_option
from streamfilter.commands.progress import over_files
from streamfilter.commands.similarity_options import config_of, seed_of, similarity_options
from streamfilter.files.formats.lines import STDIN
from streamfilter.files.keep_longest import KEEPS, filter_keeping_longest
from streamfilter.files.run import FileRun, filter_files
from streamfilter.files.summary import Summary, all_broken
from streamfilter.matching.verdict import envelope
from streamfilter.process import standard
from streamfilter.process.signals import INTERRUPTION
from streamfilter.stops import ExitCode

EPILOG = """\b
Example:
  streamfilter filter news.jsonl.gz --unique unique.jsonl --duplicates duplicates.jsonl
\b
  unique.jsonl      each story's first line, byte for byte
  duplicates.jsonl  {"verdict":"near_duplicate","id":"doc-9","similarity":0.914,
                     "matches":[{"id":"doc-4", ...}], ..., "payload":"<the line>"}

With --state DIR the index is kept, and later runs compare with what earlier runs saw. Lines may be
added to an input. A run that was stopped or killed is run again, with the same result. With
index.retention or index.documents_max, documents may be forgotten when a complete run is repeated.
Then a warning is printed; use another directory for --state. An input is known by its name as
given: news.jsonl and ./news.jsonl are two inputs, and the second has only duplicates.

Outputs are replaced only when complete. Ctrl-C or SIGTERM ends a run between two batches and leaves
them as they were; a second one ends it at once. With --keep longest, the longest text of each group
takes the place of the first one, and the evidence names it ("kept"). The evidence of all duplicates
is then held in memory, some 3 KB each. Without --state the same inputs always give the same
outputs, byte for byte (--seed).
"""


@click.command("filter", epilog=EPILOG)
@click.argument(
    "inputs", nargs=-1, required=True, metavar="INPUT...", shell_complete=completed_files
)
@click.option(
    "--unique",
    required=True,
    metavar="PATH",
    shell_complete=completed_files,
    help="Lines or rows to keep (- for stdout).",
)
@click.option(
    "--duplicates",
    required=True,
    metavar="PATH",
    shell_complete=completed_files,
    help="Withheld lines with their evidence.",
)
@click.option(
    "--dead-letter",
    metavar="PATH",
    shell_complete=completed_files,
    help="File for lines that cannot be read. Without it the first such line stops the command "
    "(exit 65). With it, only a file of nothing else does.",
)
@click.option(
    "--keep",
    type=click.Choice(KEEPS),
    default=KEEPS[0],
    show_default=True,
    help="Which document of a group is kept. longest reads the files twice, and keeps no state.",
)
@click.option(
    "--state",
    type=Named(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Keep the index in this directory. Without it, the index is removed after the run.",
)
@click.option(
    "--stdin-name", default=STDIN, metavar="NAME", help="Name of standard input for --state."
)
@similarity_options
@output_option
def command(
    inputs: tuple[str, ...],
    unique: str,
    duplicates: str,
    dead_letter: str | None,
    keep: str,
    state: Path | None,
    stdin_name: str,
    output: str,
    **similarity: Any,
) -> int:
    """Keep the first of every group of near-duplicate lines, or rows, of files.

    INPUT is JSON Lines, CSV or Avro, plain or packed (gzip, bzip2, xz, Zstandard), or Parquet
    (--format); - is standard input. What is kept comes out in the input's format. An output is
    packed if its name ends in .gz, .bz2, .xz or .zst.
    """
    if output == "json" and STDIN in (unique, duplicates, dead_letter):
        raise click.UsageError(
            "-o json and an output cannot both use standard output; give the output a file name"
        )
    config = config_of(similarity, inputs)
    shadow = config.output.mode == "shadow"
    if state is not None and similarity["seed"] is not None:
        raise click.UsageError("--state keeps the seed that its index was made with; remove --seed")
    seed = None if state is not None else seed_of(similarity, config)
    job = FileRun(inputs, unique, duplicates, dead_letter, state, stdin_name, shadow, seed)
    started = time.monotonic()
    with INTERRUPTION.listening(), over_files("filtering", inputs) as advanced:
        run = filter_keeping_longest if keep == "longest" else filter_files
        summary = run(config, job, advanced=advanced)
    _print(summary, time.monotonic() - started, output)
    if summary.records and summary.places["dead_letter"] == summary.records:
        raise all_broken(summary.records)
    return ExitCode.OK


def _print(summary: Summary, seconds: float, output: str) -> None:
    rate = summary.records / seconds if seconds > 0 else 0.0
    if output == "json":
        figures = {"seconds": round(seconds, 3), "records_per_second": round(rate)}
        standard.answer(envelope.pretty({**summary.as_json(), **figures}))
    else:
        standard.say(summary_line(summary, seconds, rate))


def summary_line(summary: Summary, seconds: float, rate: float) -> str:
    """Return the counts as a line: what came in, and each place with what went there."""
    places = summary.places
    verdicts = {verdict.value: count for verdict, count in summary.verdicts.items()}
    parts = [
        f"{places['unique']:,} unique",
        f"{places['duplicates']:,} duplicates ({verdicts.get('exact_duplicate', 0):,} exact, "
        f"{verdicts.get('near_duplicate', 0):,} near)",
        f"{places['dead_letter']:,} broken",
    ]
    if places["dropped"]:
        parts.append(f"{places['dropped']:,} dropped")
    unjudged = verdicts.get("passthrough", 0)
    note = f"; {unjudged:,} of the unique were not judged (empty or short)" if unjudged else ""
    again = f"; {summary.reread:,} re-read" if summary.reread else ""
    again += f"; {summary.updates:,} updates" if summary.updates else ""
    return (
        f"{summary.records:,} records = {' + '.join(parts)}{note}{again}; "
        f"{seconds:.1f} s, {rate:,.0f} records/s"
    )
