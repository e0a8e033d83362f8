"""Kinds of fields: how a value is normalised, and under which keys its record is found.

| kind | normalised | equal after it | parts of a value for pairs of keys |
|---|---|---|---|
| ``words`` | lower-case words | ``A. Lee`` and ``a lee`` | its first word |
| ``digits`` | digits | ``(030) 12`` and ``03012`` | the last four |
| ``exact`` | as it is | | the value |
| ``name`` | words without accents and titles | ``Dr. Müller`` and ``muller`` | two words |
| ``address`` | the same, abbreviated | ``1 Main Street``, ``1 Main St.`` | house; code |
| ``phone`` | digits, no country code, no trunk 0 | ``+49 30 12345``, ``030/12345`` | last four |
| ``date`` | ISO's eight digits | ``31.1.1984``, ``1984-01-31`` | day and month; year |
| ``email`` | lower case, without ``+tag`` | ``A+b@x.org``, ``a@x.org`` | the beginning |
| ``number`` | plain decimals | ``1,200.50``, ``1200.5`` | the value |

A value that is none of its kind is absent: a phone without digits, a date that does not exist.
So is a placeholder, such as ``1900-01-01``: it would make strangers alike.
"""

import re
import unicodedata
from collections.abc import Callable, Sequence
from datetime import date
from decimal import Decimal, InvalidOperation
from itertools import combinations

from msgspec import Struct

from streamfilter.cleaning.folds import folded
from streamfilter.entities.lists import (
    ADDRESS_WORDS,
    COUNTRY_CODES,
    FULL_NAMES,
    MONTHS,
    PLACEHOLDER_DATES,
    PLACEHOLDER_DOMAINS,
    PLACEHOLDER_MAILBOXES,
    PLACEHOLDER_PHONES,
    PLACEHOLDERS,
    TITLES,
)
from streamfilter.similarity.text.code_points import visible, words
from streamfilter.similarity.text.ordering import normal_form

VALUE_MAX = 200  # characters of a value of a newer kind that count: bounds what a comparison costs
KEYS_MAX = 48  # of a record; pairs beyond are left out, those of the last fields first
PHONE_MIN, PHONE_MAX = 5, 20  # digits that count; a shorter number is none
NUMBER_DIGITS = 30  # a number beyond 10 to this power, or below its inverse, is absent
LOCAL_DIGITS = 7
PREFIX = 3
FOLDS = ("marks", "digits")

_ASCII_WORD = re.compile("[a-z0-9]+")
_APOSTROPHES = str.maketrans("", "", "'’ʼ`´")
_EXTENSION = re.compile(r"(?:ext|x|#|durchwahl)[. ]*\d{1,6}\D*$", re.IGNORECASE)
_ISO = re.compile(r"(\d{4})\s*[-/.年년 ]\s*(\d{1,2})\s*[-/.月월 ]\s*(\d{1,2})(?!\d)")
_COMPACT = re.compile(r"(\d{4})(\d\d)(\d\d)$")
_WRITTEN = re.compile(r"(\d{1,2})\s*([-/. ])\s*(\d{1,2})[-/. ]+(\d{4}|\d\d)(?!\d)")
_WORDS = re.compile(r"[^\W\d_]+|\d+")
# A point behind a letter ends a word: "Rs. 500" is 500, not .5.
_NUMBER = re.compile(r"[+-]?(?:(?<![^\W\d_])[.,])?\d[\d.,]*(?:e[+-]?\d{1,3})?", re.IGNORECASE)
_SIGNS = str.maketrans(
    {"−": "-", "٫": ".", "٬": ","}
    | {sign: f"{unicodedata.numeric(sign)}"[1:] for sign in "½⅓⅔¼¾⅛⅜⅝⅞"}  # 1½ is 1.5
)
_GROUPED = re.compile(r"[+-]?\d{1,3}(,\d{3})+$")
_PLUS = re.compile(r"\D*\+")
_EMAIL = re.compile(r"([^\s<>@:,;\"]+)@([^\s<>@:,;\"]+\.[^\s<>@:,;\"]+)")
_YEAR_OF_TWO = 30
"""Two digits up to this are a year from 2000 on. No clock is read, so a value keeps its meaning."""


