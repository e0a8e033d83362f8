"""``compare``: how similar are two texts, and would the filter notice?"""

from dataclasses import replace
from pathlib import Path

import click

from streamfilter.commands.options import answer, config_options, load, output_option, text_of
from streamfilter.inquiry.pair import PairReport
from streamfilter.similarity.scheme import KINDS, Normalisation, Shingling

RAW = Normalisation("none", casefold=False, whitespace=False, digits=False, invisible=False)


def shingling(value: str) -> Shingling:
    """Read ``kind:size``, such as ``word:3``.

    Raises `click.BadParameter`: with the forms that are right.
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
    if shingle:  # a table of boilerplate is for one kind of shingles
        normal = replace(scheme.normalisation, boilerplate="")
        scheme = replace(scheme, shingling=shingling(shingle), normalisation=normal)
    if raw:
        scheme = replace(scheme, normalisation=RAW)
    answer(PairReport.of(config, scheme, text_of(a), text_of(b)), output)
