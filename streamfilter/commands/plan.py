"""``plan``: which bands and rows find how many duplicates, before anything is built."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from streamfilter.commands.curve_picture import Line, save_picture
from streamfilter.commands.options import as_json, config_options, load, output_option
from streamfilter.similarity.curve import (
    collision_probability,
    false_negative_share,
    false_positive_share,
    widest_rows,
)
from streamfilter.stops import ConfigError, Problem

STEPS = 20
WIDTH = 40
KEY_BYTES = 17
"""Bytes on disk of one band entry, measured at a million documents."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A band shape and what it does at a threshold."""

    bands: int
    rows: int
    slots: int
    threshold: float

    def probability(self, similarity: float) -> float:
        """Return the chance that a pair of *similarity* becomes a candidate."""
        return collision_probability(similarity, bands=self.bands, rows=self.rows)

    @property
    def curve(self) -> list[tuple[float, float]]:
        """Return (similarity, probability) in steps of .05."""
        points = [round(i / STEPS, 2) for i in range(STEPS + 1)]
        return [(s, self.probability(s)) for s in points]


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
    "--plot",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE.svg",
    help="Draw the S-curve into this file, too.",
)
@config_options
@output_option
def command(
    threshold: float | None, slots: int | None, recall: float | None,
    bands: int | None, rows: int | None, plot: Path | None,
    files: tuple[Path, ...], overrides: tuple[str, ...], output: str,
) -> None:  # fmt: skip
    """Choose bands and rows for a threshold and a recall, or say what a shape finds.

    \b
    Examples:
      streamfilter plan                                the configured (or default) plan
      streamfilter plan --threshold 0.7 --recall 0.95
      streamfilter plan --bands 9 --rows 13            what a popular optimiser picks for 0.8
      streamfilter plan --plot curve.svg               the same curve as a picture
    """
    similarity = load(files, overrides).similarity
    if (bands is None) is not (rows is None):
        raise click.UsageError("--bands and --rows belong together: give both, or neither")
    wanted = similarity.recall if recall is None else recall
    at, width = threshold or similarity.threshold, slots or similarity.slots
    chosen = Plan(*_shape(at, width, wanted, bands, rows), slots=width, threshold=at)
    if output == "json":
        click.echo(as_json(_fields(chosen)))
    else:
        click.echo(_report(chosen, wanted))
    if plot is not None:
        _draw(chosen, plot)
    if recall is not None and chosen.probability(at) < recall:
        raise ConfigError([_misses(chosen, recall)])


def _shape(
    threshold: float, slots: int, recall: float, bands: int | None, rows: int | None
) -> tuple[int, int]:
    """Return the shape asked for, or the planned one."""
    if bands is None or rows is None:
        try:
            return widest_rows(threshold, slots=slots, recall=recall)
        except ValueError as error:
            cure = "more --slots, or a lower --recall"
            raise ConfigError([Problem("plan", str(error), cure)]) from error
    if bands * rows > slots:
        got = f"{bands} bands x {rows} rows = {bands * rows} slots, but there are {slots}"
        raise ConfigError([Problem("plan", got, f"--slots {bands * rows}, or a smaller shape")])
    return bands, rows


def _misses(plan: Plan, recall: float) -> Problem:
    found = plan.probability(plan.threshold)
    got = f"{plan.bands} x {plan.rows} finds {found:.3f} of the pairs at {plan.threshold}"
    return Problem(
        "plan", f"{got}, wanted {recall}", "leave out --bands and --rows to be shown one"
    )


def _draw(plan: Plan, path: Path) -> None:
    label = f"{plan.bands} bands x {plan.rows} rows"
    points = [(i / 200, plan.probability(i / 200)) for i in range(201)]
    save_picture(
        path,
        title=f"Which pairs meet: {label}",
        lines=[Line(label, points)],
        threshold=plan.threshold,
    )


def _fields(plan: Plan) -> dict[str, object]:
    return {
        "bands": plan.bands,
        "rows": plan.rows,
        "slots": plan.slots,
        "threshold": plan.threshold,
        "recall_at_threshold": plan.probability(plan.threshold),
        "curve": [{"similarity": s, "candidate_probability": p} for s, p in plan.curve],
    }


def _report(plan: Plan, recall: float) -> str:
    """Return the plan for a person: numbers, then the curve."""
    shape = {"bands": plan.bands, "rows": plan.rows}
    found, one = plan.probability(plan.threshold), plan.threshold**plan.rows
    missed = false_negative_share(plan.threshold, **shape)
    extra = false_positive_share(plan.threshold, **shape)
    lines = [
        f"{plan.bands} bands x {plan.rows} rows of {plan.slots} slots, threshold {plan.threshold}",
        f"  finds {found:.4f} of the pairs at the threshold (wanted {recall}); one band {one:.4f}",
        f"  misses {missed:.4f} of the pairs above it, if they spread evenly",
        f"  looks at {extra:.4f} of the pairs below it; verification rejects those",
        f"  band tables: about {(plan.bands + 1) * KEY_BYTES} bytes a document on disk",
        "",
        "  similarity  candidate",
    ]
    for similarity, probability in plan.curve:
        mark = "<- threshold" if similarity == plan.threshold else ""
        bar = "#" * round(probability * WIDTH)
        lines.append(f"  {similarity:>10.2f}  {probability:9.4f}  {bar:<{WIDTH}} {mark}".rstrip())
    return "\n".join(lines)
