"""Sketches: the columns that are kept of a micro-batch of texts.

Texts are sketched in chunks that fit the processor's cache. ASCII texts are separate from the rest:
they have shortcuts, which give the same tokens. The result is a value that can be written, sent and
read back. No later step needs the text.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from streamfilter.cleaning.masks import MASKS
from streamfilter.similarity.bands import Bander
from streamfilter.similarity.columns import (
    I64,
    NO_DIGESTS,
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
from streamfilter.similarity.digests import Digester
from streamfilter.similarity.hashing import HALF
from streamfilter.similarity.kernel.choice import kernel
from streamfilter.similarity.minhash import MinHasher
from streamfilter.similarity.scheme import SAMPLE_TOKENS, Scheme, scheme_of
from streamfilter.similarity.text.boilerplate import LEFT, left_of, read_table, table_of
from streamfilter.similarity.text.normalisation import Chunk, Normaliser
from streamfilter.similarity.text.shingles import Shingler, Tokens

CHUNK_BYTES = 128 * 1024
"""Texts sketched together: columns of a chunk stay in cache, call overhead stays small."""

LONG = 100
"""From so many tokens a text on, one 32-bit sort for each text is faster than a 64-bit sort of all.
"""

_HEAD = struct.Struct("<4sIIII?IIQ")
_MAGIC, _MAGIC_DROPPED = b"SFK1", b"SFK2"
"""Marks of sketches without and with the column of dropped shingles."""

NOT_COUNTED = np.zeros(0, np.int64)
"""The column of dropped shingles of a scheme without a table of boilerplate."""

Values = Sequence[str | None]  # the values beside one text (`Document.values`)


class Sketches(Struct, frozen=True):
    """The sketches of n documents, row i for document i."""

    contents: Contents
    keys: U64  # (n, bands + 1) band keys, and the folded fingerprint as the last column
    dropped: I64 = field(default_factory=lambda: NOT_COUNTED)
    """(n,) shingles that were boilerplate, as in `Tokens.dropped`; empty without a table."""

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def left(self) -> dict[str, int]:
        """Return how many documents have all, enough, few shingles left; {} without a table."""
        if not len(self.dropped):
            return {}
        counts = left_of(self.dropped, self.contents.set_sizes)
        return dict(zip(LEFT, counts, strict=True))

    def keys_that_count(self, *, short: bool, least: int = 1) -> Flags:
        """Return (n, columns) the valid keys.

        A text with fewer shingles, or a record with fewer fields, than *least* has only its
        fingerprint, and that only if *short* texts count.
        """
        signed = self.contents.set_sizes >= least
        count = np.repeat(signed[:, None], self.keys.shape[1], axis=1)
        count[:, -1] = signed | short
        return count

    @classmethod
    def joined(cls, parts: Sequence[Sketches]) -> Sketches:
        """Return the documents of all *parts*, at least one, one after the other."""
        contents = Contents.joined([part.contents for part in parts])
        keys = np.concatenate([part.keys for part in parts])
        return cls(contents, keys, np.concatenate([part.dropped for part in parts]))

    def at(self, rows: Rows) -> Sketches:
        dropped = self.dropped[rows] if len(self.dropped) else self.dropped
        return Sketches(self.contents.at(rows), self.keys[rows], dropped)

    def to_bytes(self) -> bytes:
        """Serialise, so that another process can judge what this one sketched."""
        contents, samples = self.contents, self.contents.samples
        widths, mark = contents.widths, _MAGIC_DROPPED if len(self.dropped) else _MAGIC
        head = _HEAD.pack(
            mark, len(self), widths.slots, widths.digests, widths.agreeing, widths.scoped,
            widths.also, self.keys.shape[1], len(samples.tokens),
        )  # fmt: skip
        columns = (
            contents.fingerprints,
            contents.signatures,
            contents.digests.astype("<u8"),
            self.keys.astype("<u8"),
            samples.set_sizes.astype("<i8"),
            samples.starts.astype("<i8"),
            samples.tokens.astype("<u4"),
            self.dropped.astype("<i8"),
        )
        if contents.payloads:
            raise ValueError("sketches of records are not sent to other processes")
        return head + b"".join(np.ascontiguousarray(column).tobytes() for column in columns)

    @classmethod
    def from_bytes(cls, data: bytes) -> Sketches:
        """Read back what `to_bytes` wrote; raises ValueError for anything else."""
        if len(data) < _HEAD.size or data[:4] not in (_MAGIC, _MAGIC_DROPPED):
            raise ValueError("these bytes are no sketches: they lack the mark SFK1 or SFK2")
        mark, n, slots, digests, agreeing, scoped, also, columns, tokens = _HEAD.unpack_from(data)
        counted = n if mark == _MAGIC_DROPPED else 0
        shapes: list[tuple[str, tuple[int, ...]]] = [
            ("u1", (n, 16)),
            ("u1", (n, slots)),
            ("<u8", (n if digests else 0, digests)),
            ("<u8", (n, columns)),
        ]
        shapes += [("<i8", (n,)), ("<i8", (n + 1,)), ("<u4", (tokens,)), ("<i8", (counted,))]
        sizes = [np.dtype(kind).itemsize * int(np.prod(shape)) for kind, shape in shapes]
        if len(data) != _HEAD.size + sum(sizes):
            raise ValueError(f"these sketches are cut: {len(data)} bytes")
        arrays, at = [], _HEAD.size
        for (kind, shape), size in zip(shapes, sizes, strict=True):
            column = np.frombuffer(data, kind, offset=at, count=int(np.prod(shape)))
            arrays.append(column.reshape(shape))
            at += size
        fingerprints, signatures, digested, keys, set_sizes, starts, sample, dropped = arrays
        samples = Samples(sample, starts, set_sizes)
        contents = Contents(fingerprints, signatures, samples, (), digested, agreeing, scoped, also)
        return cls(contents, keys, dropped)


class Dropped(Struct, frozen=True):
    """What a table of boilerplate takes from a text."""

    shingles: int  # shingles that are in the table
    of: int  # all shingles of the text
    passages: tuple[str, ...]  # the passages that they make, normalised

    def __str__(self) -> str:
        if not self.of:
            return "the text is shorter than one shingle"
        counted = f"{self.shingles:,} of {self.of:,} shingles do not count"
        return f"all {self.of:,} shingles; it is compared whole" if self.whole else counted

    @property
    def whole(self) -> bool:
        """Return whether nothing else is left, so that they count after all."""
        return 0 < self.of == self.shingles


ContentsOf = Callable[[Sequence[str], U64 | None], Contents]
"""Makes the contents of documents, each in its scope (a hash) if there are any."""


class Sketcher:
    """Sketches texts under one scheme and one secret seed of 16 bytes."""

    def __init__(
        self, scheme: Scheme, *, seed: bytes, contents_of: ContentsOf | None = None
    ) -> None:
        """Prepare to sketch; *contents_of* makes the columns of documents that are no texts."""
        if bool(scheme.fields) is not bool(contents_of):
            raise ValueError("records are sketched by their fields, and texts are not")
        self.scheme = scheme
        self._seed = seed
        key = hashlib.blake2b(seed, person=b"fingerprint").digest()
        self._keyed = hashlib.blake2b(digest_size=16, key=key)
        self.normalise = Normaliser(scheme.normalisation)
        normal = scheme.normalisation
        self.shingler = Shingler(
            scheme.shingling, seed=seed, fold=normal.fold, boilerplate=normal.boilerplate
        )
        self._contents_of = contents_of
        self._digester = digester_for(scheme, seed=seed)
        self._minhasher = MinHasher(scheme.slots, seed=seed)
        self._bander = Bander(
            scheme.bands, scheme.rows, seed=seed, layout=scheme.layout, slots=scheme.slots
        )

    @property
    def recipe(self) -> tuple[str, bytes]:
        """Return the scheme as text and the secret seed, to make the same sketcher elsewhere.

        The path of a table of boilerplate goes behind the scheme, on a line of its own.
        """
        digest = self.scheme.normalisation.boilerplate
        path = f"\n{table_of(digest).path}" if digest else ""
        return self.scheme.as_json() + path, self._seed

    @classmethod
    def of_recipe(cls, recipe: str, seed: bytes) -> Sketcher:
        """Return the sketcher whose `recipe` this is; its table is read from the path."""
        scheme, _, path = recipe.partition("\n")
        if path:
            read_table(Path(path))
        return cls(scheme_of(scheme), seed=seed)

    def sketch(
        self, texts: Sequence[str], values: Sequence[Values] = (), *, scope: str | None = None
    ) -> Sketches:
        """Return the sketches of *texts* (joined records), in order.

        *values* are those beside each text, in the order of `Scheme.pointers`. A text with an empty
        tuple has none, and nor has any if there are no *values*. If the scheme stores no scopes,
        all *texts* may be of one *scope*, which is then only in their hashes.
        """
        digests = NO_DIGESTS
        if self.scheme.digests:
            digests = self._digester.digests(texts, values or [()] * len(texts))
        scopes = digests[:, 0] if self.scheme.scope else None
        if scope is not None:
            scopes = np.full(len(texts), int.from_bytes(self.scope(scope), "big"), np.uint64)
        if self._contents_of is not None:
            contents, dropped = self._contents_of(texts, scopes), NOT_COUNTED
        else:
            contents, dropped = self._contents_of_texts(texts, scopes)
        if self.scheme.digests:
            contents = self._with_digests(contents, digests)
        return Sketches(contents, self.keys_of(contents), dropped)

    def scope(self, value: str | None) -> bytes:
        return self._digester.scope(value)

    def _with_digests(self, contents: Contents, digests: U64) -> Contents:
        """Return *contents* with *digests*; texts that cannot match for them are not equal."""
        widths = self.scheme.widths
        contents = replace(
            contents,
            digests=digests,
            agreeing=widths.agreeing,
            scoped=widths.scoped,
            also=widths.also,
        )
        if not contents.agreeing or not len(contents):
            return contents
        fingerprints = np.ascontiguousarray(contents.fingerprints).copy()
        fingerprints.view("<u8")[:, 0] ^= contents.agreement
        return replace(contents, fingerprints=fingerprints)

    def _contents_of_texts(self, texts: Sequence[str], scopes: U64 | None) -> tuple[Contents, I64]:
        """Return the contents of *texts*, and how many of their shingles are boilerplate.

        With *scopes*, the hash of its scope is mixed into the tokens and the fingerprint of each
        text. So sets of different scopes share nothing, and nothing that is made of them does.
        """
        rows: list[int] = []
        parts, dropped = [self._no_contents()], [NOT_COUNTED]
        for chosen, ascii_only in chunks_of(texts):
            chunk = self.normalise.chunk([texts[i] for i in chosen], ascii_only=ascii_only)
            tokens = self.shingler.tokens(chunk)
            own = None if scopes is None else scopes[chosen]
            if own is not None:
                mixed = tokens.values ^ np.repeat(own, np.diff(tokens.starts))
                tokens = replace(tokens, values=mixed)
            signatures = self._minhasher.sign(tokens.values, tokens.starts).astype(np.uint8)
            samples = samples_of(tokens)
            signatures[samples.set_sizes == 0] = 0
            parts.append(Contents(self.fingerprints(chunk, own), signatures, samples))
            if tokens.dropped is not None:
                dropped.append(tokens.dropped)
            rows += chosen
        contents, column = Contents.joined(parts), np.concatenate(dropped)
        in_order = np.array(rows, np.int64)
        if (np.diff(in_order) > 0).all():
            return contents, column
        order = np.argsort(in_order)
        return contents.at(order), column[order] if len(column) else column

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

    def boilerplate_in(self, text: str) -> Dropped | None:
        """Return which shingles of *text* are boilerplate; None without a table."""
        if not self.scheme.normalisation.boilerplate:
            return None
        chunk = self.normalise.chunk([text], ascii_only=text.isascii())
        tokens = self.shingler.every_token(chunk)
        common = self.shingler.boilerplate(tokens.values)
        found = self.shingler.passages(chunk, tokens, common)
        passages = tuple(each.words.decode(errors="surrogatepass") for each in found)
        return Dropped(int(common.sum()), len(common), passages)

    def fingerprints(self, chunk: Chunk, scopes: U64 | None = None) -> U8:
        """Return (n, 16) keyed digests of the texts in *chunk*, each in its scope if given."""
        digests, texts = list[bytes](), chunk.texts()
        if scopes is not None:
            before = map(np.uint64.tobytes, scopes)
            texts = [scope + text for scope, text in zip(before, texts, strict=True)]
        for text in texts:
            state = self._keyed.copy()  # a third quicker than to begin with the key
            state.update(text)
            digests.append(state.digest())
        return np.frombuffer(b"".join(digests), np.uint8).reshape(-1, 16)


def chunks_of(texts: Sequence[str]) -> Iterator[tuple[list[int], bool]]:
    """Yield (rows, all ASCII?); the texts of a chunk have about `CHUNK_BYTES` together."""
    ascii_only = np.fromiter(map(str.isascii, texts), np.bool_, len(texts))
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    for wanted in (True, False):
        rows = np.flatnonzero(ascii_only == wanted)
        ends = np.cumsum(lengths[rows])
        begin = 0
        while begin < len(rows):
            before = ends[begin - 1] if begin else 0
            end = max(int(np.searchsorted(ends, before + CHUNK_BYTES, "right")), begin + 1)
            yield rows[begin:end].tolist(), wanted
            begin = end


def samples_of(tokens: Tokens) -> Samples:
    """Return for each text its smallest distinct 32-bit tokens, and how many distinct it has."""
    if (native := kernel()) is not None:
        made = native.samples(tokens.values, tokens.starts, SAMPLE_TOKENS)
        if made is not None:
            return Samples(made[0], starts_of(made[1]), made[2])
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


def digester_for(scheme: Scheme, *, seed: bytes) -> Digester:
    """Return what makes the digests beside a text; no mask comes before it."""
    normal = scheme.normalisation
    bare = replace(normal, mask=()).cleaner() if normal.cleans else None
    return Digester(
        scheme.subjects, scheme.pointers, seed=seed, scope=scheme.scope,
        also=scheme.widths.also, clean=bare,
        clean_value=MASKS["tracking"] if "tracking" in normal.mask else None,
    )  # fmt: skip
