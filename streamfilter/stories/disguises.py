"""The ways a story comes back, and the similarity to the original; tests check these claims.

All similarities are Jaccard over runs of three words. A story has about n = 190 words, so n - 2
shingles. With h added words the similarity is (n - 2) / (n - 2 + h). One changed word inside costs
three shingles in each of the two sets. The sizes below follow from that.
"""

import random
import re
from enum import StrEnum


class StoryKind(StrEnum):
    """The kind of a story: new, or a disguise of an earlier one."""

    NEWS = "news"
    REPUBLISHED = "republished"  # with another paper's header and footer
    ADVERT = "advert"  # with an advertisement in the middle
    CROPPED = "cropped"  # without its end
    UPDATED = "updated"  # with a new first paragraph
    MIRROR = "mirror"  # with other links
    FEEDBACK = "feedback"  # a reader's message; the same again under many ids
    SPAM = "spam"  # from a template; only the name changes
    RELEASE = "release"  # a company's next quarter: only the numbers change, and it is news
    SHORT = "short"  # a few words; with one of them changed it is another message
    REWRITTEN = "rewritten"  # a third of the sentences are new: related, but not the same
    QUOTING = "quoting"  # another story that quotes a passage


CLAIMS: dict[StoryKind, tuple[float, float]] = {
    StoryKind.REPUBLISHED: (0.82, 0.95),
    StoryKind.ADVERT: (0.84, 0.97),
    StoryKind.CROPPED: (0.82, 0.98),
    StoryKind.UPDATED: (0.80, 0.99),
    StoryKind.MIRROR: (0.84, 0.99),
    StoryKind.FEEDBACK: (1.0, 1.0),
    StoryKind.SPAM: (0.80, 0.97),
    StoryKind.RELEASE: (0.4, 0.75),
    StoryKind.SHORT: (0.0, 0.75),
    StoryKind.REWRITTEN: (0.2, 0.78),
    StoryKind.QUOTING: (0.0, 0.5),
}
"""Lowest and highest similarity to the original, for stories that have one."""

PAPERS = ("Harbour Courier", "Morning Ledger", "Valley Observer", "Northern Post", "Daily Beacon",
          "Island Gazette", "Central Tribune", "River Chronicle")  # fmt: skip
SECTIONS = ("World", "Business", "Science", "Culture", "Sport", "Weather", "Opinion", "Letters")
GOODS = ("garden chairs", "winter boots", "tea kettles", "desk lamps", "train tickets")
NAMES = (
    "Amelia", "Boris", "Chiara", "Dmitri", "Elena", "Farid", "Greta", "Hugo", "Ines", "Jonas",
    "Keiko", "Lucas", "Marta", "Nadia", "Oscar", "Petra", "Quentin", "Rosa", "Stefan", "Tamar",
)  # fmt: skip

CROPPED_SHARE = (0.02, 0.08)
UPDATE_SHARE = 0.11  # at most; counts words by white space: "sys.path" is one, but two for shingles
REWRITTEN_SHARE = 0.67
QUOTED_WORDS = 40


def republish(rng: random.Random, text: str) -> str:
    """Print *text* in another paper: a line above, a line below (about 25 words)."""
    paper, (first, second) = rng.choice(PAPERS), rng.sample(SECTIONS, 2)
    header = f"{paper} | {first} | {second} | Sign in | Subscribe"
    footer = (
        f"Copyright {paper}. All rights reserved. Reporting by {rng.choice(NAMES)} for {paper}."
    )
    return f"{header}\n\n{text}\n\n{footer}"


def advertise(rng: random.Random, text: str) -> str:
    """Put an advertisement (about 12 words) between two sentences in the middle."""
    percent, goods = rng.randrange(10, 60, 5), rng.choice(GOODS)
    advert = (
        f"ADVERTISEMENT Save {percent} percent on {goods} this week at {rng.choice(PAPERS)} Shop"
    )
    sentences = _sentences(text)
    place = rng.randint(len(sentences) // 3, 2 * len(sentences) // 3)
    return " ".join([*sentences[:place], advert, *sentences[place:]])


def crop(rng: random.Random, text: str) -> str:
    """Cut a little off the end, as a feed with a length limit does."""
    words = text.split(" ")
    return " ".join(words[: -max(1, round(len(words) * rng.uniform(*CROPPED_SHARE)))]) + " …"


def update(rng: random.Random, text: str, news: str) -> str:
    """Put *news* first, cut to a tenth of the story."""
    budget = int(len(text.split()) * UPDATE_SHARE) - 3
    return f"UPDATE {rng.randint(2, 9)}: {' '.join(news.split()[:budget])}\n\n{text}"


def mirror(rng: random.Random, text: str) -> str:
    """Point the links to another host."""
    host = rng.choice(PAPERS).replace(" ", "").lower()
    return re.sub(r"https://\w+\.example", f"https://{host}{rng.randint(2, 99)}.example", text)


def repeat(rng: random.Random, text: str) -> str:
    """Return the same message as other clients send it: capitals and white space differ."""
    return rng.choice((text, text.lower(), text.upper(), f"  {text}\n", text.replace(" ", "  ")))


def fill_in(template: str, name: str) -> str:
    return template.replace("NAME", name)


def change_one_word(rng: random.Random, text: str, new: str) -> str:
    """Replace one word in the middle of a short message by *new*."""
    words = text.split()
    words[rng.randint(2, len(words) - 3)] = new
    return " ".join(words)


def rewrite(rng: random.Random, text: str, new: list[str]) -> str:
    """Keep two thirds of the sentences, somewhere, and put *new* in the place of the others."""
    sentences = _sentences(text)
    gone = len(sentences) - round(len(sentences) * REWRITTEN_SHARE)
    start = rng.randint(0, len(sentences) - gone)
    return " ".join([*sentences[:start], *new[:gone], *sentences[start + gone :]])


def quote(rng: random.Random, text: str, passage: str) -> str:
    """Put a passage of forty words from another story into *text*."""
    words = passage.split()
    start = rng.randint(0, len(words) - QUOTED_WORDS)
    quoted = " ".join(words[start : start + QUOTED_WORDS])
    return f'{text} An earlier report said: "{quoted}".'


def _sentences(text: str) -> list[str]:
    return re.split(r"(?<=[.!?])\s+", text)
