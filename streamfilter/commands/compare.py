"""``compare``: how similar are two texts, and would the filter notice?"""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

import click

from streamfilter.commands import standard
from streamfilter.commands.options import as_json, config_options, load, output_option
from streamfilter.seeds import MEASURING
from streamfilter.similarity.comparison import Comparison, compare
from streamfilter.similarity.scheme import KINDS, Normalisation, Scheme, Shingling
from streamfilter.similarity.shape import Shape

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


def text_of(argument: str) -> str:
    """Return the argument itself, or the text of the file that ``@path`` names."""
    if not argument.startswith("@"):
        return argument
    try:
        return Path(argument[1:]).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise click.BadParameter(f"cannot read {argument[1:]} as UTF-8 text: {error}") from error


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
    """Say how similar the texts A and B are; @path reads a file.

    \b
    Examples:
      streamfilter compare "the cat sat on the mat" "the red cat sat on the mat"
      streamfilter compare @old.txt @new.txt --shingle char:5 -o json
    """
    config = load(files, overrides)
    scheme = config.scheme()
    if scheme.fields:
        raise click.UsageError(
            "compare takes texts, and input.format is fields; `streamfilter query` and `explain` "
            "take a record as JSON"
        )
    if shingle:
        scheme = replace(scheme, shingling=shingling(shingle))
    if raw:
        scheme = replace(scheme, normalisation=RAW)
    found = compare(text_of(a), text_of(b), scheme, seed=MEASURING)
    if output == "json":
        standard.answer(as_json(_fields(found)))
    else:
        standard.answer(_report(found, scheme, config.similarity.threshold))


def _fields(found: Comparison) -> dict[str, object]:
    return {name: list(v) if isinstance(v, tuple) else v for name, v in asdict(found).items()}


def _report(found: Comparison, scheme: Scheme, threshold: float) -> str:
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
        f"shared bands  {found.shared_bands} of {scheme.bands}; such a pair meets with "
        f"probability {chance:.4f}",
        f"verdict       {_verdict(found, threshold)}",
    ]
    return "\n".join(lines)


def _verdict(found: Comparison, threshold: float) -> str:
    if found.equal_text:
        return "exact_duplicate: equal after normalisation"
    if not all(found.shingles):
        return "unique: a text shorter than one shingle is compared as a whole only"
    if found.jaccard < threshold:
        return f"unique: below the threshold {threshold}"
    if not found.shared_bands:
        return f"unique: at or above the threshold {threshold}, but the bands miss this pair"
    return f"near_duplicate: at or above the threshold {threshold}"
