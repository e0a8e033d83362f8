"""``compare``: how similar are two texts, and would the filter notice?"""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

import click

from streamfilter.assembly import policy_for, sketcher_for
from streamfilter.commands.options import as_json, config_options, load, output_option, text_of
from streamfilter.commands.views import as_points, as_sketched, as_verdict, points_in_words
from streamfilter.config.problems import show
from streamfilter.index.directory.seed_file import MEASURING, seed_at
from streamfilter.matching.explanation import PairExplanation, one_after_the_other
from streamfilter.process import standard
from streamfilter.similarity.comparison import Comparison, compare
from streamfilter.similarity.scheme import KINDS, Normalisation, Scheme, Shingling
from streamfilter.similarity.sketch import Dropped
from streamfilter.similarity.statistics.shape import Shape
from streamfilter.similarity.text.normalisation import Normaliser

RAW = Normalisation("none", casefold=False, whitespace=False, digits=False, invisible=False)


def shingling(value: str) -> Shingling:
    """Read ``kind:size``, such as ``word:3``.

    Raises:
        click.BadParameter: with the forms that are right.
    """
    kind, _, size = value.partition(":")
    if kind not in KINDS or not size.isdecimal() or not 1 <= int(size) <= 32:
        raise click.BadParameter(
            f"{value!r} is no shingle; write word:3 or char:5 or stopword:2 (size 1 to 32)"
        )
    return Shingling(kind, int(size))


@click.command()
@click.argument("a")
@click.argument("b")
@click.option("--shingle", metavar="KIND:SIZE", help="word:3, char:5, ... (default: configured).")
@click.option("--raw", is_flag=True, help="Compare the texts as they are, without normalising.")
@config_options
@output_option
def command(
    a: str, b: str, shingle: str | None, raw: bool,
    files: tuple[Path, ...], overrides: tuple[str, ...], output: str,
) -> None:  # fmt: skip
    """Show how similar A and B are, and how the filter judges B after A.

    The keys are those of index.seed_file, if it is set. An index without it has a seed of its own,
    so an estimate may differ a little there.

    @path reads a text from a file; @@ stands for an @ at its beginning.

    A and B are texts of one scope; with input.format: fields they are records as JSON.

    \b
    Examples:
      streamfilter compare "the cat sat on the mat" "the red cat sat on the mat"
      streamfilter compare @old.txt @new.txt --shingle char:5 -o json
    """
    config = load(files, overrides)
    scheme = config.scheme()
    if shingle:
        normal = replace(
            scheme.normalisation, boilerplate=""
        )  # a table is for one kind of shingles
        scheme = replace(scheme, shingling=shingling(shingle), normalisation=normal)
    if raw:
        scheme = replace(scheme, normalisation=RAW)
    one, other = (as_sketched(scheme, text_of(each)) for each in (a, b))
    seed = seed_at(config.index.seed_file) or MEASURING
    sketcher = sketcher_for(scheme, seed=seed)
    pair = one_after_the_other(
        one,
        other,
        sketcher,
        policy=policy_for(config),
        bucket_cap=config.index.bucket_cap,
    )
    found = None if scheme.fields else compare(one, other, scheme, seed=seed)
    prepare = Normaliser(scheme.normalisation).stages
    prepared = {} if found is None else {"a": prepare(one), "b": prepare(other)}
    both = {"a": sketcher.boilerplate_in(one), "b": sketcher.boilerplate_in(other)}
    dropped = {name: each for name, each in both.items() if each is not None}
    if output == "json":
        taken = {name: asdict(each) for name, each in dropped.items()}
        more = {"boilerplate": taken} if taken else {}
        standard.answer(as_json({**_fields(found, pair, scheme), "prepared": prepared, **more}))
    elif found is None:
        standard.answer(_record_report(pair, scheme))
    else:
        stages = [_stage(*each) for each in prepared.items()] if scheme.normalisation.cleans else []
        lost = [_lost(*each) for each in dropped.items()]
        standard.answer("\n".join([_report(found, pair, scheme), *stages, *lost]))


def _fields(found: Comparison | None, pair: PairExplanation, scheme: Scheme) -> dict[str, object]:
    fields = {} if found is None else asdict(found)
    verdict = {**as_verdict(pair.explanation), "reason": _reason(pair)}
    finding = pair.beside.other.finding
    numbers = {"similarity": finding.similarity, "wanted": finding.wanted}
    return {
        **{name: list(v) if isinstance(v, tuple) else v for name, v in fields.items()},
        **numbers,
        "bands": list(pair.beside.other.shared),
        **verdict,
        **as_points(scheme, pair.beside.other),
    }


def _report(found: Comparison, pair: PairExplanation, scheme: Scheme) -> str:
    """Return the comparison for a person."""
    low, high = found.interval
    chance = Shape.of(scheme).probability(found.jaccard)
    kind, size = scheme.shingling.kind, scheme.shingling.size
    lines = [
        f"Jaccard       {found.jaccard:.4f}   exact, on {kind} shingles of {size}",
        f"containment   {found.containment:.4f}   of the smaller text in the larger",
        f"estimate      {found.estimate:.4f}   95 % interval {low:.3f} to {high:.3f}, "
        f"{scheme.slots} slots",
        f"shingles      {found.shingles[0]} and {found.shingles[1]}",
        f"shared bands  {found.shared_bands} of {scheme.bands}; such a pair shares one "
        f"with probability {chance:.4f}",
        _verdict(pair),
    ]
    return "\n".join(lines)


def _stage(name: str, stages: list[tuple[str, str]]) -> str:
    """Return what each step made of a text, for a person."""
    lines = [f"{name.upper()} after {step:<14} {show(text)}" for step, text in stages]
    return "\n".join(lines) or f"{name.upper()} stays as it is"


def _lost(name: str, dropped: Dropped) -> str:
    """Return what the table of boilerplate took from a text, for a person."""
    head = f"{name.upper()} boilerplate  {dropped}"
    return "\n".join([head, *(f"    {show(each)}" for each in dropped.passages)])


def _record_report(pair: PairExplanation, scheme: Scheme) -> str:
    """Return the comparison of two records for a person."""
    other = pair.beside.other
    minimum = other.finding.policy.minimum_fields
    which = "all fields" if minimum is None else "the fields that both have"
    lines = [
        f"score         {other.finding.similarity:.4f}   of {which}",
        f"points        {points_in_words(as_points(scheme, other)['fields'])}",
        f"shared keys   {len(other.shared)} of {scheme.bands}",
        _verdict(pair),
    ]
    return "\n".join(lines)


def _verdict(pair: PairExplanation) -> str:
    """Return what the filter makes of B after A."""
    return f"verdict       {pair.explanation.decision.verdict.value}: {_reason(pair)}"


def _reason(pair: PairExplanation) -> str:
    if pair.explanation.decision.reason is not None:
        return pair.explanation.reason
    if not pair.remembered:
        return "A is too short to be judged and is not remembered (input.short_text)"
    return pair.beside.why