def _words(value: str) -> str:
    if value.isascii():
        return " ".join(_ASCII_WORD.findall(value.lower()))
    return " ".join(words(normal_form("NFKC", visible(value)).casefold().replace("_", " ")))


def _digits(value: str) -> str:
    return "".join(str(unicodedata.digit(each)) for each in value if each.isdigit())


def _exact(value: str) -> str:
    return normal_form("NFKC", visible(value)).strip()


def _folded(value: str) -> str:
    """Return the words of *value*, cut, without accents and apostrophes."""
    value = value[:VALUE_MAX].translate(_APOSTROPHES)
    if value.isascii():
        return " ".join(_ASCII_WORD.findall(value.lower()))
    plain = normal_form("NFKC", visible(value)).casefold()
    return _words("".join(folded(each, FOLDS) for each in normal_form("NFC", plain)))


def _name(value: str) -> str:
    parts = _given(value).split()
    return " ".join([part for part in parts if part not in TITLES] or parts)


def _given(value: str) -> str:
    """Return the words of *value*, none of a placeholder such as ``n/a``."""
    found = _folded(value)
    repeated = len(found) > 2 and len(set(found) - {" "}) == 1
    return "" if repeated or found in PLACEHOLDERS else found


def _address(value: str) -> str:
    return " ".join(map(_address_word, _given(value).split()))


def _address_word(word: str) -> str:
    if short := ADDRESS_WORDS.get(word):
        return short
    for long, cut in (("strasse", 4), ("platz", 3)):  # Hauptstrasse, Marktplatz
        if word.endswith(long):
            return word[:-cut]
    return word


def _phone(value: str) -> str:
    value = _EXTENSION.sub("", normal_form("NFKC", value[:VALUE_MAX]))
    digits = _digits(value)
    if _PLUS.match(value) or digits.startswith("00"):
        digits = digits.lstrip("0")
        size = next((n for n in (1, 2) if digits[:n] in COUNTRY_CODES), 3)
        digits = digits[size:]
    elif len(digits) == 11 and digits[0] == "1":  # North America's code, without a plus
        digits = digits[1:]
    digits = digits.lstrip("0")[:PHONE_MAX]
    if any(typed.startswith(digits) for typed in PLACEHOLDER_PHONES):
        return ""
    return digits if len(digits) >= PHONE_MIN and len(set(digits)) > 1 else ""


def _date(value: str) -> str:
    value = normal_form("NFKC", value[:VALUE_MAX]).strip()
    if found := _ISO.match(value) or _COMPACT.match(value):
        return _day(*map(int, found.groups()))
    if found := _WRITTEN.match(value):
        first, second, year = int(found[1]), int(found[3]), _year(found[4])
        # Only slashes are written month first, unless that is no month.
        if found[2] == "/" and first <= 12:
            return _day(year, first, second) or _day(year, second, first)
        return _day(year, second, first) or _day(year, first, second)
    parts = _WORDS.findall(_folded(value))
    months = [MONTHS[part] for part in parts if part in MONTHS]
    numbers = [part for part in parts if part.isdecimal()]
    if len(months) != 1 or len(numbers) < 2:
        return ""
    day, year = sorted(numbers[:2], key=len) if len(numbers[0]) > 2 else numbers[:2]
    return _day(_year(year), months[0], int(day))


def _year(digits: str) -> int:
    number = int(digits)
    return number if len(digits) > 2 else number + (2000 if number <= _YEAR_OF_TWO else 1900)


def _day(year: int, month: int, day: int) -> str:
    try:
        found = date(year, month, day).isoformat().replace("-", "")
    except (ValueError, OverflowError):
        return ""
    return "" if found in PLACEHOLDER_DATES else found


def _email(value: str) -> str:
    found = _EMAIL.search(_exact(value[:VALUE_MAX]).casefold())
    if found is None:
        return ""
    local, domain = found[1].partition("+")[0], found[2].rstrip(".")
    if domain in ("gmail.com", "googlemail.com"):
        local, domain = local.replace(".", ""), "gmail.com"
    unknown = local in PLACEHOLDER_MAILBOXES or domain in PLACEHOLDER_DOMAINS
    return "" if unknown or not local else f"{local}@{domain}"


