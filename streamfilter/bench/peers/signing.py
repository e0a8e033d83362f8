"""Rivals at signing: from texts to signatures, same shingles, 128 slots, one thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import gaoya
import xxhash
from datasketch import MinHash
from rensa import RMinHash

from streamfilter.bench.peers.shingles import SHINGLERS

SLOTS, SEED = 128, 42
BANDS, ROWS = 16, 8

HashFunction = Callable[[bytes], int]
Signer = Callable[[Sequence[str]], Any]


def _xxh3_32(data: bytes) -> int:
    return xxhash.xxh3_64_intdigest(data) & 0xFFFFFFFF


def signers(shingle: str) -> dict[str, Signer]:
    """Return every rival's signer for *shingle* (``word-3`` or ``char-5``) by its name."""
    shingles = SHINGLERS[shingle]

    def datasketch(texts: Sequence[str], hash_function: HashFunction | None) -> Any:
        encoded = ([token.encode() for token in shingles(text)] for text in texts)
        return MinHash.bulk(encoded, num_perm=SLOTS, hashfunc=hash_function)

    def rensa(texts: Sequence[str]) -> Any:
        sets = (shingles(text) for text in texts)  # a generator was faster than a list
        return RMinHash.digest_matrix_from_token_sets(sets, SLOTS, SEED)

    def rho(texts: Sequence[str]) -> Any:
        sets = (shingles(text) for text in texts)
        return RMinHash.digest_matrix_from_token_sets_rho(sets, SLOTS, SEED)

    return {
        "datasketch, sha1": lambda texts: datasketch(texts, None),  # its default
        "datasketch, xxh3": lambda texts: datasketch(texts, _xxh3_32),
        "datasketch, xxh32": lambda texts: datasketch(texts, xxhash.xxh32_intdigest),
        "rensa": rensa,
        "rensa, rho": rho,
        "gaoya": lambda texts: _gaoya(texts, analyzer=shingles),
        "gaoya, own analyser": lambda texts: _gaoya(texts, **_own_analyser(shingle)),
    }


def _own_analyser(shingle: str) -> dict[str, Any]:
    kind, _, size = shingle.partition("-")
    return {"analyzer": kind, "lowercase": True, "ngram_range": (int(size), int(size))}


def _gaoya(texts: Sequence[str], **analysis: Any) -> Any:
    """Insert into a fresh index: gaoya signs nowhere else."""
    index = gaoya.minhash.MinHashStringIndex(
        hash_size=32, jaccard_threshold=0.8, num_bands=BANDS, band_size=ROWS,
        id_container="smallvec", **analysis,
    )  # fmt: skip
    for number, text in enumerate(texts):
        index.insert_document(number, text)
    return index
