"""Sketches: the columns that are kept of a micro-batch of texts.

Texts are sketched in chunks that fit the processor's cache. ASCII texts are separate from the rest:
they have shortcuts, which give the same tokens. The result is a value that can be written, sent and
read back. No later step needs the text.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from streamfilter.similarity.bands import Bander
from streamfilter.similarity.columns import (
    U8,
    U32,
    U64,
    Contents,
    Flags,
    Rows,
    Samples,
    slices,
    starts_of,
)
from streamfilter.similarity.hashing import HALF
from streamfilter.similarity.minhash import MinHasher
from streamfilter.similarity.scheme import SAMPLE_TOKENS, Scheme
from streamfilter.similarity.text.normalisation import Chunk, Normaliser
from streamfilter.similarity.text.shingles import Shingler, Tokens

CHUNK_BYTES = 128 * 1024
"""Texts sketched together: columns of a chunk stay in cache, call overhead stays small."""

LONG = 100
"""From so many tokens a text on, one 32-bit sort for each text is faster than a 64-bit sort of all.
"""

_HEAD = struct.Struct("<4sIIIQ")
_MAGIC = b"SFK1"


@dataclass(frozen=True, slots=True)
class Sketches:
    """The sketches of n documents, row i for document i."""

    contents: Contents
    keys: U64
    """(n, bands + 1) band keys, and the folded fingerprint as the last column."""

    def __len__(self) -> int:
        return len(self.keys)

    def keys_that_count(self, *, short: bool) -> Flags:
        """Return (n, columns) the valid keys: a *short* text has only its fingerprint, if any."""
        signed = self.contents.set_sizes > 0
        count = np.repeat(signed[:, None], self.keys.shape[1], axis=1)
        count[:, -1] = signed | short
        return count

    @classmethod
    def joined(cls, parts: Sequence[Sketches]) -> Sketches:
        """Return the documents of all *parts*, at least one, one after the other."""
        contents = Contents.joined([part.contents for part in parts])
        return cls(contents, np.concatenate([part.keys for part in parts]))

    def at(self, rows: Rows) -> Sketches:
        """Return the documents in *rows*, in the order given."""
        return Sketches(self.contents.at(rows), self.keys[rows])

    def to_bytes(self) -> bytes:
        """Serialise, so that another process can judge what this one sketched."""
        contents, samples = self.contents, self.contents.samples
        head = _HEAD.pack(
            _MAGIC, len(self), contents.slots, self.keys.shape[1], len(samples.tokens)
        )
        columns = (
            contents.fingerprints,
            contents.signatures,
            self.keys.astype("<u8"),
            samples.set_sizes.astype("<i8"),
            samples.starts.astype("<i8"),
            samples.tokens.astype("<u4"),
        )
        if contents.payloads:
            raise ValueError("sketches of records are not sent to other processes")
        return head + b"".join(np.ascontiguousarray(column).tobytes() for column in columns)

    @classmethod
    def from_bytes(cls, data: bytes) -> Sketches:
        """Read back what `to_bytes` wrote; raises ValueError for anything else."""
        if len(data) < _HEAD.size or data[:4] != _MAGIC:
            raise ValueError("these bytes are no sketches: they lack the mark SFK1")
        _, n, slots, columns, tokens = _HEAD.unpack_from(data)
        shapes: list[tuple[str, tuple[int, ...]]] = [
            ("u1", (n, 16)),
            ("u1", (n, slots)),
            ("<u8", (n, columns)),
        ]
        shapes += [("<i8", (n,)), ("<i8", (n + 1,)), ("<u4", (tokens,))]
        sizes = [np.dtype(kind).itemsize * int(np.prod(shape)) for kind, shape in shapes]
        if len(data) != _HEAD.size + sum(sizes):
            raise ValueError(f"these sketches are cut: {len(data)} bytes")
        arrays, at = [], _HEAD.size
        for (kind, shape), size in zip(shapes, sizes, strict=True):
            column = np.frombuffer(data, kind, offset=at, count=int(np.prod(shape)))
            arrays.append(column.reshape(shape))
            at += size
        fingerprints, signatures, keys, set_sizes, starts, sample = arrays
        return cls(Contents(fingerprints, signatures, Samples(sample, starts, set_sizes)), keys)


ContentsOf = Callable[[Sequence[str]], Contents]


class Sketcher:
    """Sketches texts under one scheme and one secret seed of 16 bytes."""

    def __init__(
        self, scheme: Scheme, *, seed: bytes, contents_of: ContentsOf | None = None
    ) -> None:
        """Prepare to sketch under *scheme*.

        *contents_of* makes the columns of documents that are no texts (`assembly.sketcher_for`).
        """
        if bool(scheme.fields) is not bool(contents_of):
            raise ValueError("records are sketched by their fields, and texts are not")
        self.scheme = scheme
        self._seed = seed
        key = hashlib.blake2b(seed, person=b"fingerprint").digest()
        self._keyed = hashlib.blake2b(digest_size=16, key=key)
        self.normalise = Normaliser(scheme.normalisation)
        self.shingler = Shingler(scheme.shingling, seed=seed, fold=scheme.normalisation.fold)
        self._contents_of = contents_of or self._contents_of_texts
        self._minhasher = MinHasher(scheme.slots, seed=seed)
        self._bander = Bander(
            scheme.bands, scheme.rows, seed=seed, layout=scheme.layout, slots=scheme.slots
        )

    @property
    def recipe(self) -> tuple[str, bytes]:
        """Return the scheme as text and the secret seed, to make the same sketcher elsewhere."""
        return self.scheme.as_json(), self._seed

    def sketch(self, texts: Sequence[str]) -> Sketches:
        """Return the sketches of *texts* (joined records), in order."""
        contents = self._contents_of(texts)
        return Sketches(contents, self.keys_of(contents))

    def _contents_of_texts(self, texts: Sequence[str]) -> Contents:
        rows: list[int] = []
        parts = [self._no_contents()]
        for chosen, ascii_only in chunks_of(texts):
            chunk = self.normalise.chunk([texts[i] for i in chosen], ascii_only=ascii_only)
            tokens = self.shingler.tokens(chunk)
            signatures = self._minhasher.sign(tokens.values, tokens.starts).astype(np.uint8)
            samples = samples_of(tokens)
            signatures[samples.set_sizes == 0] = 0
            parts.append(Contents(self.fingerprints(chunk), signatures, samples))
            rows += chosen
        contents = Contents.joined(parts)
        in_order = np.array(rows, np.int64)
        return contents if (np.diff(in_order) > 0).all() else contents.at(np.argsort(in_order))

    def _no_contents(self) -> Contents:
        nothing = Samples(np.zeros(0, np.uint32), np.zeros(1, np.int64), np.zeros(0, np.int64))
        signatures = np.zeros((0, self.scheme.slots), np.uint8)
        return Contents(np.zeros((0, 16), np.uint8), signatures, nothing)

    def keys_of(self, contents: Contents) -> U64:
        """Return (n, bands + 1) keys, computed from stored columns: a restore needs no text."""
        return self._bander.keys(contents.signatures, contents.fingerprints)

    def tokens(self, text: str) -> U64:
        """Return the tokens of one text, repeats kept."""
        return self.shingler.tokens(self.normalise.chunk([text], ascii_only=text.isascii())).values

    def fingerprints(self, chunk: Chunk) -> U8:
        """Return (n, 16) keyed digests of the texts in *chunk*."""
        digests: list[bytes] = []
        for text in chunk.texts():
            state = self._keyed.copy()  # a third quicker than to begin with the key
            state.update(text)
            digests.append(state.digest())
        return np.frombuffer(b"".join(digests), np.uint8).reshape(-1, 16)


def chunks_of(texts: Sequence[str]) -> Iterator[tuple[list[int], bool]]:
    """Yield (rows, all ASCII?); the texts of a chunk have about `CHUNK_BYTES` together."""
    for wanted in (True, False):
        chunk: list[int] = []
        size = 0
        for i, text in enumerate(texts):
            if text.isascii() is not wanted:
                continue
            if chunk and size + len(text) > CHUNK_BYTES:
                yield chunk, wanted
                chunk, size = [], 0
            chunk.append(i)
            size += len(text)
        if chunk:
            yield chunk, wanted


def samples_of(tokens: Tokens) -> Samples:
    """Return for each text its smallest distinct 32-bit tokens, and how many distinct it has."""
    ordered = _sorted(tokens)
    first = np.ones(len(ordered) + 1, bool)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:-1])
    first[tokens.starts] = True
    kept = np.flatnonzero(first[:-1])
    begins = np.searchsorted(kept, tokens.starts)
    set_sizes = np.diff(begins)
    sizes = np.minimum(set_sizes, SAMPLE_TOKENS)
    if set_sizes.max(initial=0) > SAMPLE_TOKENS:
        kept = kept[slices(begins[:-1], sizes)]
    return Samples(ordered[kept], starts_of(sizes), set_sizes)


def _sorted(tokens: Tokens) -> U32:
    """Return the upper halves of *tokens*, ascending within each text."""
    values, sizes = tokens.values >> HALF, np.diff(tokens.starts)
    if len(values) < LONG * len(sizes):
        values |= np.repeat(np.arange(len(sizes), dtype=np.uint64) << HALF, sizes)
        values.sort()
        return values.astype(np.uint32)
    ordered = values.astype(np.uint32)
    for begin, end in pairwise(tokens.starts.tolist()):
        ordered[begin:end].sort()
    return ordered