def _number(value: str) -> str:
    plain = normal_form("NFKC", value[:VALUE_MAX].translate(_SIGNS))
    found = _NUMBER.search(re.sub(r"[\s'’]", "", plain))
    kept = found[0] if found else ""
    if kept.count(".") > 1 or (kept.rfind(",") > kept.rfind(".") and not _GROUPED.match(kept)):
        kept = kept.replace(".", "").replace(",", ".")  # 1.200,50
    try:
        number = Decimal(kept.replace(",", ""))
    except InvalidOperation:
        return ""
    if abs(number.adjusted()) > NUMBER_DIGITS:
        return ""
    return format(number.normalize() + 0, "f")


def _last_four(value: str) -> tuple[str]:
    return (value[-4:],)


def _of_name(value: str) -> tuple[str, str]:
    """Return the beginnings of the first and the last word, in the order of the alphabet."""
    parts = value.split()
    if not parts:
        return "", ""
    ends = parts[0], parts[-1]
    first, last = sorted(FULL_NAMES.get(part, part)[:PREFIX] for part in ends)
    return first, last if len(parts) > 1 else ""


def _of_address(value: str) -> tuple[str, str]:
    """Return the first number with the beginning of the street, and the last number or word."""
    parts = value.split()
    numbers = [part for part in parts if part[0].isdigit()]
    names = [part for part in parts if not part[0].isdigit() and part not in _SHORT_WORDS]
    street = f"{numbers[0] if numbers else ''} {names[0][:PREFIX] if names else ''}"
    if len(numbers) > 1:
        return street, numbers[-1]
    return street, names[-1][:4] if len(names) > 1 else ""


_SHORT_WORDS = frozenset(ADDRESS_WORDS.values())


def _of_date(value: str) -> tuple[str, str]:
    """Return day and month in either order, and the year."""
    return "".join(sorted((value[4:6], value[6:]))), value[:4]


def _full_names(value: str) -> str:
    return " ".join(sorted(FULL_NAMES.get(word, word) for word in value.split()))


class Kind(Struct, frozen=True):
    """How the values of a field are read and found."""

    normalise: Callable[[str], str]
    parts: Callable[[str], tuple[str, ...]]  # of a normalised value, for pairs
    pairs: int = 1  # how many parts there are
    whole: Callable[[str], str] = str  # what of a normalised value is a key of its own
    changes: float = 1.0  # share of its weight that counts if it differs: people move
    paired: bool = True  # whether records with such a field are also found by pairs of parts


KINDS: dict[str, Kind] = {
    "words": Kind(_words, lambda value: (value.partition(" ")[0][:4],), paired=False),
    "digits": Kind(_digits, _last_four, paired=False),
    "exact": Kind(_exact, lambda value: (value,), paired=False),
    "name.2": Kind(_name, _of_name, 2, _full_names),
    "address.1": Kind(_address, _of_address, 2, lambda v: " ".join(sorted(v.split())), changes=0.5),
    "phone.1": Kind(_phone, _last_four, 1, lambda value: value[-LOCAL_DIGITS:], changes=0.5),
    "date.2": Kind(_date, _of_date, 2),
    "email.1": Kind(_email, lambda value: (value.partition("@")[0][:4],), 1, changes=0.5),
    "number.2": Kind(_number, lambda value: (value,)),
}
"""By the name in the scheme: the kind, and the version of its rules and lists.

The first three are as old as records, and have no version. A record that has only these is found
by equal fields alone, as ever. Every change of the others is another version, and another scheme.
"""

FIELD_KINDS = {name.partition(".")[0]: name for name in KINDS}
"""Kind, as people write it → its name in a scheme."""


def key_pairs(kinds: Sequence[str]) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Return the pairs of (field, part) that are keys, in their order.

    Example: a name of two parts and a phone of one give ((0, 0), (1, 0)) and ((0, 1), (1, 0)).
    """
    if not any(KINDS[kind].paired for kind in kinds):
        return []
    parts = [(place, n) for place, kind in enumerate(kinds) for n in range(KINDS[kind].pairs)]
    found = [pair for pair in combinations(parts, 2) if pair[0][0] != pair[1][0]]
    found.sort(key=lambda pair: (pair[1][0], pair))
    return found[: max(KEYS_MAX - len(kinds), 0)]


def keys_of(kinds: Sequence[str]) -> int:
    """Return how many keys a record with these fields has."""
    return len(kinds) + len(key_pairs(kinds))
