"""``plan``: which bands and rows find how many duplicates, before anything is built."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import click

from streamfilter.assembly import memory_for
from streamfilter.commands.options import (
    Number,
    answer,
    config_options,
    file_option,
    load,
    output_option,
    plot_option,
)
from streamfilter.commands.similarity_options import file_options, overrides_of_files
from streamfilter.config.configuration import Config
from streamfilter.config.settings.types import parse_duration
from streamfilter.files.outputs import write_whole
from streamfilter.monitoring.capacity import Capacity, capacity, remembered
from streamfilter.preflight.load import BYTES_OF_A_SHINGLE, LoadPlan, load_of
from streamfilter.preflight.plan import SAMPLE_RECORDS, ShapePlan, count_sample
from streamfilter.similarity.scheme import LAYOUTS, Scheme
from streamfilter.similarity.statistics.shape import MissesRecall, Shape, plan, require
from streamfilter.stops import ConfigError, Problem

SHINGLES = 170  # of a document of 1 kB
RATE_MAX, SIZE_MAX, SHINGLES_MAX = 1e9, 1 << 30, 1 << 30
DOCUMENTS_MAX = 10**15


def duration_of(
    _context: click.Context, _option: click.Parameter, value: str | None
) -> timedelta | None:
    """Read a duration, such as ``30d``.

    Raises `click.BadParameter`: it is none, or no time at all.
    """
    try:
        duration = None if value is None else parse_duration(value)
    except ValueError as error:
        raise click.BadParameter(f"{value!r}: {error}") from error
    if duration is not None and duration <= timedelta(0):
        raise click.BadParameter("nothing would be remembered; write 30d, or leave it out")
    return duration


@click.command()
@click.option("--threshold", type=Number(0, 1, min_open=True),
              help="Similarity that makes a duplicate.")  # fmt: skip
@click.option("--slots", type=click.IntRange(1, 1024), help="Slots of the signature.")
@click.option("--recall", type=Number(0, 1, min_open=True, max_open=True),
              help="Share of the pairs at the threshold that must become candidates."
              )  # fmt: skip
@click.option("--bands", type=click.IntRange(1, 1024),
              help="Number of bands. With --rows: shows what this shape finds.")  # fmt: skip
@click.option("--rows", type=click.IntRange(1, 1024), help="Slots of a band.")
@click.option("--layout", type=click.Choice(LAYOUTS),
              help="Which slots make a key: those of a band, or slots chosen at random."
              )  # fmt: skip
@file_option("--sample", "Count pairs and candidates among the first "
             f"{SAMPLE_RECORDS:,} records of this file.", metavar="FILE")  # fmt: skip
@plot_option("Draw the S-curve into this file, too.")
@file_options
@click.option("--rate", type=Number(0, RATE_MAX, min_open=True), metavar="R",
              help="Documents a second: shows the size of an index for them.")  # fmt: skip
@click.option("--retention", callback=duration_of, metavar="T",
              help="With --rate: how long a document is remembered, such as 30d.")  # fmt: skip
@click.option("--documents", type=click.IntRange(1, DOCUMENTS_MAX), metavar="N",
              help="Most documents that are remembered.")  # fmt: skip
@click.option("--size", type=click.IntRange(1, SIZE_MAX), metavar="B",
              help="With --rate: mean bytes of a record. Shows how many processes the load needs, "
                   "and in which roles.")  # fmt: skip
@click.option("--shingles", type=click.IntRange(1, SHINGLES_MAX), metavar="K",
              help="Mean number of shingles of a document.  "
                   f"[default: {SHINGLES}; with --size a {BYTES_OF_A_SHINGLE}th of it]"
              )  # fmt: skip
@config_options
@output_option
def command(
    threshold: float | None, slots: int | None, recall: float | None,
    bands: int | None, rows: int | None, layout: str | None,
    sample: str | None, plot: Path | None,
    rate: float | None, retention: timedelta | None, documents: int | None, size: int | None,
    shingles: int | None,
    files: tuple[Path, ...], overrides: tuple[str, ...], output: str, **sampled: Any,
) -> None:  # fmt: skip
    """Choose bands and rows for a threshold and a recall, or show what a shape finds.

    It also shows how large an index becomes, from measured costs: disk, RAM, changelog, restore.

    \b
    Examples:
      streamfilter plan                                the configured (or default) plan
      streamfilter plan --threshold 0.7 --recall 0.95
      streamfilter plan --bands 9 --rows 13            what a popular optimiser picks for 0.8
      streamfilter plan --layout random --bands 125 --rows 3
      streamfilter plan --sample news.jsonl --text /body    what it means for these documents
      streamfilter plan --plot curve.svg               the same curve as a picture
      streamfilter plan --rate 50 --retention 30d      50 documents a second, for a month
      streamfilter plan --documents 5000000            the last five million
      streamfilter plan --rate 20000 --size 1024 --documents 100000000    one process, or more
    """
    if (bands is None) is not (rows is None):
        raise click.UsageError("--bands and --rows belong together: give both, or neither")
    config = load(files, (*overrides, *overrides_of_files(sampled)))
    wanted = config.similarity.recall if recall is None else recall
    at = threshold or config.similarity.threshold
    planned = any(each is not None for each in (threshold, slots, recall, layout))
    width, how = slots or config.similarity.slots, layout or config.similarity.layout
    if bands is not None and rows is not None:
        shape = _possible(Shape(bands, rows, width, how))
    else:
        shape = _planned(at, width, wanted, how) if planned else Shape.of(config.scheme())
    if sample is not None and config.scheme().fields:
        raise click.UsageError("records are found by equal fields, not by chance; omit --sample")
    if shingles is None:
        shingles = SHINGLES if size is None else max(1, size // BYTES_OF_A_SHINGLE)
    found = ShapePlan(
        shape,
        at,
        wanted,
        None if sample is None else count_sample(shape, at, sample, config),
        _capacity(shape, config, rate, retention, documents, shingles),
        _load(shape, rate, size, shingles),
    )
    answer(found, output)
    if plot is not None:
        write_whole(plot, found.picture(plot.suffix.lower()[1:]))
    if recall is not None:
        try:
            require(shape, threshold=at, recall=recall)
        except MissesRecall as error:
            raise ConfigError([Problem("plan", error.got, error.cure)]) from error


def _planned(threshold: float, slots: int, recall: float, layout: str) -> Shape:
    """Return the planner's shape, or raise `ConfigError`: no shape reaches the recall."""
    try:
        return plan(threshold, slots=slots, recall=recall, layout=layout)
    except ValueError as error:
        cure = "give more --slots, or a lower --recall"
        raise ConfigError([Problem("plan", str(error), cure)]) from error


