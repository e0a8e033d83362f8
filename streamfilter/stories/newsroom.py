"""Sentences that a newspaper could print, in three languages, from templates of our own.

A sentence is a pattern of its language. It is filled with actors, verbs and things of one topic, a
place, a time, a reason and numbers. All nouns are plural, so each combination is correct grammar.
The numbers keep unrelated stories apart: most runs of three words have one.
"""

import random
import re
import tomllib
from importlib.resources import files
from typing import Any

from msgspec import Struct

Words = tuple[str, ...]


class Beat(Struct, frozen=True):
    """The words of one topic (of a reporter); each verb fits each actor and thing."""

    actors: Words
    verbs: Words
    things: Words


class Language(Struct, frozen=True):
    """Patterns and words of one language."""

    patterns: Words
    topics: tuple[Beat, ...]
    places: Words
    times: Words
    reasons: Words
    letter: str
    """A letter from a template; NAME and the pitch are filled in."""
    release: str
    """A company's quarterly release; each # is a number, and all the rest stays the same."""

    def sentence(self, rng: random.Random, topic: Beat) -> str:
        filled = rng.choice(self.patterns).format(
            a=rng.choice(topic.actors), v=rng.choice(topic.verbs), t=rng.choice(topic.things),
            p=rng.choice(self.places), d=rng.choice(self.times), r=rng.choice(self.reasons),
            n=rng.randint(13, 989), k=rng.randint(2, 97), m=rng.randint(1, 9),
        )  # fmt: skip
        return filled[0].upper() + filled[1:]

    def sentences(self, rng: random.Random, *, words: int) -> list[str]:
        topic, found, length = rng.choice(self.topics), list[str](), 0
        while length < words:
            found.append(self.sentence(rng, topic))
            length += len(found[-1].split())
        return found


def with_numbers(rng: random.Random, release: str) -> str:
    """Return a *release* with numbers: the next quarter's differs from it in these alone."""
    return re.sub("#", lambda _: str(rng.randint(13, 989)), release)


def _split(text: str) -> Words:
    return tuple(each.strip() for each in text.replace("\n", " ").split("|"))


def _read(raw: dict[str, Any]) -> Language:
    """Return a language from its part of `news.toml`."""
    topics = [Beat(**{name: _split(row[name]) for name in row}) for row in raw["topics"]]
    patterns, places, times, reasons = (
        _split(raw[name]) for name in ("patterns", "places", "times", "reasons")
    )
    letter, release = (" ".join(raw[name].split()) for name in ("letter", "release"))
    return Language(patterns, tuple(topics), places, times, reasons, letter, release)


_NEWS = tomllib.loads(files(__package__).joinpath("news.toml").read_text(encoding="utf-8"))
LANGUAGES = tuple(_read(language) for language in _NEWS["language"])
COMPANIES = _split(_NEWS["companies"])
