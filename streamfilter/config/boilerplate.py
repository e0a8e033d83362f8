"""Checks of `similarity.normalise.boilerplate`: does the table fit the other settings?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from streamfilter.similarity.scheme import Shingling
from streamfilter.similarity.text.boilerplate import Table, TableError
from streamfilter.stops import Problem

if TYPE_CHECKING:
    from streamfilter.config.configuration import Config

KEY = "similarity.normalise.boilerplate"
MAKE = "make it with this configuration: streamfilter boilerplate FILE -o {path}"
EMPTIES = 0.5
"""Share of the documents with few shingles left above which a table is taken for a mistake."""


def refusal(config: Config) -> Problem | None:
    """Return why texts of *config* have no table of boilerplate; None if they may have one."""
    kind = config.similarity.shingle.kind
    if config.input.records:
        return Problem(KEY, "records are compared field by field and have no shingles",
                       "remove it")  # fmt: skip
    if kind == "char":
        return Problem(KEY, "nearly all runs of a few characters are common in a language, so a "
                       "table would empty the texts", "set similarity.shingle.kind: word, or "
                       "remove it")  # fmt: skip
    if kind == "stopword":
        return Problem(KEY, "stop-word shingles already leave out menus and adverts, and which "
                       "others a text keeps depends on its whole text",
                       "set similarity.shingle.kind: word, or remove it")  # fmt: skip
    return None


def problems(config: Config) -> Iterator[Problem]:
    """Report a table that is missing, damaged, or made for other settings."""
    settings = config.similarity.normalise
    path, table = settings.boilerplate, settings.table
    if path is None:
        return
    refused = refusal(config)
    if refused is not None:
        yield refused
        return
    cure = MAKE.format(path=path)
    if not isinstance(table, Table):
        yield Problem(KEY, str(table), cure)
        return
    try:
        table.require(settings.normalisation, Shingling(**config.similarity.shingle.model_dump()))
    except TableError as error:
        yield Problem(KEY, f"{path}: {error}", cure)


def warnings(config: Config) -> Iterator[Problem]:
    """Report a table that leaves most documents of its own sample few shingles."""
    table = config.similarity.normalise.table
    if isinstance(table, Table) and table.sample.shares[-1] > EMPTIES:
        yield Problem(
            KEY,
            f"the table leaves {table.sample.shares[-1]:.0%} of the documents of its own sample "
            "fewer than 8 shingles: they are compared by very little",
            "make it with a higher --share or --at-least, or from a larger sample",
            warning=True,
        )


CHECK = (("similarity.normalise", "similarity.shingle", "input.format", "input.fields"), problems)