def _possible(shape: Shape) -> Shape:
    """Return *shape*, which was asked for, or raise `ConfigError`: there is no such shape."""
    try:
        Scheme(shape.bands, shape.rows, shape.slots, layout=shape.layout)
    except ValueError as error:
        needed = shape.bands * shape.rows
        cure = f"give --slots {needed}, a smaller shape, or --layout random"
        raise ConfigError([Problem("plan", str(error), cure)]) from error
    return shape


def _capacity(
    shape: Shape, config: Config, rate: float | None, retention: timedelta | None,
    documents: int | None, shingles: int,
) -> Capacity | None:  # fmt: skip
    """Return the capacity of the requested memory; None if none is requested.

    Raises `click.UsageError`: it would grow for ever, a rate is missing, or no index is so large.
    """
    if retention is not None and rate is None:
        raise click.UsageError("--retention needs --rate: how many documents come in that time")
    if rate is not None and retention is None and documents is None:
        raise click.UsageError(
            "an index of a --rate alone grows for ever; give --retention, or --documents"
        )
    most = remembered(rate=rate, retention=retention, most=documents)
    if most is not None and not 1 <= most <= DOCUMENTS_MAX:
        raise click.UsageError(
            f"{most:,} documents come in that time; give a --rate and --retention of 1 to "
            f"{DOCUMENTS_MAX:,}"
        )
    memory = memory_for(config)
    return None if most is None else capacity(shape, most, shingles=shingles, memory=memory)


def _load(shape: Shape, rate: float | None, size: int | None, shingles: int) -> LoadPlan | None:
    """Return what the load needs; None if no size is given.

    Raises `click.UsageError`: the rate is missing.
    """
    if size is None:
        return None
    if rate is None:
        raise click.UsageError("--size needs --rate: how many documents come in a second")
    return load_of(shape, rate, size, shingles)
