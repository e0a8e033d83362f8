"""Documents, keys and changes for the tests of the index: random ones, from a seed."""

import random
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from streamfilter.index.directory.identity import Identity
from streamfilter.index.format import FORMAT, names_of
from streamfilter.index.progress import Progress
from streamfilter.index.protocol import Additions, Changes, Documents, Index, Removals
from streamfilter.index.rocks.rocks_index import RocksIndex
from streamfilter.model import BatchMark, Span
from streamfilter.similarity.columns import Contents, Samples

SLOTS = 16
COLUMNS = 4
SCHEME = '{"bands":3,"rows":5,"shingling":{"kind":"word","size":3},"slots":16}'


def identity(**changed: Any) -> Identity:
    fields: dict[str, Any] = {
        "index_id": "0f" * 16,
        "format": FORMAT,
        "scheme_fingerprint": "a1b2c3d4",
        "scheme": SCHEME,
        "seed": b"a secret of 16 b",
        "created": 1_700_000_000_000,
        "unicode_version": "14.0.0",
    }
    return Identity(**fields | changed)


def documents(ordinals: Sequence[int], *, seed: int = 0, unsigned: Sequence[int] = ()) -> Documents:
    """Documents that are a function of their ordinal and the seed, whatever the batch."""
    rows = [_document(ordinal, seed, ordinal in unsigned) for ordinal in ordinals]
    sizes = [len(row["tokens"]) for row in rows]
    return Documents(
        ordinals=np.array(ordinals, np.int64),
        ids=[row["id"] for row in rows],
        batches=np.array([row["batch"] for row in rows], np.int64),
        partitions=np.array([row["partition"] for row in rows], np.int64),
        offsets=np.array(ordinals, np.int64) * 3,
        timestamps=np.array([row["timestamp"] for row in rows], np.int64),
        contents=Contents(
            fingerprints=_bytes([row["fingerprint"] for row in rows], 16),
            signatures=_bytes([row["signature"] for row in rows], SLOTS),
            samples=Samples(
                tokens=np.array([t for row in rows for t in row["tokens"]], np.uint32),
                starts=np.concatenate(([0], np.cumsum(sizes))).astype(np.int64),
                set_sizes=np.array([row["set_size"] for row in rows], np.int64),
            ),
        ),
    )


@cache
def _document(ordinal: int, seed: int, unsigned: bool) -> dict[str, Any]:
    rng = random.Random(f"{seed} {ordinal}")
    tokens = [] if unsigned else sorted(rng.sample(range(2**32), rng.randint(1, 9)))
    return {
        "id": "".join(rng.choices("ab-ø語🦊", k=rng.randint(0, 12))),
        "batch": rng.randrange(2**32),
        "partition": rng.randrange(2**16),
        "timestamp": rng.choice([-1, 0, rng.randrange(2**31) * 1000]),
        "fingerprint": rng.randbytes(16),
        "signature": bytes(SLOTS) if unsigned else rng.randbytes(SLOTS),
        "set_size": 0 if unsigned else len(tokens) + rng.randint(0, 5_000),
        "tokens": tokens,
    }


def _bytes(rows: list[bytes], width: int) -> Any:
    return np.frombuffer(b"".join(rows), np.uint8).reshape(-1, width)


def keys_of(rows: Sequence[Sequence[int]]) -> Any:
    return np.array(rows, np.uint64).reshape(-1, COLUMNS)


def random_keys(rng: random.Random, count: int, *, kinds: int) -> Any:
    """Keys out of few, so that they meet: within a batch, a row, and with earlier ones.

    The last column's, of whole texts, are no keys of bands.
    """
    keys = keys_of([[rng.randrange(kinds) << 40 for _ in range(COLUMNS)] for _ in range(count)])
    keys[:, -1] |= np.uint64(1 << 63)
    return keys


def mark(number: int, *spans: tuple[int, int, int], first: int = 0, after: int = 0) -> BatchMark:
    return BatchMark(number, first, max(first, after), tuple(Span(*span) for span in spans))


def add(index: Index, ordinals: Sequence[int], keys: Any, *, next_batch: int = 1) -> Any:
    """Apply documents with *keys* the way a restore does: without a probe's answer."""
    progress = Progress(next_batch=next_batch, next_ordinal=max(ordinals) + 1)
    return index.apply(Changes(progress, Additions(documents(ordinals), keys)))


def removals(documents: Documents, keys: Any) -> Removals:
    """What forgets *documents*, which were added with *keys*."""
    return Removals(documents.ordinals, keys, documents.contents.signatures, names_of(documents))


def buckets_of(index: Index, keys: Sequence[int]) -> list[list[int]]:
    """The bucket of each key, as lists."""
    found = index.probe(np.array(keys, np.uint64).reshape(1, -1))
    ordinals = iter(found.ordinals.tolist())
    return [[next(ordinals) for _ in range(count)] for count in found.counts[0].tolist()]


def _sizes(path: Path) -> dict[Path, int]:
    """The files of a directory with their bytes, without RocksDB's log for people."""
    files = (each for each in path.rglob("*") if each.is_file() and each.name != "LOG")
    return {each.relative_to(path): each.stat().st_size for each in files}


def as_a_kill_leaves_it(path: Path, copy: Path) -> Path:
    """Copy the directory of a running index, again if its files changed meanwhile.

    A copy takes time, a kill none: a MANIFEST that was copied after a flush names a table that was
    empty, or not there, when its turn came. So files may neither go nor come nor grow.
    """
    for _ in range(20):
        with suppress(shutil.Error, FileNotFoundError):
            shutil.copytree(path, copy)
            if _sizes(path) == _sizes(copy):
                return copy
        shutil.rmtree(copy)
    raise AssertionError(f"{path} never holds still")


def compact(index: RocksIndex) -> None:
    """Merge all levels of its database."""
    for family in index._store._families.values():
        family.flush(True)
        family.compact_range(None, None)


def settle(index: RocksIndex, changes: Callable[[int], Changes], count: int) -> None:
    """Write *count* batches into *index*, compact it half-way, and close it."""
    for number in range(count):
        index.apply(changes(number))
        if number == count // 2:
            compact(index)
    index.close()
