"""The scheme: everything that shapes a signature or a band key, and its fingerprint.

Two indexes with the same scheme and the same secret seed hold comparable signatures; with
anything else they do not. So the scheme travels with the index, and a difference is refused.
The seed is no part of the scheme: the index id binds it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import takewhile
from math import comb
from typing import Any

from msgspec import Struct, field, to_builtins

from streamfilter.cleaning.folds import FOLDS
from streamfilter.cleaning.masks import Mask
from streamfilter.cleaning.steps import Cleaner
from streamfilter.similarity.columns import Widths

ALGORITHM = 3  # version of the functions from text to band keys: raised when their output changes

CHANGES = {
    2: "words of 9 to 32 bytes are hashed so that no two are equal under many seeds",
    3: "combining marks belong to their words; invisible characters are dropped; so is white space "
    "between two characters of scripts without spaces (Chinese, Japanese, Thai)",
}
"""The change in each version, for people whose index is refused."""

KINDS = ("word", "char", "stopword")
TOKEN_BYTES = (4, 8)
LAYOUTS = ("bands", "random")
FORMS = ("NFKC", "NFC", "none")

FADING = 20
"""Above the fallback's limit, each further stop-word shingle of a text removes one in so many of
its other runs of words. Half of them are left 13 above the limit, a twentieth 58 above. With a
single limit for all of them, two texts of nearly the same words had nearly disjoint sets."""

SAMPLE_TOKENS = 1_024
"""Tokens kept of a document for verification: exact up to this set size, an estimate above."""


class Normalisation(Struct, frozen=True):
    """Which differences between two texts do not count."""

    unicode: str = "NFKC"  # ``NFKC``, ``NFC`` or ``none``
    casefold: bool = True
    whitespace: bool = True
    """Collapse runs of white space to one space, or to none between two characters of scripts
    without spaces, and strip."""
    digits: bool = False  # replace every decimal digit by 0
    invisible: bool = True  # drop what is never shown (Unicode's Default_Ignorable_Code_Point)
    html: bool = False
    """The text is HTML: its markup does not count. This and the next four: `cleaning.steps`."""
    ansi: bool = False
    quotes: bool = False
    hyphens: bool = False
    mask: tuple[Mask, ...] = ()
    fold: tuple[str, ...] = ()  # names of `cleaning.folds.FOLDS`, in the order in which they apply
    boilerplate: str = ""
    """Digest of the table whose shingles do not count (`similarity.text.boilerplate`)."""

    def as_fields(self) -> dict[str, Any]:
        """Return what shapes the text, for the scheme's JSON.

        What came with algorithm 3 or later is left out where it is off: an index from before keeps
        its fingerprint.
        """
        fields = to_builtins(self)
        later = ("html", "ansi", "quotes", "hyphens", "mask", "fold", "boilerplate")
        return {name: value for name, value in fields.items() if value or name not in later}

    def check_names(self) -> None:
        """Raise `ValueError` for an unknown form or fold; `Cleaner.of` checks the masks."""
        if self.unicode not in FORMS:
            raise ValueError(f"{self.unicode!r} is no Unicode form; use {', '.join(FORMS)}")
        for each in self.fold:
            if each not in FOLDS:
                raise ValueError(f"{each!r} is no fold; use {', '.join(FOLDS)}")

    @property
    def cleans(self) -> bool:
        return self.html or self.ansi or self.quotes or self.hyphens or bool(self.mask)

    def cleaner(self) -> Cleaner:
        """Return what cleans a text before its Unicode form is made; errors as in `Cleaner.of`."""
        return Cleaner.of(
            html=self.html, ansi=self.ansi, quotes=self.quotes, hyphens=self.hyphens, mask=self.mask
        )


class Shingling(Struct, frozen=True):
    """How a text becomes a set: runs of *size* words or characters, hashed to tokens."""

    kind: str = "word"
    """``word``, ``char`` or ``stopword``: a stop word and the *size* words after it."""
    size: int = 3
    token_bytes: int = 8
    """4 or 8 bytes of each shingle's hash. Of two sets of n and m shingles about n m / 2^32 pairs
    are equal by chance with 4; stored samples keep 4 bytes in either case."""
    sample_modulus: int = 1
    """Keep the tokens that are 0 modulo this: about one in so many, the same in every text."""
    languages: tuple[str, ...] = ("en",)  # whose stop words count, for the kind ``stopword``
    fallback_below: int = 4
    """A text with fewer stop-word shingles than this gets all runs of ``size + 1`` words; with each
    one more it loses a share of those without a stop word (`FADING`)."""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"{self.kind!r} is no kind of shingle; use {', '.join(KINDS)}")
        if self.size < 1 or self.sample_modulus < 1 or self.fallback_below < 0:
            raise ValueError("a shingle's size and its sample_modulus are 1 or more")
        if self.token_bytes not in TOKEN_BYTES:
            raise ValueError(f"tokens have 4 or 8 bytes, not {self.token_bytes}")

    def as_fields(self) -> dict[str, Any]:
        """Return what shapes the set, for the scheme's JSON.

        What came later is left out where it has the value that it always had, so that an index
        from before keeps its fingerprint. Stop words are named by language and by digest: a list
        that changes is another scheme.
        """
        fields: dict[str, Any] = {"kind": self.kind, "size": self.size}
        if self.token_bytes != TOKEN_BYTES[-1]:
            fields["token_bytes"] = self.token_bytes
        if self.sample_modulus != 1:
            fields["sample_modulus"] = self.sample_modulus
        if self.kind == "stopword":
            # Here, not above: the other kinds need not read the lists.
            from streamfilter.similarity.text.stopwords import digest

            fields["languages"] = sorted(set(self.languages))
            fields["stop_words"] = digest(self.languages)
            fields["fallback_below"] = self.fallback_below
            fields["fading"] = FADING
        return fields


class Scheme(Struct, frozen=True):
    """Text → set → signature → band keys, as a value."""

    bands: int = 16  # these find .99 of the pairs at .8; `streamfilter plan` says which others do
    rows: int = 6
    slots: int = 128
    shingling: Shingling = field(default_factory=Shingling)
    normalisation: Normalisation = field(default_factory=Normalisation)
    algorithm: int = ALGORITHM
    layout: str = "bands"
    """``bands``: each band has its own rows. ``random``: each of ``bands`` keys is made of ``rows``
    slots chosen at random, so there may be more keys than separate bands."""
    fields: tuple[str, ...] = ()
    """For records: ``pointer kind`` of each field; each key of a record is a band of 8 rows. Empty
    for texts."""
    digests: tuple[str, ...] = ()
    """What is stored as a digest beside the text: ``use subject``, such as ``scope /tenant``. A
    subject that is a pointer leads to a value of the record. The use ``scope`` comes first, then
    ``agree``: a match must agree in ``numbers`` or ``urls`` of the text, or in a value. Then comes
    ``also``: an equal value makes a duplicate, whatever the text is."""

    def __post_init__(self) -> None:
        if self.layout not in LAYOUTS:
            raise ValueError(f"{self.layout!r} is no layout of bands; use {', '.join(LAYOUTS)}")
        if any(each.startswith("agree ") for each in self.digests[agreeing_of(self.digests) :]):
            raise ValueError("the digests that a match must agree in come first in a scheme")
        if len(self.also_same) < sum(each.startswith("also ") for each in self.digests):
            raise ValueError("the digests that make a duplicate come last in a scheme")
        if min(self.bands, self.rows, self.slots) < 1:
            raise ValueError("bands, rows and slots are 1 or more")
        if self.layout == "random":
            most = comb(self.slots, self.rows)
            if self.bands > most:
                raise ValueError(
                    f"there are only {most} ways to choose {self.rows} of {self.slots} slots, not "
                    f"{self.bands}; use fewer bands, or more slots"
                )
        elif self.bands * self.rows > self.slots:
            raise ValueError(
                f"{self.bands} bands x {self.rows} rows = {self.bands * self.rows} slots, but the "
                f"signature has {self.slots}; use fewer bands or rows, or more slots"
            )

    @lru_cache(maxsize=16)  # noqa: B019  # a few small values, asked for at every start and look
    def as_json(self) -> str:
        """Return the canonical JSON: sorted keys, no spaces, ASCII."""
        shaping = {
            "shingling": self.shingling.as_fields(),
            "normalisation": self.normalisation.as_fields(),
        }
        fields = to_builtins(self) | shaping
        if self.layout == "bands":
            del fields["layout"]  # as it was before there was another
        if not self.digests:
            del fields["digests"]  # as it was before there were any
        if self.fields:
            del fields["shingling"], fields["normalisation"]  # a record has neither
        else:
            del fields["fields"]
        return json.dumps(fields, sort_keys=True, separators=(",", ":"))

    @classmethod
    def of_fields(cls, fields: Mapping[str, str], *, keys: int | None = None) -> Scheme:
        """Return the scheme of records with these fields: a band for each key, or each field."""
        named = tuple(f"{pointer} {kind}" for pointer, kind in fields.items())
        bands = len(named) if keys is None else keys
        return cls(bands, 8, 8 * bands, fields=named)

    @property
    def field_kinds(self) -> tuple[str, ...]:
        return tuple(field.rpartition(" ")[2] for field in self.fields)

    @property
    def subjects(self) -> tuple[str, ...]:
        return tuple(each.partition(" ")[2] for each in self.digests)

    @property
    def scope(self) -> bool:
        """Return whether documents of different scopes never match; their digest is the first."""
        return self.widths.scoped

    @property
    def pointers(self) -> tuple[str, ...]:
        """Return the pointers to the values that are compared beside the text."""
        return pointers_of(self.digests)

    @property
    def widths(self) -> Widths:
        """Return how much is stored of a document."""
        return widths_of(self.slots, self.digests)

    @property
    def agree_on(self) -> tuple[str, ...]:
        return self.subjects[: agreeing_of(self.digests)]

    @property
    def also_same(self) -> tuple[str, ...]:
        """Return the pointers to the values that make a duplicate, each alone if it is equal."""
        return self.subjects[len(self.digests) - also_of(self.digests) :]

    @property
    def fingerprint(self) -> str:
        """Return 8 hexadecimal digits that differ when anything in the scheme differs."""
        return hashlib.blake2b(self.as_json().encode(), digest_size=4).hexdigest()


def pointers_of(digests: Sequence[str]) -> tuple[str, ...]:
    subjects = (each.partition(" ")[2] for each in digests)
    return tuple(dict.fromkeys(each for each in subjects if each.startswith("/")))


def agreeing_of(digests: Sequence[str]) -> int:
    """Return how many of *digests* must be equal in a match: the first ones.

    Without any that a match must agree in, none: scopes alone are kept apart by their keys.
    """
    agreeing = [place for place, each in enumerate(digests, 1) if each.startswith("agree ")]
    return max(agreeing, default=0)


def also_of(digests: Sequence[str]) -> int:
    """Return how many of *digests* make a duplicate, each alone: the last ones."""
    return sum(1 for _ in takewhile(lambda each: each.startswith("also "), reversed(digests)))


def widths_of(slots: int, digests: Sequence[str]) -> Widths:
    """Return how much is stored of a document with so many *slots* and these *digests*."""
    scoped = any(each.startswith("scope ") for each in digests[:1])
    return Widths(slots, len(digests), agreeing_of(digests), scoped, also_of(digests))


def scheme_of(canonical: str) -> Scheme:
    """Return the scheme whose `Scheme.as_json` is *canonical*.

    Raises `ValueError` if this version does not know it, or makes other tokens under the same name
    (a list of stop words has changed, say).
    """
    try:
        scheme = _scheme_in(json.loads(canonical))
        same = scheme.algorithm == ALGORITHM and scheme.as_json() == canonical
    except (TypeError, AttributeError, OverflowError):  # of another shape
        raise ValueError("this version of streamfilter does not know the index's scheme") from None
    if not same:
        raise ValueError("this version of streamfilter makes other tokens than the index holds")
    return scheme


def _scheme_in(values: dict[str, Any]) -> Scheme:
    shingling = {key: _plain(value) for key, value in values.pop("shingling", {}).items()}
    normal = {key: _plain(value) for key, value in values.pop("normalisation", {}).items()}
    known = {*Shingling.__struct_fields__}
    return Scheme(
        **{key: _plain(value) for key, value in values.items()},
        shingling=Shingling(**{key: shingling[key] for key in shingling.keys() & known}),
        normalisation=Normalisation(**normal),
    )


def _plain(value: Any) -> Any:
    return tuple(map(_plain, value)) if isinstance(value, list) else value
