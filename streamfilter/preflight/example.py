"""Which example of config/ fits a sample of texts, and why.

Each rule counts the texts that show one habit of such a stream. Rules are tried in an order: the
most telling habit first. A person reads the reason and may choose another one.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from statistics import median
from typing import TypeVar

from msgspec import Struct

from streamfilter.cleaning.masks import MASKS

SAMPLE_MIN = 20  # fewer texts show no habit
CHARACTERS_MAX = 20_000  # a text is looked at up to here
LINE_MAX = 2_000
"""A line of a log is looked at up to here: eight masks on 200 texts of 1 MB took 20 seconds."""

VALUES = tuple(name for name in MASKS if name != "tracking")
"""The masks that replace a value; tracking only shortens one."""

_TAG = re.compile(r"</(?:p|div|a|span|li|body|html|h\d|td|b|i|em|strong)>|<br ?/?>", re.I)
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
_QUOTE = re.compile(r":[ \t]*\n+[ \t]*>")
_TIME = re.compile(r"\d{1,2}:\d{2}:\d{2}")
_MENTION = re.compile(r"(?:^|\s)(?:@\w+|#[a-z]\w+)|https?://", re.A | re.I)
_GREETING = re.compile(r"\s*(?:hi|hello|dear|good (?:morning|day|evening))\b", re.I)
_ENGLISH = re.compile(r"\b(?:the|of|and|to|in|a|is|that|for|was)\b", re.I)

T = TypeVar("T")
Rule = Callable[[Sequence[str]], str]  # returns why an example fits *texts*, or nothing


class Fit(Struct, frozen=True):
    """An example that fits."""

    name: str
    why: str

    def __str__(self) -> str:
        return f"{self.why}: like {self.name}.yaml of config/"


def fitting(texts: Iterable[str]) -> Fit | None:
    """Return the example that fits a sample of *texts* best; None: the default settings do."""
    sample = [text[:CHARACTERS_MAX] for text in texts if text.strip()]
    if len(sample) < SAMPLE_MIN:
        return None
    found = ((name, rule(sample)) for name, rule in _RULES.items())
    return next((Fit(name, why) for name, why in found if why), None)


def _share(texts: Sequence[T], habit: Callable[[T], object], least: float, what: str) -> str:
    count = sum(bool(habit(text)) for text in texts)
    return f"{count} of {len(texts)} {what}" if count >= least * len(texts) else ""


def _logs(texts: Sequence[str]) -> str:
    lines = [text for text in texts if "\n" not in text.strip()]
    if len(lines) < 0.8 * len(texts) or _words(texts) > 60:
        return ""
    timed = _share(lines, lambda text: _TIME.search(text[:60]), 0.6, "begin with a time")
    places = ("url", "uuid", "timestamp", "ip", "path", "hex")
    technical = sum(_masked(text, places) != text[:LINE_MAX] for text in lines)
    kinds = {_masked(text) for text in lines} if technical >= 0.3 * len(lines) else set(lines)
    if len(kinds) <= 0.5 * len(set(lines)):
        return f"{len(lines)} lines differ, but without numbers and addresses only {len(kinds)} do"
    return timed


def _press(texts: Sequence[str]) -> str:
    """Count texts with sentences that come again with other numbers."""
    forms: defaultdict[str, set[str]] = defaultdict(set)
    parts = [[each for each in _SENTENCE.split(text) if len(each) > 20] for text in texts]
    for each in chain.from_iterable(parts):
        forms[MASKS["number"](each)].add(each)
    again = {form for form, written in forms.items() if len(written) > 1}
    shared = [sum(MASKS["number"](each) in again for each in text) for text in parts]
    counted = _share(shared, lambda count: count > 1, 0.25, "repeat sentences with other numbers")
    return counted if _words(texts) > 30 else ""


def _masked(text: str, masks: Sequence[str] = VALUES) -> str:
    text = text[:LINE_MAX]
    for name in masks:
        text = MASKS[name](text)
    return text


def _words(texts: Sequence[str]) -> float:
    return median(len(text.split()) for text in texts)


def _lines(texts: Sequence[str]) -> float:
    return median(text.count("\n") for text in texts)


def _of(
    habit: Callable[[str], object], least: float, what: str,
    suits: Callable[[Sequence[str]], bool] = bool,
) -> Rule:  # fmt: skip
    """Return the rule that a share of the texts has a *habit*, where it *suits* the texts."""
    return lambda texts: _share(texts, habit, least, what) if suits(texts) else ""


_RULES: dict[str, Rule] = {
    "web": _of(_TAG.search, 0.3, "have HTML tags"),
    "mail": _of(_QUOTE.search, 0.3, "introduce and quote an earlier mail (lines with >)"),
    "logs": _logs,
    "social": _of(_MENTION.search, 0.4, "are short and have names, tags or links",
                  lambda texts: _words(texts) <= 60 and _lines(texts) <= 1),
    "press": _press,
    "tickets": _of(_GREETING.match, 0.3, "are messages that begin with a greeting",
                   lambda texts: _words(texts) <= 120),
    "titles": _of(lambda text: not text.rstrip().endswith("."), 0.7, "are lines like titles",
                  lambda texts: _words(texts) <= 16
                  and not any("\n" in text.strip() for text in texts)),
    "news": _of(lambda text: text.count("\n") >= 3, 0.5, "are English and have paragraphs",
                lambda texts: _words(texts) >= 120
                and median(len(_ENGLISH.findall(text)) for text in texts) >= 15),
}  # fmt: skip
