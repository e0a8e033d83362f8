"""``streamfilter filter``: the filter over files, no broker needed."""

import time
from pathlib import Path
from typing import Any

import click

from streamfilter.commands.options import (
    Named,
    as_json,
    dead_letter_option,
    file_option,
    inputs_argument,
    output_option,
    over_files,
)
from streamfilter.commands.similarity_options import config_of, seed_of, similarity_options
from streamfilter.files.formats.lines import STDIN
from streamfilter.files.keep_longest import KEEPS, filter_keeping_longest
from streamfilter.files.run import FileRun, filter_files
from streamfilter.files.summary import all_broken
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

With --state DIR the index is kept, and later runs compare with the documents of earlier runs. You
may add lines to an input. If a run was stopped or killed, run the same command again: the result is
the same. With index.retention or index.documents_max, a complete run that is repeated may lack
documents that were forgotten. Then a warning is printed; use another directory for --state. An
input is known by its name as given. So news.jsonl and ./news.jsonl are two inputs, and all lines of
the second are duplicates.

Outputs are replaced only when complete, objects of S3 too. A kill may leave parts of an upload: let
a rule of the bucket expire them (AbortIncompleteMultipartUpload). Ctrl-C or SIGTERM ends a run
between two batches, and the outputs stay as they were. A second signal ends it at once. With --keep
longest, the longest text of each group takes the place of the first one, and the evidence names it
("kept"). The evidence of all duplicates is then held in memory, some 3 KB each. Without --state
the same inputs and --seed always give the same outputs, byte for byte.
"""


@click.command("filter", epilog=EPILOG)
@inputs_argument("INPUT...", required=True)
@file_option("--unique", "Lines or rows to keep (- for stdout).", required=True)
@file_option("--duplicates", "Withheld lines with their evidence.", required=True)
@dead_letter_option
@click.option("--keep", type=click.Choice(KEEPS), default=KEEPS[0], show_default=True,
              help="Which document of a group is kept. longest reads the files twice, and takes no "
                   "--state.")  # fmt: skip
@click.option("--state", type=Named(file_okay=False, path_type=Path), metavar="DIR",
              help="Keep the index in this directory. Without it, the index is removed after the "
                   "run.")  # fmt: skip
@click.option("--stdin-name", default=STDIN, metavar="NAME",
              help="Name of standard input for --state.")  # fmt: skip
@similarity_options
@output_option
def command(
    inputs: tuple[str, ...], unique: str, duplicates: str, dead_letter: str | None, keep: str,
    state: Path | None, stdin_name: str, output: str, **similarity: Any,
) -> int:  # fmt: skip
    """Keep the first line or row of each group of near-duplicates in files.

    INPUT is JSON Lines, CSV, Avro or Parquet (--format); - is standard input. It may also be a
    directory, or a pattern in quotes, such as 'news/*.jsonl'. All paths may be objects of S3
    (s3://BUCKET/KEY; a prefix ends with /). All but Parquet may be packed (gzip,
    bzip2, xz, Zstandard). The kept records have the input's format, and all others are written as
    JSON Lines. An output is packed if its name ends in .gz, .bz2, .xz or .zst.
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
    summary.seconds = time.monotonic() - started
    if output == "json":
        standard.answer(as_json(summary))
    else:
        standard.say(summary.as_text())  # an output may be standard output
    if summary.records and summary.places["dead_letter"] == summary.records:
        raise all_broken(summary.records)
    return ExitCode.OK
