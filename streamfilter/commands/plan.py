"""``plan``: which bands and rows find how many duplicates, before anything is built."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import timedelta
from itertools import islice
from pathlib import Path
from typing import Any

import click
import numpy as np

from streamfilter.commands.curve_picture import Curve, PictureFile, save_picture
from streamfilter.commands.options import (
    as_json,
    completed_files,
    config_options,
    load,
    output_option,
)
from streamfilter.commands.plan_capacity import (
    as_fields,
    capacity_of,
    capacity_options,
    report,
)
from streamfilter.commands.similarity_options import file_options, overrides_of_files
from streamfilter.config.configuration import Config
from streamfilter.files.inputs import for_files
from streamfilter.files.sampling import documents_of
from streamfilter.files.summary import all_broken, no_documents
from streamfilter.index.directory.seed_file import MEASURING
from streamfilter.model import Malformed
from streamfilter.process import standard
from streamfilter.quality.brute_force import all_pairs
from streamfilter.similarity.scheme import LAYOUTS, Scheme
from streamfilter.similarity.shape import MissesRecall, Shape, plan, require
from streamfilter.similarity.sketch import Sketcher
from streamfilter.stops import ConfigError, Problem

WIDTH = 40
MILLION = 1_000_000
CONTAINED, RATIOS = 0.9, (1.2, 2.0)
"""Examples for `verify.containment`: a containment, and two ratios of the longer text's size."""

SAMPLE_RECORDS = 2_000
"""Records of ``--sample`` that are compared with each other: two million pairs."""
FLOOR = 1e-6
"""All pairs that share a shingle."""

Spread = list[tuple[float, float]]


def spread_of(_context: click.Context, _option: click.Parameter, value: str | None) -> Spread:
    """Read ``similarity:number,...``, such as ``0.1:1000000,0.5:20``.

    Raises:
        click.BadParameter: it is none.
    """
    spread: Spread = []
    for part in value.split(",") if value else ():
        similarity, _, number = part.partition(":")
        try:
            pair = float(similarity), float(number)
        except ValueError:
            pair = -1.0, -1.0
        if not (0 <= pair[0] <= 1 and pair[1] >= 0):
            raise click.BadParameter(f"{part!r} is no similarity:number; write 0.1:1000000,0.5:20")
        spread.append(pair)
    return spread


