"""A generated newspaper: articles of real sentences among navigation and adverts.

Half of a page's words are not the article's. Adverts are what adverts are: names, verbs and
numbers, next to no small words.
"""

import random

from streamfilter.bench import prose

GOODS = (
    "garden chairs", "winter boots", "tea kettles", "desk lamps", "train tickets", "phone cases",
    "running shoes", "leather sofas", "solar panels", "coffee beans", "office printers",
)  # fmt: skip
VERBS = ("Buy", "Save", "Order", "Try", "Shop", "Discover", "Win", "Book", "Compare", "Claim")
BRANDS = ("Sudzo", "Lumora", "Petrano", "Quickfit", "Veltex", "Orbita", "Nordhus", "Calypso")
MENU = (
    "Home", "World", "Business", "Science", "Culture", "Sport", "Weather", "Opinion", "Letters",
    "Video", "Podcasts", "Archive", "Sign in", "Subscribe", "Newsletters", "Jobs", "Crosswords",
    "Travel", "Health", "Obituaries", "Contact", "Privacy", "Terms", "Help",
)  # fmt: skip
ARTICLE_WORDS, ADVERTS, MENU_ENTRIES = 150, 12, 16


def furniture(rng: random.Random) -> list[str]:
    """Return what stands around an article: the menu, then adverts."""
    adverts = [
        f"{rng.choice(VERBS)} {rng.choice(BRANDS)} {rng.choice(GOODS)} "
        f"{rng.randrange(10, 90, 5)} percent off {rng.choice(('today', 'this week', 'online'))}"
        for _ in range(ADVERTS)
    ]
    return [" | ".join(rng.sample(MENU, MENU_ENTRIES)), *adverts]


def article(rng: random.Random) -> list[str]:
    """Return passages of several documents, as sentences."""
    sentences: list[str] = []
    while sum(len(sentence.split()) for sentence in sentences) < ARTICLE_WORDS:
        source = rng.choice(prose.sources())
        start = rng.randrange(len(source))
        sentences += source[start : start + 4]
    return sentences


def page(sentences: list[str], around: list[str]) -> str:
    """Return the article with an advert before every other sentence, the rest at the end."""
    menu, *adverts = around
    lines = [menu]
    for number, sentence in enumerate(sentences):
        if number % 2 == 0 and adverts:
            lines.append(adverts.pop())
        lines.append(sentence)
    return "\n".join([*lines, *adverts])
