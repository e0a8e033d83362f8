"""Streams to hold the figures of quality against: real text, and text made for one trouble each."""

import gzip
import json
import random
from collections.abc import Callable
from itertools import islice
from pathlib import Path

from streamfilter.stories.stream import stories
from tests.audit.planted import fresh, with_changed_end

DATA = Path(__file__).parents[3] / "shared" / "data"
LENGTH = 1_000


def corpus(name: str, begin: int = 0, length: int = LENGTH) -> list[str]:
    """Return texts of a real corpus, in its order."""
    with gzip.open(DATA / f"{name}.jsonl.gz") as file:
        return [json.loads(line)["text"] for line in islice(file, begin, begin + length)]


def news() -> list[str]:
    """A newswire: stories, and disguises of recent ones."""
    return [story.text for story in islice(stories(11), LENGTH)]


def bursts() -> list[str]:
    """Ten copies of one text after each other, then nothing for a while."""
    rng, texts = random.Random(1), []
    while len(texts) < LENGTH:
        text = fresh(rng)
        texts += [with_changed_end(text, rng, rng.randint(1, 6)) for _ in range(10)]
        texts += [fresh(rng) for _ in range(30)]
    return texts[:LENGTH]


def drift() -> list[str]:
    """Copies that are further and further from their originals."""
    rng, texts = random.Random(2), []
    for place in range(LENGTH // 2):
        text = fresh(rng)
        texts += [text, with_changed_end(text, rng, 1 + 6 * place * 2 // LENGTH)]
    return texts


def templates() -> list[str]:
    """A few templates, each filled in hundreds of times."""
    rng = random.Random(3)
    forms = [fresh(rng) for _ in range(12)]
    filled = [
        with_changed_end(rng.choice(forms), rng, rng.randint(1, 8)) for _ in range(LENGTH // 2)
    ]
    texts = filled + [fresh(rng) for _ in range(LENGTH - len(filled))]
    rng.shuffle(texts)
    return texts


def repeated() -> list[str]:
    """Many exact copies, some near ones."""
    rng, texts = random.Random(4), []
    while len(texts) < LENGTH:
        text = fresh(rng)
        texts += [text] * rng.choice((1, 1, 2, 9)) + [with_changed_end(text, rng, 5)]
    return texts[:LENGTH]


def clusters() -> list[str]:
    """A forum: topics whose posts are alike by chance, in clusters of any size."""
    rng, texts = random.Random(5), []
    while len(texts) < LENGTH:
        text = fresh(rng)
        size = min(int(rng.paretovariate(0.8)), 120)
        texts += [with_changed_end(text, rng, rng.randint(1, 7)) for _ in range(size)]
    texts = texts[:LENGTH]
    rng.shuffle(texts)
    return texts


def flood() -> list[str]:
    """Variants below the threshold that fill the buckets of a text, then copies of it."""
    rng, texts = random.Random(6), []
    for _ in range(8):
        core = fresh(rng)
        texts += [with_changed_end(core, rng, 7) for _ in range(60)]
        texts += [with_changed_end(core, rng, 2) for _ in range(30)]
        texts += [fresh(rng) for _ in range(LENGTH // 8 - 90)]
    return texts


MADE: dict[str, Callable[[], list[str]]] = {
    "news": news, "bursts": bursts, "drift": drift, "templates": templates,
    "repeated": repeated, "clusters": clusters, "flood": flood,
}  # fmt: skip
REAL: dict[str, Callable[[], list[str]]] = {
    "reuters": lambda: corpus("reuters21578"),
    "commits": lambda: corpus("kafka_commits", 20_000),
}
