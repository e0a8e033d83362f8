"""Rivals at signing: from texts to signatures, same shingles, 128 slots, one thread."""

from collections.abc import Callable, Sequence
from typing import Any

import xxhash
from datasketch import MinHash
from gaoya.minhash import MinHashStringIndex
from rensa import RMinHash

from tests.bench.peers.shingles import SHINGLERS

SLOTS, SEED = 128, 42

HashFunction = Callable[[bytes], int]
Signer = Callable[[Sequence[str]], Any]


def signers(shingle: str) -> dict[str, Signer]:
    """Return every rival's signer for *shingle* (``word-3`` or ``char-5``) by its name."""
    shingles = SHINGLERS[shingle]
    kind, _, size = shingle.partition("-")

    def datasketch(texts: Sequence[str], hash_function: HashFunction | None) -> Any:
        encoded = ([token.encode() for token in shingles(text)] for text in texts)
        return MinHash.bulk(encoded, num_perm=SLOTS, hashfunc=hash_function)

    def rensa(texts: Sequence[str]) -> Any:
        sets = (shingles(text) for text in texts)  # a generator was faster than a list
        return RMinHash.digest_matrix_from_token_sets(sets, SLOTS, SEED)

    def gaoya(texts: Sequence[str]) -> None:
        """Insert into a fresh index: gaoya signs nowhere else."""
        index = MinHashStringIndex(
            hash_size=32, jaccard_threshold=0.8, num_bands=16, band_size=8,
            id_container="smallvec", analyzer=kind, lowercase=True,
            ngram_range=(int(size), int(size)),
        )  # fmt: skip
        for number, text in enumerate(texts):
            index.insert_document(number, text)

    return {
        "datasketch, sha1": lambda texts: datasketch(texts, None),  # its default
        "datasketch, xxh3": lambda texts: datasketch(
            texts, lambda data: xxhash.xxh3_64_intdigest(data) & 0xFFFFFFFF
        ),
        "rensa": rensa,
        "gaoya, own analyser": gaoya,
    }
