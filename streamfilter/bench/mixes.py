"""Mixes: fresh texts and edited copies of earlier ones, by a seed and a share.

Copies come as they do in a feed: unchanged, with a header, without their end, with some words
changed; so that their similarity to the original spreads from about .7 to 1. Which of them
count as duplicates is not for this module to say: `truth` does.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

CHANGED_WORDS_MAX = 6
HEADER_WORDS_MAX = 20
CROPPED_SHARE_MAX = 0.15


def mixed(fresh: Sequence[str], *, share: float, seed: int) -> list[str]:
    """Return as many texts as *fresh* has, about *share* of them copies of earlier fresh ones."""
    rng = random.Random(f"mix {share} {seed}")
    texts: list[str] = []
    originals: list[str] = []
    vocabulary = sorted({word for text in fresh[:200] for word in _split(text) if word.isalpha()})
    for text in fresh:
        if originals and rng.random() < share:
            texts.append(_copy(rng, rng.choice(originals), vocabulary))
        else:
            originals.append(text)
            texts.append(text)
    return texts


def _split(text: str) -> list[str]:
    """Return the words of *text*; pairs of characters where it has no spaces."""
    if " " in text:
        return text.split(" ")
    return [text[i : i + 2] for i in range(0, len(text), 2)]


def _copy(rng: random.Random, text: str, vocabulary: Sequence[str]) -> str:
    words = _split(text)
    match rng.randrange(4):
        case 0:
            pass
        case 1:
            words = rng.choices(vocabulary, k=rng.randint(1, HEADER_WORDS_MAX)) + words
        case 2:
            words = words[: round(len(words) * (1 - rng.uniform(0, CROPPED_SHARE_MAX)))]
        case _:
            for _ in range(rng.randint(1, CHANGED_WORDS_MAX)):
                words[rng.randrange(len(words))] = rng.choice(vocabulary)
    return (" " if " " in text else "").join(words)
