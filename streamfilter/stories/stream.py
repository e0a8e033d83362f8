"""The stream: an endless mix of new stories and disguises of recent ones, determined by a seed.

A disguise is always made from the original, never from another disguise. Near-duplication is not
transitive, so the similarities of a chain would drift away from the claims.
"""

import random
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count

from msgspec import Struct

from streamfilter.stories import disguises, newsroom
from streamfilter.stories.disguises import NAMES, PAPERS, StoryKind
from streamfilter.stories.newsroom import COMPANIES, LANGUAGES, Language

RECENT = 400  # originals that may come back: some within one batch, some a minute later

STORY_WORDS, MESSAGE_WORDS = 190, 45
TEMPLATE_WORDS, UPDATE_WORDS = 110, 30
PLACES = ("LISBON", "OSLO", "NAIROBI", "LIMA", "OSAKA", "TURIN", "HALIFAX", "PERTH", "TALLINN")

WEIGHTS = {
    StoryKind.NEWS: 44,
    StoryKind.REPUBLISHED: 8,
    StoryKind.ADVERT: 6,
    StoryKind.CROPPED: 6,
    StoryKind.UPDATED: 6,
    StoryKind.MIRROR: 6,
    StoryKind.FEEDBACK: 8,
    StoryKind.SPAM: 6,
    StoryKind.RELEASE: 2,
    StoryKind.SHORT: 3,
    StoryKind.REWRITTEN: 3,
    StoryKind.QUOTING: 2,
}
"""Stories of each kind in a hundred stories."""

FRESH_SHARE = {
    StoryKind.FEEDBACK: 0.15, StoryKind.SPAM: 0.1, StoryKind.RELEASE: 0.2, StoryKind.SHORT: 0.5
}  # fmt: skip
"""Share of the stories of these kinds that are new, not a repetition."""


class Story(Struct, frozen=True):
    """One document of the stream, with the truth about it."""

    id: str
    text: str
    kind: StoryKind
    origin: str | None = None  # id of the story that it was made from; None for a new one


def stories(seed: int) -> Iterator[Story]:
    """Yield stories without end; equal seeds give equal streams."""
    writer = _Writer(random.Random(seed))
    kinds, weights = list(WEIGHTS), list(WEIGHTS.values())
    for number in count(1):
        kind = writer.rng.choices(kinds, weights)[0]
        yield writer.write(kind, f"story-{number:06d}")


class _Writer:
    """Writes stories and remembers the originals that may come back."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        families = {StoryKind.NEWS, *FRESH_SHARE}
        self._recent: dict[StoryKind, deque[tuple[str, str, Language]]] = {
            kind: deque(maxlen=RECENT) for kind in families
        }

    def write(self, kind: StoryKind, id_: str) -> Story:
        """Return a story of *kind*, a new one if its family has no story yet."""
        family = kind if kind in self._recent else StoryKind.NEWS
        fresh = self.rng.random() < FRESH_SHARE.get(kind, 0.0)
        if kind is StoryKind.NEWS or fresh or not self._recent[family]:
            return self._new(family, id_)
        origin, original, language = self.rng.choice(self._recent[family])
        return Story(id_, self._disguised(kind, original, language), kind, origin)

    def _new(self, family: StoryKind, id_: str) -> Story:
        makers: dict[StoryKind, Callable[[Language], str]] = {
            StoryKind.NEWS: self._news,
            StoryKind.FEEDBACK: partial(self._text, words=MESSAGE_WORDS),
            StoryKind.SPAM: self._letter,
            StoryKind.RELEASE: self._release,
            StoryKind.SHORT: partial(self._text, words=1),
        }
        language = self.rng.choice(LANGUAGES)
        original = makers[family](language)
        self._recent[family].append((id_, original, language))
        text = newsroom.with_numbers(self.rng, original)
        return Story(id_, disguises.fill_in(text, NAMES[0]), family)

    def _disguised(self, kind: StoryKind, original: str, language: Language) -> str:
        rng = self.rng
        if kind is StoryKind.UPDATED:
            return disguises.update(rng, original, self._text(language, words=UPDATE_WORDS))
        if kind is StoryKind.SPAM:
            return disguises.fill_in(original, rng.choice(NAMES[1:]))
        if kind is StoryKind.RELEASE:
            return newsroom.with_numbers(rng, original)
        if kind is StoryKind.SHORT:
            return disguises.change_one_word(rng, original, rng.choice(COMPANIES).split()[0])
        if kind is StoryKind.REWRITTEN:
            return disguises.rewrite(rng, original, language.sentences(rng, words=STORY_WORDS))
        if kind is StoryKind.QUOTING:
            return disguises.quote(rng, self._news(language), original)
        change = {
            StoryKind.REPUBLISHED: disguises.republish,
            StoryKind.ADVERT: disguises.advertise,
            StoryKind.CROPPED: disguises.crop,
            StoryKind.MIRROR: disguises.mirror,
            StoryKind.FEEDBACK: disguises.repeat,
        }[kind]
        return change(rng, original)

    def _text(self, language: Language, words: int) -> str:
        return " ".join(language.sentences(self.rng, words=words))

    def _news(self, language: Language) -> str:
        rng = self.rng
        host = rng.choice(PAPERS).replace(" ", "").lower()
        link = f"https://{host}.example/{rng.randrange(10**6)}"
        body = self._text(language, words=STORY_WORDS)
        return f"{rng.choice(PLACES)} (Wire) - {body} {link}/pictures {link}/comments"

    def _letter(self, language: Language) -> str:
        return language.letter.format(self._text(language, words=TEMPLATE_WORDS))

    def _release(self, language: Language) -> str:
        return language.release.replace("COMPANY", self.rng.choice(COMPANIES))
