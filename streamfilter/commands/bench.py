"""``streamfilter bench``: how fast, stage by stage and beside others; and is it right?"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import click

from streamfilter.bench import catalogue
from streamfilter.bench.result import BenchResult, Options
from streamfilter.files.outputs import write_whole
from streamfilter.matching import envelope
from streamfilter.process import standard
from streamfilter.stops import ExitCode

WRONG = 1
"""Exit code of a run whose results were not right."""

PEERS = ("datasketch", "rensa", "gaoya")

EPILOG = """\b
Examples:
  streamfilter bench --quick                       does everything work? (a minute)
  streamfilter bench --only sketch --peers         signing, beside the libraries of the field
  streamfilter bench --only index --retention      does what forgets stay as it is?
  streamfilter bench --only filter --peers --json run.json --plot plots/

The rivals and the plots need an extra: pip install 'streamfilter[bench]'. The benchmark kafka
starts a real broker and needs Java and Maven.

Exit code 1 if a result is wrong: a record lost, recall, precision. Speed fails nothing.
"""


@click.command("bench", epilog=EPILOG)
@click.option("--json", "json_path", type=click.Path(dir_okay=False, path_type=Path),
              metavar="PATH", help="Save all numbers, machine, versions and settings.")  # fmt: skip
@click.option("--plot", "plots", type=click.Path(file_okay=False, path_type=Path), metavar="DIR",
              help="Draw what was measured as SVG files.")  # fmt: skip
@click.option("--only", multiple=True, type=click.Choice(list(catalogue.BENCHMARKS)),
              help="Run this benchmark; may be given again.")  # fmt: skip
@click.option("--retention", is_flag=True,
              help="index: one that forgets, over ten periods of its retention.")  # fmt: skip
@click.option("--peers", is_flag=True, help="Also run datasketch, rensa and gaoya.")
@click.option("--quick", is_flag=True, help="Small inputs and one round.")
@click.option("--large", is_flag=True, help="Also what takes many minutes.")
@click.option("--repeat", type=click.IntRange(1, 1_000), metavar="N", help="Rounds [5].")
@click.option("--text", type=click.Path(exists=True, dir_okay=False, path_type=Path),
              metavar="FILE", help="JSON Lines with a text field, measured too.")  # fmt: skip
def command(
    json_path: Path | None,
    plots: Path | None,
    only: tuple[str, ...],
    retention: bool,
    peers: bool,
    quick: bool,
    large: bool,
    repeat: int | None,
    text: Path | None,
) -> int:
    """Measure speed on realistic text, and check the results while at it."""
    _require_extra(peers=peers, plots=plots is not None)
    options = Options(
        repeat=repeat or (1 if quick else 5), quick=quick, large=large, retention=retention,
        peers=peers, text=text, say=_say,
    )  # fmt: skip
    # Without a choice all but the broker's, which not every machine can run.
    names = only or tuple(name for name in catalogue.BENCHMARKS if name != "kafka")
    answers: list[BenchResult] = []
    for answer in catalogue.results(names, options):
        answers.append(answer)
        standard.answer(f"{answer}\n")
        # Saved after each: what was measured is not lost with a later one's failure.
        _save(json_path, answers, options)
    if plots is not None:
        _plot(plots, answers)
    return ExitCode.OK if all(answer.passed for answer in answers) else WRONG


def _require_extra(*, peers: bool, plots: bool) -> None:
    """Refuse at the start what would fail in an hour."""
    wanted = (*(PEERS if peers else ()), *(("matplotlib",) if plots else ()))
    missing = [name for name in wanted if importlib.util.find_spec(name) is None]
    if missing:
        raise click.UsageError(
            f"{', '.join(missing)} not installed: pip install 'streamfilter[bench]'"
        )


def _say(doing: str) -> None:
    """Tell what is being measured: in place on a terminal, else a line each, for a log."""
    if sys.stderr.isatty():
        click.echo(f"\r\x1b[K... {doing}\r", err=True, nl=False)
    else:
        click.echo(f"... {doing}", err=True)


def _save(path: Path | None, answers: list[BenchResult], options: Options) -> None:
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, envelope.pretty(catalogue.as_json(answers, options)).encode())


def _plot(directory: Path, answers: list[BenchResult]) -> None:
    from streamfilter.bench.plot import draw  # slow to import, and of the extra

    directory.mkdir(parents=True, exist_ok=True)
    for answer in answers:
        for path in draw(answer, directory):
            standard.say(f"{path}")
