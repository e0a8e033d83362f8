"""The stream: an endless mix of new stories and disguises of recent ones, determined by a seed.

A disguise is always made from the original, never from another disguise. Near-duplication is not
transitive, so the similarities of a chain would drift away from the claims.
"""

import random
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count

from streamfilter.stories import disguises, prose
from streamfilter.stories.disguises import NAMES, PAPERS, StoryKind

RECENT = 400  # originals that may come back: some within one batch, some a minute later

STORY_WORDS, PASSAGE_SENTENCES = 190, (3, 5)
TEMPLATE_WORDS, UPDATE_WORDS, MESSAGE_WORDS = 110, 30, (7, 10)
PLACES = ("LISBON", "OSLO", "NAIROBI", "LIMA", "OSAKA", "TURIN", "HALIFAX", "PERTH", "TALLINN")
MONTHS = ("January", "March", "May", "July", "September", "November")

WEIGHTS = {
    StoryKind.NEWS: 44,
    StoryKind.REPUBLISHED: 8,
    StoryKind.ADVERT: 6,
    StoryKind.CROPPED: 6,
    StoryKind.UPDATED: 6,
    StoryKind.MIRROR: 6,
    StoryKind.FEEDBACK: 8,
    StoryKind.SPAM: 6,
    StoryKind.SHORT: 5,
    StoryKind.REWRITTEN: 3,
    StoryKind.QUOTING: 2,
}
"""Stories of each kind in a hundred stories."""

FRESH_SHARE = {StoryKind.FEEDBACK: 0.15, StoryKind.SPAM: 0.1, StoryKind.SHORT: 0.5}
"""Share of the stories of these kinds that are new, not a repetition."""


@dataclass(frozen=True, slots=True)
class Story:
    """One document of the stream, with the truth about it."""

    id: str
    text: str
    kind: StoryKind
    origin: str | None = None  # id of the story that it was made from; None for a new one


def stories(seed: int) -> Iterator[Story]:
    """Yield stories without end; equal seeds (and Python versions) give equal streams."""
    writer = _Writer(random.Random(seed))
    kinds, weights = list(WEIGHTS), list(WEIGHTS.values())
    for number in count(1):
        kind = writer.rng.choices(kinds, weights)[0]
        yield writer.write(kind, f"story-{number:06d}")


class _Writer:
    """Writes stories and remembers the originals that may come back."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self._sources = prose.sources()
        self._weights = [len(sentences) for sentences in self._sources]
        self._vocabulary = sorted(
            {
                word
                for source in self._sources
                for s in source
                for word in s.split()
                if word.isalpha()
            }
        )
        self._recent: dict[StoryKind, deque[tuple[str, str]]] = {
            kind: deque(maxlen=RECENT)
            for kind in (StoryKind.NEWS, StoryKind.FEEDBACK, StoryKind.SPAM, StoryKind.SHORT)
        }

    def write(self, kind: StoryKind, id_: str) -> Story:
        """Return a story of *kind*, a new one if its family has no story yet."""
        family = kind if kind in self._recent else StoryKind.NEWS
        fresh = self.rng.random() < FRESH_SHARE.get(kind, 0.0)
        if kind is StoryKind.NEWS or fresh or not self._recent[family]:
            return self._new(family, id_)
        origin, original = self.rng.choice(self._recent[family])
        return Story(id_, self._disguised(kind, original), kind, origin)

    def _new(self, family: StoryKind, id_: str) -> Story:
        makers: dict[StoryKind, Callable[[], str]] = {
            StoryKind.NEWS: self._news,
            StoryKind.FEEDBACK: self._passage,
            StoryKind.SPAM: self._template,
            StoryKind.SHORT: self._message,
        }
        original = makers[family]()
        self._recent[family].append((id_, original))
        text = disguises.fill_in(original, NAMES[0]) if family is StoryKind.SPAM else original
        return Story(id_, text, family)

    def _disguised(self, kind: StoryKind, original: str) -> str:
        rng = self.rng
        if kind is StoryKind.UPDATED:
            return disguises.update(rng, original, " ".join(self._sentences(UPDATE_WORDS)))
        if kind is StoryKind.SPAM:
            return disguises.fill_in(original, rng.choice(NAMES[1:]))
        if kind is StoryKind.SHORT:
            return disguises.change_one_word(rng, original, self._other_word(original))
        if kind is StoryKind.REWRITTEN:
            return disguises.rewrite(rng, original, self._sentences(STORY_WORDS))
        if kind is StoryKind.QUOTING:
            return disguises.quote(rng, self._news(), original)
        change = {
            StoryKind.REPUBLISHED: disguises.republish,
            StoryKind.ADVERT: disguises.advertise,
            StoryKind.CROPPED: disguises.crop,
            StoryKind.MIRROR: disguises.mirror,
            StoryKind.FEEDBACK: disguises.repeat,
        }[kind]
        return change(rng, original)

    def _news(self) -> str:
        rng = self.rng
        host = rng.choice(PAPERS).replace(" ", "").lower()
        link = f"https://{host}.example/{rng.randrange(10**6)}"
        dateline = f"{rng.choice(PLACES)}, {rng.choice(MONTHS)} {rng.randint(1, 30)} (Wire) -"
        body = " ".join(self._sentences(STORY_WORDS))
        return f"{dateline} {body} Pictures at {link}/pictures and comments at {link}/comments."

    def _template(self) -> str:
        pitch = " ".join(self._sentences(TEMPLATE_WORDS))
        return f"Dear NAME, {pitch} Reply today, NAME, before the offer ends."

    def _message(self) -> str:
        return " ".join(self.rng.choices(self._vocabulary, k=self.rng.randint(*MESSAGE_WORDS)))

    def _other_word(self, text: str) -> str:
        known = set(text.lower().split())
        return next(w for w in iter(self._word, None) if w.lower() not in known)

    def _word(self) -> str:
        return self.rng.choice(self._vocabulary)

    def _sentences(self, words: int) -> list[str]:
        """Return passages of several documents, until there are *words* words."""
        chosen: list[str] = []
        while sum(len(sentence.split()) for sentence in chosen) < words:
            chosen += [s for s in self._run() if s not in chosen]
        return chosen

    def _passage(self) -> str:
        return " ".join(self._run())

    def _run(self) -> tuple[str, ...]:
        """Return a few consecutive sentences of one document."""
        source = self.rng.choices(self._sources, self._weights)[0]
        start = self.rng.randrange(len(source))
        return source[start : start + self.rng.randint(*PASSAGE_SENTENCES)]
