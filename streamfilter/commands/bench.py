"""``streamfilter bench``: how fast is signing and the whole filter, and is it right?"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from streamfilter.bench import catalogue
from streamfilter.bench.result import BenchResult, Options
from streamfilter.files.outputs import write_whole
from streamfilter.matching.verdict import envelope
from streamfilter.process import standard
from streamfilter.stops import ExitCode

WRONG = 1  # exit code of a run whose results were not right

EPILOG = """\b
Examples:
  streamfilter bench --quick                       does everything work? (half a minute)
  streamfilter bench --only sketch                 signing, stage by stage
  streamfilter bench --text news.jsonl --json run.json

Benchmarks beside other libraries, of large indexes and of Kafka are in the repository: tests/bench.

Exit code 1 if a result is wrong: a record lost, recall, precision. Speed fails nothing.
"""


@click.command("bench", epilog=EPILOG)
@click.option("--json", "json_path", type=click.Path(dir_okay=False, path_type=Path),
              metavar="PATH", help="Save all numbers, machine, versions and settings.")  # fmt: skip
@click.option("--only", multiple=True, type=click.Choice(list(catalogue.BENCHMARKS)),
              help="Run this benchmark; may be given again.")  # fmt: skip
@click.option("--quick", is_flag=True, help="Small inputs and one round.")
@click.option("--repeat", type=click.IntRange(1, 1_000), metavar="N", help="Rounds [5].")
@click.option("--text", type=click.Path(exists=True, dir_okay=False, path_type=Path),
              metavar="FILE", help="JSON Lines with a text field, measured too.")  # fmt: skip
def command(
    json_path: Path | None, only: tuple[str, ...], quick: bool, repeat: int | None,
    text: Path | None,
) -> int:  # fmt: skip
    """Measure speed on realistic text, and check the results."""
    options = Options(repeat=repeat or (1 if quick else 5), quick=quick, text=text, say=say)
    answers = measured(only or tuple(catalogue.BENCHMARKS), options, json_path)
    return ExitCode.OK if all(answer.passed for answer in answers) else WRONG


def measured(
    names: Sequence[str],
    options: Options,
    json_path: Path | None,
    benchmarks: Mapping[str, str] = catalogue.BENCHMARKS,
) -> list[BenchResult]:
    """Run the benchmarks *names*, and print each result; save all of them after each one."""
    answers: list[BenchResult] = []
    for answer in catalogue.results(names, options, benchmarks):
        answers.append(answer)
        standard.answer(f"{answer}\n")
        _save(json_path, answers, options)
    return answers


def say(doing: str) -> None:
    """Print what is measured next: in place on a terminal, else one line each, for a log."""
    if sys.stderr.isatty():
        click.echo(f"\r\x1b[K... {doing}\r", err=True, nl=False)
    else:
        click.echo(f"... {doing}", err=True)


def _save(path: Path | None, answers: list[BenchResult], options: Options) -> None:
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, envelope.pretty(catalogue.as_json(answers, options)).encode() + b"\n")
