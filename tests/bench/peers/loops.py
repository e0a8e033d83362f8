"""Rivals as whole programs: JSON Lines in, kept and withheld lines out, all in memory.

    python -m tests.bench.peers.loops NAME INPUT KEPT WITHHELD

Each loop is the one that the rival's documentation shows for keeping the first of similar
documents; nothing is written to disk but the lines, and nothing is verified but by signatures.
"""

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import count, islice

from tests.bench.peers.shingles import word_shingles

THRESHOLD, SLOTS = 0.8, 128
BATCH = 1_000

Texts = Iterable[str]
Kept = Iterator[bool]


def datasketch(
    texts: Texts,
    *,
    hash_name: str | None = None,
    bands: tuple[int, int] | None = None,
    compare: bool = False,
) -> Kept:
    """Query, then insert if nothing was found; by default its own bands, and its own SHA-1."""
    import xxhash
    from datasketch import MinHash, MinHashLSH

    lsh = MinHashLSH(threshold=THRESHOLD, num_perm=SLOTS, params=bands)
    encoded = ([token.encode() for token in word_shingles(text)] for text in texts)
    hash_function = getattr(xxhash, hash_name) if hash_name else None
    stored: dict[int, MinHash] = {}
    hashes = MinHash.generator(encoded, num_perm=SLOTS, hashfunc=hash_function)
    for number, signature in enumerate(hashes):
        known = lsh.query(signature)
        if compare:
            known = [each for each in known if stored[each].jaccard(signature) >= THRESHOLD]
        if not known:
            lsh.insert(number, signature, check_duplication=False)
            if compare:
                stored[number] = signature
        yield not known


def rensa_judge() -> Callable[[Texts], Sequence[bool]]:
    """Return rensa's own deduplicator: it says of each of the next texts whether it is kept."""
    from rensa import RMinHashDeduplicator

    deduplicator = RMinHashDeduplicator(threshold=THRESHOLD, num_perm=SLOTS, use_lsh=True)
    names = map(str, count())

    def judge(texts: Texts) -> Sequence[bool]:
        pairs = [(next(names), word_shingles(text)) for text in texts]
        return deduplicator.add_pairs(pairs)  # type: ignore[no-any-return]

    return judge


def rensa(texts: Texts) -> Kept:
    """Let its deduplicator decide, a thousand documents a call."""
    judge, left = rensa_judge(), iter(texts)
    while batch := list(islice(left, BATCH)):
        yield from judge(batch)


def gaoya(texts: Texts) -> Kept:
    """Query, then insert if nothing was found; its index compares signatures itself."""
    from gaoya.minhash import MinHashStringIndex

    index = MinHashStringIndex(
        hash_size=32, jaccard_threshold=THRESHOLD, num_bands=16, band_size=8,
        analyzer=word_shingles, id_container="smallvec",
    )  # fmt: skip
    for number, text in enumerate(texts):
        known = index.query(text)
        if not known:
            index.insert_document(number, text)
        yield not known


LOOPS: dict[str, Callable[[Texts], Kept]] = {
    "datasketch": datasketch,
    # The fastest hash function it takes; and bands that find more, with candidates compared.
    "datasketch, xxh32": partial(datasketch, hash_name="xxh32_intdigest"),
    "datasketch, xxh32, 16 x 8, compared": partial(
        datasketch, hash_name="xxh32_intdigest", bands=(16, 8), compare=True
    ),
    "rensa": rensa,
    "gaoya": gaoya,
}


def main(name: str, source: str, kept: str, withheld: str) -> None:
    """Filter *source* with the rival *name*."""
    with open(source, "rb") as lines, open(kept, "wb") as yes, open(withheld, "wb") as no:
        held: list[bytes] = []

        def texts() -> Iterator[str]:
            for line in lines:
                held.append(line)
                yield json.loads(line)["text"]

        for number, keep in enumerate(LOOPS[name](texts())):
            (yes if keep else no).write(held[number])


if __name__ == "__main__":
    os.environ["RAYON_NUM_THREADS"] = "1"
    main(*sys.argv[1:])