@click.command()
@click.option("--threshold", type=click.FloatRange(0, 1, min_open=True), help="Similarity wanted.")
@click.option("--slots", type=click.IntRange(1, 1024), help="Slots of the signature.")
@click.option(
    "--recall",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    help="Share of the pairs at the threshold that must become candidates.",
)
@click.option("--bands", type=click.IntRange(1, 1024), help="Look at this shape instead ...")
@click.option("--rows", type=click.IntRange(1, 1024), help="... and say what it finds.")
@click.option(
    "--layout", type=click.Choice(LAYOUTS), help="bands, or keys of slots chosen at random."
)
@click.option(
    "--spread",
    callback=spread_of,
    metavar="S:N,...",
    help="A document meets N earlier ones of similarity S: count its candidates.",
)
@click.option(
    "--sample",
    metavar="FILE",
    shell_complete=completed_files,
    help=f"Count over all pairs of the first {SAMPLE_RECORDS:,} records of this file.",
)
@click.option(
    "--plot",
    type=PictureFile(),
    metavar="FILE.svg",
    help="Draw the S-curve into this file, too.",
)
@file_options
@capacity_options
@config_options
@output_option
def command(
    threshold: float | None, slots: int | None, recall: float | None,
    bands: int | None, rows: int | None, layout: str | None, spread: Spread,
    sample: str | None, plot: Path | None,
    rate: float | None, retention: timedelta | None, documents: int | None, shingles: int,
    files: tuple[Path, ...], overrides: tuple[str, ...], output: str, **sampled: Any,
) -> None:  # fmt: skip
    """Choose bands and rows for a threshold and a recall, or say what a shape finds.

    And how large a memory becomes, from measured costs: disk, RAM, changelog, time to restore.

    \b
    Examples:
      streamfilter plan                                the configured (or default) plan
      streamfilter plan --threshold 0.7 --recall 0.95
      streamfilter plan --bands 9 --rows 13            what a popular optimiser picks for 0.8
      streamfilter plan --layout random --bands 125 --rows 3
      streamfilter plan --spread 0.1:1000000,0.5:20    candidates of a document
      streamfilter plan --sample news.jsonl --text /body    what it means for these documents
      streamfilter plan --plot curve.svg               the same curve as a picture
      streamfilter plan --rate 50 --retention 30d      50 documents a second, for a month
      streamfilter plan --documents 5000000            the last five million
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
    seen = _seen(shape, at, sample, config) if sample is not None else None
    takes = capacity_of(
        shape, config, rate=rate, retention=retention, documents=documents, shingles=shingles
    )
    if output == "json":
        standard.answer(as_json(_fields(shape, at, spread, seen) | as_fields(takes)))
    else:
        standard.answer(_report(shape, at, wanted, spread, seen, report(takes)))
    if plot is not None:
        _draw(shape, at, plot)
    if recall is not None:
        _refuse(shape, at, recall)


@dataclass(frozen=True, slots=True)
class ShapeCounts:
    """The expected results of a shape on all pairs of a sample, by their exact similarities."""

    documents: int
    broken: int
    """Records before the last of them that could not be read."""
    similar: int
    """Pairs at or above the threshold."""
    missed: float | None
    """Share of these that is expected never to meet; None without any."""
    extra: float
    """Share of the other pairs that is expected to meet, and is compared in vain."""
    candidates: float
    """How many earlier ones of the sample a document is expected to meet."""


def _seen(shape: Shape, threshold: float, path: str, config: Config) -> ShapeCounts:
    """Count over *path* what cannot be known without documents: how similarities spread."""
    if config.scheme().fields:
        raise click.UsageError("records meet by equal fields, which is no matter of chance")
    config = for_files(config, [path])
    broken: list[Malformed] = []
    found = documents_of([path], config, rejected=lambda _, malformed: broken.append(malformed))
    texts = [text for _, text in islice(found, SAMPLE_RECORDS)]
    if not texts:
        raise all_broken(len(broken)) if broken else no_documents(path)
    sketcher = Sketcher(config.scheme(), seed=MEASURING)
    similarity = all_pairs(texts, sketcher, floor=FLOOR).similarity
    curve = np.array(shape.curve(1_000))
    chances = np.interp(similarity, curve[:, 0], curve[:, 1])
    similar = similarity >= threshold
    others = len(texts) * (len(texts) - 1) // 2 - int(similar.sum())
    return ShapeCounts(
        documents=len(texts),
        broken=len(broken),
        similar=int(similar.sum()),
        missed=float((1 - chances[similar]).mean()) if similar.any() else None,
        extra=float(chances[~similar].sum()) / max(others, 1),
        candidates=float(chances.sum()) / max(len(texts), 1),
    )


def _planned(threshold: float, slots: int, recall: float, layout: str) -> Shape:
    """Return the planner's shape.

    Raises:
        ConfigError: no shape reaches the recall.
    """
    try:
        return plan(threshold, slots=slots, recall=recall, layout=layout)
    except ValueError as error:
        cure = "more --slots, or a lower --recall"
        raise ConfigError([Problem("plan", str(error), cure)]) from error


def _possible(shape: Shape) -> Shape:
    """Return *shape*, which was asked for.

    Raises:
        ConfigError: there is no such shape.
    """
    try:
        Scheme(shape.bands, shape.rows, shape.slots, layout=shape.layout)
    except ValueError as error:
        needed = shape.bands * shape.rows
        cure = f"--slots {needed}, a smaller shape, or --layout random"
        raise ConfigError([Problem("plan", str(error), cure)]) from error
    return shape


def _refuse(shape: Shape, threshold: float, recall: float) -> None:
    """Refuse a shape that misses the recall that was asked for."""
    try:
        require(shape, threshold=threshold, recall=recall)
    except MissesRecall as error:
        raise ConfigError([Problem("plan", error.got, error.cure)]) from error


def _draw(shape: Shape, threshold: float, path: Path) -> None:
    points = [(i / 200, shape.probability(i / 200)) for i in range(201)]
    save_picture(
        path,
        title=f"Which pairs meet: {_name(shape)}",
        lines=[Curve(_name(shape), points)],
        threshold=threshold,
    )


def _name(shape: Shape) -> str:
    return f"{shape.bands} {'keys' if shape.layout == 'random' else 'bands'} x {shape.rows} rows"


def _fields(
    shape: Shape, threshold: float, spread: Spread, seen: ShapeCounts | None
) -> dict[str, object]:
    fields = {"candidates_per_document": shape.candidates(spread)} if spread else {}
    return {
        "bands": shape.bands,
        "rows": shape.rows,
        "slots": shape.slots,
        "layout": shape.layout,
        "threshold": threshold,
        "recall_at_threshold": shape.probability(threshold),
        "assumed": "similarities spread evenly" if seen is None else None,
        "false_negatives": seen.missed if seen else shape.false_negatives(threshold),
        "false_positives": seen.extra if seen else shape.false_positives(threshold),
        **({"sample": asdict(seen)} if seen else {}),
        **fields,
        "bytes_per_million_documents": shape.bytes_per_document() * MILLION,
        "curve": [{"similarity": s, "candidate_probability": p} for s, p in shape.curve()],
    }


def _report(
    shape: Shape, threshold: float, recall: float, spread: Spread, seen: ShapeCounts | None,
    takes: list[str],
) -> str:  # fmt: skip
    """Return the plan for a person: numbers, what a memory *takes*, then the curve."""
    found, one = shape.probability(threshold), Shape(1, shape.rows, shape.slots, shape.layout)
    contained = ", ".join(f"{shape.contained(CONTAINED, x):.2f} in {x:g} times" for x in RATIOS)
    lines = [
        f"{_name(shape)} of {shape.slots} slots, threshold {threshold}",
        f"  finds {found:.4f} of the pairs at the threshold (wanted {recall}); "
        f"one key {one.probability(threshold):.4f}",
        *_about_pairs(shape, threshold, seen),
        f"  finds a text of which {CONTAINED:.0%} is in another: {contained} its size",
        f"  disk: about {shape.bytes_per_document() / 1000:.2f} GB per million documents of "
        "170 shingles",
        *takes,
    ]
    if spread:
        lines.append(f"  candidates per document: {shape.candidates(spread):.3f}")
    lines += ["", "  similarity  candidate"]
    for similarity, probability in shape.curve():
        mark = "<- threshold" if similarity == threshold else ""
        bar = "#" * round(probability * WIDTH)
        lines.append(f"  {similarity:>10.2f}  {probability:9.4f}  {bar:<{WIDTH}} {mark}".rstrip())
    return "\n".join(lines)


def _about_pairs(shape: Shape, threshold: float, seen: ShapeCounts | None) -> list[str]:
    """Return what is missed and what is compared in vain; that depends on the documents."""
    if seen is None:
        missed, extra = shape.false_negatives(threshold), shape.false_positives(threshold)
        return [
            f"  misses {missed:.4f} of the pairs above it, if they spread evenly",
            f"  looks at {extra:.4f} of the pairs below it, if they spread evenly; in most texts "
            "nearly all lie near 0",
            "    and it is one in thousands: --sample FILE counts it. Verification rejects those",
        ]
    known = seen.missed is not None
    share = f"{seen.missed:.4f} of them are missed" if known else "what is missed is not known"
    broken = f" ({seen.broken:,} records could not be read)" if seen.broken else ""
    return [
        f"  of {seen.documents:,} documents of the sample{broken} {seen.similar:,} pairs reach the "
        f"threshold; {share}",
        f"  looks at {seen.extra:.2g} of the pairs below it; verification rejects those",
        f"  a document meets {seen.candidates:.3f} earlier ones of the sample",
    ]
