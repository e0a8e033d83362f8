"""Masks: what differs from copy to copy becomes one word.

A mask replaces each of its matches by its name, so that two log lines with other numbers are equal.
Two differ: ``number`` writes 0, and ``tracking`` only removes parameters from an address.
The masks of this module run in the order of `MASKS`, whatever the order in the configuration: a
date must be seen before its numbers are. Their expressions never go back over what they matched, so
that each takes time linear in the text. The user's own patterns run after them, on RE2.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from fnmatch import translate
from ipaddress import ip_address
from itertools import chain, product
from typing import Any

from streamfilter.cleaning.lines import without_surrogates
from streamfilter.stops import of_extra

PARAMETERS = (
    "utm_*", "mtm_*", "pk_*", "piwik_*", "matomo_*", "hsa_*", "oly_*", "vero_*", "_hs*", "__hs*",
    "ga_*", "_ga", "_gl", "gclid", "gclsrc", "dclid", "gbraid", "wbraid", "fbclid", "msclkid",
    "twclid", "ttclid", "li_fat_id", "yclid", "ysclid", "igsh", "igshid", "mc_cid", "mc_eid",
    "mkt_tok", "s_cid", "wickedid", "rb_clickid", "irclickid", "srsltid", "ref_src", "ref_url",
    "cmpid", "ocid", "ncid", "sc_campaign", "sc_channel", "sc_country", "sc_geo", "sc_outcome",
    "at_campaign*", "at_medium", "at_custom*", "xtor", "guccounter", "guce_referrer*", "smid",
)  # fmt: skip
"""Names of such parameters, after the public lists of browsers and of their blockers."""

_AND = re.compile("&(?:amp;)?", re.IGNORECASE)
_TRACKING = re.compile("|".join(map(translate, PARAMETERS)), re.IGNORECASE)


def untracked(address: str) -> str:
    """Return *address* without its tracking parameters; all else stays as it is.

    ``&amp;``, as HTML writes it, parts parameters like ``&``.
    Example: ``https://a.org/x?utm_source=n&id=7#top`` becomes ``https://a.org/x?id=7#top``.
    """
    rest, hash_, fragment = address.partition("#")
    base, question, query = rest.partition("?")
    if not question:
        return address
    signs = ["", *_AND.findall(query)]
    pairs = zip(signs, _AND.split(query), strict=True)
    kept = [pair for pair in pairs if not _TRACKING.fullmatch(pair[1].partition("=")[0])]
    joined = "".join(chain.from_iterable(kept)).removeprefix(kept[0][0] if kept else "")
    return base + ("?" if kept else "") + joined + hash_ + fragment


Step = Callable[[str], str]
Test = Callable[[str], bool]
Mask = str | tuple[str, str]  # the name of a mask, or the user's (pattern, what replaces it)
REPLACEMENT_MAX = 16  # characters for one match: a text grows no further than allowed
PATTERN_MAX = 1_000
EXAMPLE = "The harbour was closed on Monday, 3 March 2026. Приветъ 漢字 مرحبا"
"""No pattern may match all of this."""

URL = re.compile(r"\b(?:https?|ftp)://[^\s<>\"']++|\bwww\.[^\s<>\"']++", re.IGNORECASE)
_EMAIL = re.compile(r"(?<![\w.+-])[\w.+-]{1,64}+@(?:[\w-]{1,63}+\.){1,8}[^\W\d_][\w-]{1,62}+")
_UUID = re.compile(
    r"(?<![0-9a-z])[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}(?![0-9a-z])", re.IGNORECASE
)
_MONTH = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?"
    r"|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\.?"
)


def _optional(part: str) -> str:
    """Return the pattern that takes *part* where it is, and never gives it up.

    `(?:…)?+` says so, too. But up to Python 3.11.4 such a group keeps what it has read before it
    fails (python/cpython#106052), if more than single characters come first in it.
    """
    return rf"(?:{part}|(?!{part}))"


_TIME = (
    r"\d{1,2}:\d{2}(?::\d\d(?:[.,]\d\d{0,8}+)?+)?+"
    + _optional(r"[ ]?[ap]\.?m\b\.?+")
    + _optional(r"[ ]?(?:z|utc|gmt|[+-]\d{2}:?\d{2})\b")
)
_DATE = (
    r"(?:\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4}"
    rf"|\d{{1,2}}[ /-]{_MONTH}(?:[ /-]\d\d\d\d)?+"
    rf"|{_MONTH}[ ]{{1,2}}\d{{1,2}}(?!\d)" + _optional(r",?[ ]\d{4}(?!:)") + ")"
)
_AT_TIME = _optional(rf"(?:[t:]|,?[ ]{{1,2}}){_TIME}")
_TIMESTAMP = re.compile(
    rf"(?<![\w.:]){_DATE}{_AT_TIME}(?![\w:])|(?<![\w.:]){_TIME}(?![\w:])", re.IGNORECASE
)
_HEX = re.compile(
    r"\b(?:0x[0-9a-f]++|(?=[a-f]*+[0-9])(?=[0-9]*+[a-f])[0-9a-f]{8,}+)\b", re.IGNORECASE
)
_IP = re.compile(r"(?<![\w.:])[0-9a-fA-F:.]{3,45}+(?:%\w\w{0,15}+)?+")
_PATH = re.compile(
    r"(?<![\w/.:\\])(?:[a-z]:\\|~?/|\.{1,2}/)[\w.@%+~-]++(?:[/\\][\w.@%+~-][\w.@%+~-]*+)++[/\\]?",
    re.IGNORECASE,
)
_LETTER, _DIGIT = re.compile(r"[^\W\d_]"), re.compile(r"\d")
_NUMBER = re.compile(r"\d++(?:[.,'’\u00a0\u202f]\d\d*+)*+")


def _address(found: re.Match[str]) -> str:
    """Return ``ip`` for an address of IPv4 or IPv6, with its port if it has one.

    An address has a digit: ``dead::beef`` is a name in a program.
    """
    text = found[0]
    if not _DIGIT.search(text):
        return text
    for host in dict.fromkeys((text, text.rstrip(".:"))):
        if _is_address(host.partition("%")[0]):
            return "ip" + text[len(host) :]
    return text


def _path(found: re.Match[str]) -> str:
    """Return ``path`` for a path with a letter, but not for ``/r/news/top``: a forum's name."""
    text = found[0]
    return "path" if _LETTER.search(text) and not text.startswith(("/r/", "/u/")) else text


def _is_address(host: str) -> bool:
    if host.count(".") == 3 and host.count(":") == 1:
        host = host.partition(":")[0]  # with a port
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _replacing(
    pattern: re.Pattern[str], by: str | Callable[[re.Match[str]], str], *, where: Test = bool
) -> Step:
    """Return the step that replaces *pattern* if *where* holds of a text: a quick test."""
    return lambda text: pattern.sub(by, text) if where(text) else text


def _has_address(text: str) -> bool:
    return "://" in text or "www." in text.lower()


MASKS: dict[str, Step] = {
    "tracking": _replacing(URL, lambda found: untracked(found[0]), where=_has_address),
    "url": _replacing(URL, "url", where=_has_address),
    "email": _replacing(_EMAIL, "email", where=lambda text: "@" in text),
    "uuid": _replacing(_UUID, "uuid", where=lambda text: text.count("-") >= 4),
    "timestamp": _replacing(_TIMESTAMP, "timestamp"),
    "ip": _replacing(_IP, _address),
    "path": _replacing(_PATH, _path),
    "hex": _replacing(_HEX, "hex"),
    "number": _replacing(_NUMBER, "0"),
}
"""The masks in their order. ``tracking`` keeps the address and drops parameters of campaigns."""


def step_of(masks: Sequence[Mask]) -> Iterator[tuple[str, Step]]:
    """Yield (name, step) for each of *masks*: ours in the order of `MASKS`, then the user's.

    Raises `ValueError` for an unknown mask or an invalid pattern, `MissingExtra` without RE2.
    """
    for each in masks:
        if isinstance(each, str) and each not in MASKS:
            raise ValueError(f"{each!r} is no mask; use {', '.join(MASKS)}")
    for name, step in MASKS.items():
        if name in masks:
            yield f"mask {name}", step
    for each in masks:
        if not isinstance(each, str):
            yield f"mask {each[0]}", _user_step(*each)


def _user_step(pattern: str, replacement: str) -> Step:
    """Return the step of the user's own *pattern*; errors as in `step_of`.

    RE2 takes linear time for every pattern and every text. `re` may take exponential time.
    """
    with of_extra("patterns", "a pattern of similarity.normalise.mask"):
        import re2
    if len(pattern) > PATTERN_MAX or len(replacement) > REPLACEMENT_MAX:
        raise ValueError(
            f"a pattern has at most {PATTERN_MAX} characters and its 'as' {REPLACEMENT_MAX}"
        )
    options = re2.Options()
    options.log_errors = False
    try:
        compiled: Any = re2.compile(pattern, options)
        empty = compiled.search("") is not None or _can_be_empty(pattern, re2, options)
    except re2.error as error:
        why = error.args[0] if error.args else ""
        why = why.decode(errors="replace") if isinstance(why, bytes) else why
        raise ValueError(f"{pattern!r} is no pattern of RE2: {why}") from None
    if empty:
        raise ValueError(
            f"{pattern!r} matches an empty text at some place; write + where it has *, and a "
            "character beside \\b, ^ or $"
        )
    if not compiled.sub("", EXAMPLE).strip():
        raise ValueError(f"{pattern!r} matches a whole text: nothing would be left to compare")

    def step(text: str) -> str:
        found: str = compiled.sub(lambda _: replacement, without_surrogates(text))
        return found

    return step


def _can_be_empty(pattern: str, re2: Any, options: Any) -> bool:
    """Return whether *pattern* matches nothing between two characters, as ``\\b`` does.

    What matches there depends only on the kinds of these two. An open ``\\Q`` ends with ``\\E``.
    """
    kinds = ("", "a", " ", "\n")
    for before, after in product(kinds, kinds):
        around = rf"\A(?s:.{{{len(before)}}})(?:%s)(?s:.{{{len(after)}}})\z"
        try:
            probe = re2.compile(around % pattern, options)
        except re2.error:
            probe = re2.compile(around % (pattern + r"\E"), options)
        if probe.search(before + after) is not None:
            return True
    return False
