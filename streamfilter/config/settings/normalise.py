"""The settings ``similarity.normalise``: which differences between two texts do not count."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PlainSerializer,
    PrivateAttr,
    WithJsonSchema,
    model_validator,
)

from streamfilter.cleaning.folds import FOLDS
from streamfilter.cleaning.masks import MASKS, Mask, step_of
from streamfilter.config.settings.types import Section
from streamfilter.similarity.scheme import Normalisation
from streamfilter.similarity.text.boilerplate import Table, TableError, read_table


def _masks(value: object) -> object:
    """Return masks as names and (pattern, replacement).

    Raises `ValueError`: one of them is neither a name nor a mapping of these two.
    """
    value = [value] if isinstance(value, str) else value
    return tuple(map(_mask, value)) if isinstance(value, list | tuple) else value


def _mask(value: object) -> Mask:
    if isinstance(value, dict):
        if set(value) <= {"pattern", "as"} and isinstance(value.get("pattern"), str):
            return value["pattern"], str(value.get("as", ""))
    elif isinstance(value, str) and value in MASKS:
        return value
    elif isinstance(value, tuple | list) and len(value) == 2:
        return str(value[0]), str(value[1])
    raise ValueError(f"expected {', '.join(MASKS)}, or {{pattern: '...', as: word}}")


def _made(masks: tuple[Mask, ...]) -> tuple[Mask, ...]:
    """Return *masks*, if a step can be made of each."""
    list(step_of(masks))
    return masks


def _written(masks: tuple[Mask, ...]) -> list[object]:
    return [
        each if isinstance(each, str) else {"pattern": each[0], "as": each[1]} for each in masks
    ]


def _folds(value: object) -> object:
    value = (
        [value] if isinstance(value, str) else list(value) if isinstance(value, tuple) else value
    )
    if isinstance(value, list) and any(each not in tuple(FOLDS) for each in value):
        raise ValueError(f"expected a list of {', '.join(FOLDS)}")
    # One order for all: it is part of the scheme.
    return tuple(each for each in FOLDS if each in value) if isinstance(value, list) else value


_PATTERN = {
    "type": "object",
    "properties": {"pattern": {"type": "string"}, "as": {"type": "string"}},
    "required": ["pattern"],
    "additionalProperties": False,
}
Masks = Annotated[
    tuple[str | tuple[str, str], ...],
    BeforeValidator(_masks),
    AfterValidator(_made),
    PlainSerializer(_written),
    WithJsonSchema({"type": "array", "items": {"anyOf": [{"enum": list(MASKS)}, _PATTERN]}}),
]
Folds = Annotated[
    tuple[str, ...],
    BeforeValidator(_folds),
    PlainSerializer(list),
    WithJsonSchema({"type": "array", "items": {"enum": list(FOLDS)}}),
]


class Normalise(Section):
    """Which differences between two texts do not count.

    The steps run in the order of these settings, except that invisible characters go before unicode
    and white space goes last.
    """

    html: bool = False
    """The text is HTML: tags, comments, scripts and styles do not count, and entities are
    characters. Needs the extra html."""
    ansi: bool = False
    """Ignore the colour codes of a terminal."""
    quotes: bool = False
    """Ignore what a mail quotes: lines that begin with >, the line that introduces them, and all
    below an original message."""
    hyphens: bool = False
    """Join words that a hyphen splits at the end of a line."""
    mask: Masks = Field(
        default=(),
        description="What becomes one word, whatever it says: " + ", ".join(MASKS) + ". tracking "
        "keeps an address without the parameters of campaigns. Own ones are written as "
        "{pattern: '...', as: word}, in the syntax of RE2, and need the extra patterns; as: '' "
        "removes.",
    )
    unicode: Literal["NFKC", "NFC", "none"] = "NFKC"
    """Unicode normalisation; NFKC makes full-width and ligatures equal."""
    casefold: bool = True
    """Ignore upper and lower case."""
    fold: Folds = ()
    """Letters written in several ways become one. marks: accents, and vowel points of Arabic and
    Hebrew; arabic: forms of alef, yeh and kaf, and tatweel; apostrophes; digits of all scripts;
    turkish: dotted and dotless i."""
    digits: bool = False
    """Every digit becomes 0: for forms that differ in numbers of equal length. The mask number
    takes numbers of any length."""
    whitespace: bool = True
    """Runs of white space count as one space; between two characters of scripts without spaces
    (Chinese, Japanese, Thai) as nothing."""
    invisible: bool = True
    """Ignore what is never shown: soft hyphens, zero-width and direction marks, variation
    selectors, tags (Unicode's Default_Ignorable_Code_Point)."""

    boilerplate: Path | None = None
    """Table of shingles that do not count: `streamfilter boilerplate` writes it from a sample of
    the stream. It holds menus, footers, cookie banners and common phrases. null: all shingles
    count."""

    _table: Table | str | None = PrivateAttr(default=None)

    @model_validator(mode="after")
    def the_steps_can_be_made(self) -> Normalise:
        """Load what the steps need, once: a file that changes later does not change a process."""
        Normalisation(**{**dict(self), "boilerplate": ""}).cleaner()
        if self.boilerplate is not None:
            self._table = _table_at(self.boilerplate)
        return self

    @property
    def table(self) -> Table | str | None:
        """Return the table of boilerplate, why it cannot be used, or None if none is named."""
        return self._table

    @property
    def normalisation(self) -> Normalisation:
        """Return these settings as a part of the scheme, with the table's digest for its path."""
        table = self._table
        digest = table.digest if isinstance(table, Table) else "unusable" if table else ""
        return Normalisation(**{**dict(self), "boilerplate": digest})


def _table_at(path: Path) -> Table | str:
    try:
        return read_table(path)
    except OSError as error:
        return f"cannot read {path}: {error.strerror}"
    except TableError as error:
        return f"{path}: {error}"
