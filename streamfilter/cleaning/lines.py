"""Steps on characters and lines: surrogates, terminal colours, quoted mail, split words."""

import re

_ESCAPE = re.compile(
    r"\x1b\[[0-?]*+[ -/]*+[@-~]?"  # colours, cursor: ESC [ … letter
    r"|\x1b\][^\x07\x1b]{0,4096}+(?:\x07|\x1b\\)"  # titles and links: ESC ] … BEL
    r"|\x1b[PX^_][^\x1b]{0,4096}+\x1b\\"  # device strings: ESC P … ESC \
    r"|\x1b[ -/]*+[0-~]?"
    r"|\x9b[0-?]*+[ -/]*+[@-~]?"
)
"""ECMA-48's control sequences. Of a string without its end only ESC and ] go: the rest is text."""

_QUOTED = re.compile(r"[ \t]{0,8}>")
_INTRODUCES = re.compile(
    r"@|\d[:./-]\d|\b(?:19|20)\d\d\b"
    r"|\b(?:wrote|writes|schrieb|écrit|escribió|escreveu|scritto|schreef|skrev|pisze|napisał"
    r"|написал|пишет|yazdı)\b"
)
"""What an introduction holds: an address, a date, a time, or "wrote"."""
INTRODUCTION_LINES = 3
_ORIGINAL = re.compile(
    r"^[ \t]*-{2,}[ \t]*(?:original message|original-nachricht|ursprüngliche nachricht"
    r"|message d'origine|mensaje original|messaggio originale|oorspronkelijk bericht"
    r"|исходное сообщение)[ \t]*-{2,}",
    re.IGNORECASE | re.MULTILINE,
)
_SPLIT = re.compile(r"(?<=[^\W\d_])[-\u2010\u00ad]\r?\n[ \t]{0,40}(?=([^\W\d_]))")
_SURROGATE = re.compile("[\ud800-\udfff]")


def without_surrogates(text: str) -> str:
    """Return *text* with U+FFFD for each lone surrogate, which UTF-8 cannot encode."""
    return _SURROGATE.sub("\ufffd", text)


def without_escapes(text: str) -> str:
    """Return *text* without terminal colours and other escape sequences."""
    return _ESCAPE.sub("", text) if "\x1b" in text or "\x9b" in text else text


def without_quotes(text: str) -> str:
    """Return a mail's *text* without the lines that it quotes and the lines that introduce them.

    A quoted line begins with ``>``. An introduction is the line before a quotation, if it ends with
    a colon and holds a date, a time, an address or "wrote"; up to two such lines before it belong
    to it. All from "----- Original Message -----" on is quoted, too.
    """
    original = _ORIGINAL.search(text)
    if original:
        text = text[: original.start()]
    kept: list[str] = []
    in_quotation = False
    for line in text.splitlines():
        quoted = _QUOTED.match(line) is not None
        if quoted and not in_quotation:
            _drop_introduction(kept)
        in_quotation = quoted
        if not quoted:
            kept.append(line)
    return "\n".join(kept)


def _drop_introduction(lines: list[str]) -> None:
    """Remove from the end of *lines* those that introduce the quotation behind them."""
    end = len(lines)
    while end and not lines[end - 1].strip():
        end -= 1
    begin = end
    while begin and end - begin < INTRODUCTION_LINES and _INTRODUCES.search(lines[begin - 1]):
        begin -= 1
    if begin < end and lines[end - 1].rstrip().endswith((":", "：")):
        del lines[begin:]


def joined_words(text: str) -> str:
    """Return *text* with each word joined that a hyphen splits at the end of a line.

    The hyphen stays if the next line begins with a capital: then it may be part of a name.
    """
    return _SPLIT.sub(lambda found: "" if found[1].islower() else found[0], text)
