"""Pages with labels: an article between the menu, the cookie banner and the footer of its site.

The words come in a new order each time, so nothing but what is planted here is shared.
"""

import json
import random
from dataclasses import dataclass
from pathlib import Path

VOCABULARY = [f"{a}{b}{c}" for a in ("ba", "ké", "ru", "mi", "to", "sal", "ne", "gor", "wy", "ha")
              for b in ("l", "nd", "st", "ra", "vi", "qu", "mor", "ez", "up", "ti")
              for c in ("o", "er", "in", "ist", "a", "ur", "ém", "ol", "ax", "ets")]  # fmt: skip


@dataclass(frozen=True)
class Page:
    site: int
    article: int
    text: str


def words(rng: random.Random, count: int) -> str:
    return " ".join(rng.choices(VOCABULARY, k=count))


COPIES = 40


def pages(
    *, sites: int = 8, articles: int = 160, copies: int = COPIES, seed: int = 7
) -> list[Page]:
    """Return a page for each article, and one more on another site for *copies* of them."""
    rng = random.Random(seed)
    banners = [words(rng, 90) for _ in range(3)]
    frames = [
        (words(rng, 25), rng.choice(banners), words(rng, 60 + 540 * site // (sites - 1)))
        for site in range(sites)
    ]
    found = []
    for article in range(articles):
        text = words(rng, rng.randint(60, 200))
        for site in rng.sample(range(sites), 2 if article < copies else 1):
            menu, banner, footer = frames[site]
            found.append(Page(site, article, f"{menu}\n{banner}\n{text}\n{footer}"))
    rng.shuffle(found)
    return found


def written(path: Path, texts: list[str]) -> Path:
    lines = [json.dumps({"id": f"{n}", "text": text}) for n, text in enumerate(texts)]
    path.write_text("".join(f"{line}\n" for line in lines))
    return path
