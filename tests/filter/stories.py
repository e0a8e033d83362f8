"""Made-up stories for the tests of files: seeded, with exact and near duplicates among them."""

import json
import random
from pathlib import Path

SEED = 20_260_131


def story(chance: random.Random, words: int = 60) -> list[str]:
    return [f"w{chance.randrange(5_000)}" for _ in range(words)]


def stories(count: int, *, seed: int = SEED) -> list[dict[str, str]]:
    """Return documents: half of them new, the others repeats, updates or lookalikes."""
    chance = random.Random(seed)
    texts: list[list[str]] = []
    for _ in range(count):
        kind = chance.choice(["new", "new", "repeat", "update", "lookalike"])
        if kind == "new" or not texts:
            texts.append(story(chance))
            continue
        text = list(chance.choice(texts))
        if kind == "update":
            text[chance.randrange(len(text))] = "updated"
        elif kind == "lookalike":
            text[: len(text) // 2] = story(chance, len(text) // 2)
        texts.append(text)
    return [{"id": f"d{number}", "text": " ".join(text)} for number, text in enumerate(texts)]


def lines_of(documents: list[dict[str, str]]) -> list[bytes]:
    return [json.dumps(document).encode() for document in documents]


def write(path: Path, lines: list[bytes]) -> Path:
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    return path
