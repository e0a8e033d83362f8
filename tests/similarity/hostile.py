"""Hostile texts, and whether kernel and numpy make the same sketches of them.

python -m tests.similarity.hostile FILE CASES    under the sanitisers, compiled to FILE
"""

import random
import sys
from collections.abc import Sequence
from ctypes import CDLL
from pathlib import Path

import numpy as np

from streamfilter.cleaning.folds import FOLDS
from streamfilter.index.bands.bloom_filter import FilterPool, passed, words_for
from streamfilter.similarity.kernel import choice, library
from streamfilter.similarity.kernel.choice import AUTO, OFF, chosen
from streamfilter.similarity.scheme import Normalisation, Scheme, Shingling
from streamfilter.similarity.sketch import Sketcher

SEED = bytes(range(16))
SANITISERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g")
ALPHABETS = (
    "abc XYZ_019 \t\n'`,.-", "aé\u0301\u0323\u0332 ", "ÄÖß ſİ\u0345 ſﬁ", "ＡＢ！～\u3000",
    "中文。… \n", "かなｶﾞﾊﾟ ー", "ไทยที่ນີ້ ខ្មែរ", "سَلّٰم\u0654\u0627 ١٢", "नि\u093c\u094d\u200dক\u09be ",
    "\uac00\u11a8\u1161 \u1100", "\ufdfaﾊﾞ™½ﬃ", "😀👍🏽\u200d\ufe0f \U0001d400", "\x00 \x1c\x85\xa0",
    "\u00ad\u200b\u0e33\u0e48\ud800\udfff", "\U0010ffff\U000f0000\ue000 ",
)  # fmt: skip
"""What random texts are made of: scripts, marks, spaces, NUL, what composes, grows or is lone."""


def both(
    scheme: Scheme, texts: Sequence[str], values: Sequence[Sequence[str | None]]
) -> tuple[bytes, bytes]:
    """Return the sketches that the kernel makes of *texts*, and those that numpy makes."""
    made = []
    for setting in (AUTO, OFF):
        with chosen(setting):
            made.append(Sketcher(scheme, seed=SEED).sketch(texts, values).to_bytes())
    return made[0], made[1]


def random_text(rng: random.Random) -> str:
    alphabets = rng.sample(ALPHABETS, rng.randint(1, 3))
    size = rng.choice((0, 1, 2, 7, 40, 300, 1_500))
    return "".join(rng.choice(rng.choice(alphabets)) for _ in range(size))


def random_case(
    rng: random.Random,
) -> tuple[Scheme, list[str], list[tuple[str | None, ...]]]:
    """Return a scheme, texts, and the values beside them."""
    texts = [random_text(rng) for _ in range(rng.randint(1, 30))]
    texts += rng.choices(texts, k=3)
    normalisation = Normalisation(
        unicode=rng.choice(("NFKC", "NFC", "none")),
        casefold=rng.random() < 0.8,
        whitespace=rng.random() < 0.8,
        digits=rng.random() < 0.3,
        invisible=rng.random() < 0.8,
        ansi=rng.random() < 0.2,
        quotes=rng.random() < 0.2,
        hyphens=rng.random() < 0.2,
        fold=tuple(rng.sample(sorted(FOLDS), rng.choice((0, 0, 1, 3)))),
    )
    shingling = Shingling(
        rng.choice(("word", "word", "char", "stopword")),
        rng.randint(1, 9),
        token_bytes=rng.choice((4, 8, 8)),
        sample_modulus=rng.choice((1, 1, 3)),
    )
    scope = rng.random() < 0.3
    scheme = Scheme(
        16, 6, rng.choice((96, 100, 128)), shingling, normalisation,
        digests=("scope /tenant",) if scope else (),
    )  # fmt: skip
    tenants = [(rng.choice((None, "a", "b")),) for _ in texts] if scope else []
    return scheme, texts, tenants


def filters(rng: random.Random) -> tuple[list[bytes], list[bytes]]:
    """Return a Bloom filter's words and answers, by the kernel and by numpy."""
    made, random_keys = [], np.random.default_rng(rng.getrandbits(32))
    keys = random_keys.integers(0, 2**64, (2, rng.choice((1, 3, 900))), np.uint64)
    keys[:, 0] = rng.choice((0, 2**64 - 1, 2**32 - 1))
    size = rng.choice((1, 900))
    for setting in (AUTO, OFF):
        with chosen(setting):
            pool, words = FilterPool(1 << 20), words_for(size, bits=16)
            beside, filter_, alone = (
                pool.empty(words),
                pool.empty(words),
                FilterPool(0).empty(words),
            )
            for each in (filter_, alone):  # of one size, and another step
                each.add(np.unique(keys[0]))
            beside.add(np.unique(keys[1, ::2]))
            found = passed([beside, filter_, alone, filter_.halved()], keys)
            made.append([filter_.words.tobytes(), alone.words.tobytes(), found.tobytes()])
    return made[0], made[1]


def main(path: str, cases: int) -> None:
    """Try so many cases with the kernel under the sanitisers."""
    file = Path(path)
    library.compile_to(file, (*library.FLAGS, *SANITISERS))
    found = choice.Choice(CDLL(str(file)), path)
    choice._found = lambda: found  # type: ignore[assignment]
    for number in range(cases):
        rng = random.Random(number)
        for one, other in (both(*random_case(rng)), filters(rng)):
            assert one == other, number
    print(f"{cases} cases are equal")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
