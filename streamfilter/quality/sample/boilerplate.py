"""Boilerplate of a sample: the shingles that many different documents share.

A document counts once for each of its shingles, and a text that was seen before does not count.
The sample is read once and kept in an unnamed temporary file, because it is walked three times:

1. Count the shingles in bounded memory. Those in enough documents are *common*.
2. Count the common ones again, exactly, in the documents that have enough shingles of their own:
   `OWN` that are not common. A story that forty papers reprint is common, too. But behind the
   footers of the papers it leaves nothing of its own, so its reprints do not count. A footer stands
   under texts that do have shingles of their own.
3. Collect the words of the shingles that are in enough documents still, and their passages.

A reprint with `OWN` shingles of its own looks the same as an article behind a footer: both
are one common text beside one that is not. `at_least` is the protection against that.
"""

import json
import struct
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import islice
from math import ceil
from typing import IO

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from streamfilter.process.signals import INTERRUPTION
from streamfilter.quality.sample.brute_force import all_pairs
from streamfilter.quality.sample.heavy_hitters import HeavyHitters
from streamfilter.similarity.columns import I64, U64, distinct
from streamfilter.similarity.scheme import Scheme
from streamfilter.similarity.sketch import Sketcher, chunks_of
from streamfilter.similarity.text.boilerplate import (
    SHINGLES_MAX,
    WORD_BYTES_MAX,
    Sample,
    Table,
    TokenSet,
    known,
    left_of,
)
from streamfilter.similarity.text.normalisation import Chunk
from streamfilter.similarity.text.shingles import Tokens
from streamfilter.stops import NoRoom, no_room

OWN, OWN_SHARE = 20, 0.05
"""Shingles that are not common which a document needs to count for those that are: so many, and
this share of all its shingles."""
BLOCK = 256  # documents that are read and packed together
COMPARED = 1_000  # documents of a sample that are compared with each other, before and after
PASSAGES_MAX = 20_000
"""Different passages that are remembered while the most frequent ones are sought."""
_LENGTH = struct.Struct("<Q")
WALKS = 3  # walks over the kept sample, after it was read
Advanced = Callable[[int], None]
Walking = Callable[[int], AbstractContextManager[Advanced]]


def nowhere(_: int) -> AbstractContextManager[Advanced]:
    return nullcontext(lambda _: None)


class Effect(Struct, frozen=True):
    """What a table changes for the first documents of its sample."""

    documents: int
    threshold: float
    before: int  # pairs of different texts at or above the threshold, without the table
    after: int
    both: int  # pairs that are in both


class CommonPassage(Struct, frozen=True):
    """A passage of boilerplate."""

    text: str
    shingles: int
    share: float  # share of the documents that its rarest shingle stands in


class Boilerplate(Struct, frozen=True):
    """A table, and how it came about."""

    table: Table
    given: int  # documents read, those with a known text among them
    alike: int  # documents that did not count: fewer than `OWN` shingles of their own
    left_out: int  # shingles that did not fit in the table
    dropped: float  # share of the sample's shingles that the table drops
    passages: tuple[CommonPassage, ...]
    effect: Effect


class Spool:
    """Texts in an unnamed temporary file: it is gone with the process, however that ends."""

    def __init__(self) -> None:
        self._file: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  (closed by `close`)
        self.documents = 0
        self.advanced: Advanced = lambda _: None

    def add(self, texts: Sequence[str]) -> None:
        """Append *texts*, or raise `NoRoom`: the disk is full."""
        packed = zlib.compress(json.dumps(texts).encode(), 1)
        try:
            self._file.write(_LENGTH.pack(len(packed)) + packed)
        except OSError as error:
            if no_room(error):
                raise NoRoom(
                    "cannot keep the sample in the temporary directory",
                    stays="no table was written",
                    cure="make room, set TMPDIR to a larger disk, or lower --limit",
                ) from None
            raise
        self.documents += len(texts)

    def __iter__(self) -> Iterator[list[str]]:
        self._file.seek(0)
        while head := self._file.read(_LENGTH.size):
            INTERRUPTION.obey()
            block: list[str] = json.loads(zlib.decompress(self._file.read(*_LENGTH.unpack(head))))
            yield block
            self.advanced(len(block))

    def first(self, count: int) -> list[str]:
        return [*islice((text for block in self for text in block), count)]

    def close(self) -> None:
        self._file.close()


def boilerplate_of(
    texts: Iterable[str],
    scheme: Scheme,
    *,
    seed: bytes,
    share: float,
    at_least: int,
    threshold: float,
    compared: int = COMPARED,
    walking: Walking = nowhere,
) -> Boilerplate:
    """Return the boilerplate of *texts*: the shingles in a *share* of the different documents.

    The same texts in the same order give the same table. A table that *scheme* names does not
    count, and no result depends on *seed*, but for colliding tokens. A shingle is in *at_least*
    documents, however small the sample is. The first *compared* documents are compared with each
    other, with and without the table.
    """
    scheme = replace(scheme, normalisation=replace(scheme.normalisation, boilerplate=""))
    counting = _Counting(Sketcher(scheme, seed=seed))
    spool = Spool()
    try:
        counting.read(texts, spool)
        least = max(ceil(share * spool.documents), at_least, 1)
        with walking(WALKS * spool.documents) as spool.advanced:
            counting.count_again(spool, least)
            counting.collect(spool)
            table, dropped = _with_sample(counting, spool, scheme, seed, least)
        effect = _effect(spool.first(compared), scheme, table, seed, threshold)
    finally:
        spool.close()
    return Boilerplate(
        table,
        counting.given,
        counting.alike,
        counting.left_out,
        dropped,
        counting.seen(spool.documents),
        effect,
    )


class _Counting:
    """The three walks over a sample."""

    def __init__(self, sketcher: Sketcher) -> None:
        self._sketcher = sketcher
        self._heavy = HeavyHitters()
        self.error = self.given = self.alike = self.left_out = 0
        self._common = TokenSet(np.zeros(0, np.uint64))
        self._counts = np.zeros(0, np.int64)
        self.shingles: list[tuple[bytes, ...]] = []
        self._passages: dict[bytes, list[int]] = {}
        """Text of a passage → documents, shingles, documents of its rarest shingle."""

    def read(self, texts: Iterable[str], spool: Spool) -> None:
        """Count the shingles of *texts*, and keep those that differ in *spool*."""
        known_texts: set[bytes] = set()
        source = iter(texts)
        while block := [*islice(source, BLOCK)]:
            INTERRUPTION.obey()
            self.given += len(block)
            new: list[int] = []
            for rows, chunk, tokens in self._chunks(block):
                for place, digest in enumerate(self._sketcher.fingerprints(chunk)):
                    if digest.tobytes() not in known_texts:
                        known_texts.add(digest.tobytes())
                        new.append(rows[place])
                        self._heavy.add(_distinct_of(tokens, place))
            spool.add([block[row] for row in sorted(new)])
        self.error = self._heavy.error

    def count_again(self, spool: Spool, least: int) -> None:
        """Count the common shingles in the documents that have shingles of their own."""
        common, _ = self._heavy.from_(least)
        self._heavy = HeavyHitters()  # frees its memory
        found = TokenSet(common)
        counts = np.zeros(len(common), np.int64)
        for _, _, tokens in self._spooled(spool):
            for place in range(len(tokens.starts) - 1):
                own = _distinct_of(tokens, place)
                shared = own[found(own)]
                if len(own) - len(shared) >= max(OWN, OWN_SHARE * len(own)):
                    counts[found.places(shared)] += 1
                elif len(shared):
                    self.alike += 1
        kept = np.flatnonzero(counts >= least)
        if len(kept) > SHINGLES_MAX:
            order = np.lexsort((common[kept], -counts[kept]))
            self.left_out = len(kept) - SHINGLES_MAX
            kept = np.sort(kept[order[:SHINGLES_MAX]])
        self._common, self._counts = TokenSet(common[kept]), counts[kept]

    def collect(self, spool: Spool) -> None:
        """Collect the words of the common shingles, and the passages that they make."""
        missing = np.ones(len(self._common), np.bool_)
        shingler = self._sketcher.shingler
        for _, chunk, tokens in self._spooled(spool):
            hits = self._common(tokens.values)
            spans = shingler.words(chunk)
            firsts = shingler.runs(spans)
            rows = np.flatnonzero(hits)
            places = self._common.places(tokens.values[rows])
            unseen = missing[places]
            for place, row in dict(
                zip(places[unseen].tolist(), rows[unseen].tolist(), strict=True)
            ).items():
                missing[place] = False
                self._take(chunk, spans.starts, spans.lengths, int(firsts[row]))
            for each in shingler.passages(chunk, tokens, hits):
                self._note(each.words, tokens.values[each.begin : each.end])

    def _take(self, chunk: Chunk, starts: I64, lengths: I64, first: int) -> None:
        """Take the shingle that begins with word *first*, unless a word is too long."""
        places = range(first, first + self._sketcher.scheme.shingling.size)
        words = tuple(chunk.buffer[starts[i] : starts[i] + lengths[i]] for i in places)
        if max(map(len, words)) <= WORD_BYTES_MAX:
            self.shingles.append(words)

    def _note(self, text: bytes, tokens: U64) -> None:
        known_ = self._passages.get(text)
        if known_ is not None:
            known_[0] += 1
        elif len(self._passages) < PASSAGES_MAX:
            rarest = int(self._counts[self._common.places(tokens)].min())
            self._passages[text] = [1, len(tokens), rarest]

    def seen(self, documents: int) -> tuple[CommonPassage, ...]:
        """Return the passages: those that cover most shingles of most documents first."""
        ordered = sorted(self._passages.items(), key=lambda each: (-each[1][0] * each[1][1], each))
        return tuple(
            CommonPassage(text.decode(errors="surrogatepass"), size, rarest / max(documents, 1))
            for text, (_, size, rarest) in ordered
        )

    def _spooled(self, spool: Spool) -> Iterator[tuple[list[int], Chunk, Tokens]]:
        for block in spool:
            yield from self._chunks(block)

    def _chunks(self, texts: Sequence[str]) -> Iterator[tuple[list[int], Chunk, Tokens]]:
        for rows, ascii_only in chunks_of(texts):
            chosen = [texts[row] for row in rows]
            chunk = self._sketcher.normalise.chunk(chosen, ascii_only=ascii_only)
            yield rows, chunk, self._sketcher.shingler.every_token(chunk)


def _distinct_of(tokens: Tokens, place: int) -> U64:
    return distinct(tokens.values[tokens.starts[place] : tokens.starts[place + 1]])


def _with_sample(
    counting: _Counting, spool: Spool, scheme: Scheme, seed: bytes, least: int
) -> tuple[Table, float]:
    """Return the table with what it leaves of its sample, and the share that it drops."""
    normal, shingling = scheme.normalisation, scheme.shingling
    sample = Sample(spool.documents, least, counting.error, (0, 0, 0))
    first = known(Table.of(counting.shingles, normal, shingling, sample))
    left, dropped, total = np.zeros(3, np.int64), 0, 0
    sketcher = Sketcher(with_table(scheme, first), seed=seed)
    for block in spool:
        for rows, ascii_only in chunks_of(block):
            chunk = sketcher.normalise.chunk([block[i] for i in rows], ascii_only=ascii_only)
            tokens = sketcher.shingler.tokens(chunk)
            assert tokens.dropped is not None
            gone = np.maximum(tokens.dropped, 0)
            left += left_of(tokens.dropped, np.diff(tokens.starts))
            dropped, total = dropped + int(gone.sum()), total + int(gone.sum()) + len(tokens.values)
    share = dropped / max(total, 1)
    counted = replace(sample, left=(int(left[0]), int(left[1]), int(left[2])))
    return known(Table.of(counting.shingles, normal, shingling, counted)), share


def with_table(scheme: Scheme, table: Table) -> Scheme:
    """Return *scheme* without the shingles of *table*."""
    normal = replace(scheme.normalisation, boilerplate=table.digest)
    return replace(scheme, normalisation=normal)


def _effect(
    texts: Sequence[str], scheme: Scheme, table: Table, seed: bytes, threshold: float
) -> Effect:
    """Compare all pairs of *texts* with and without *table*."""
    schemes = (scheme, with_table(scheme, table))
    found = [all_pairs(texts, Sketcher(each, seed=seed), floor=threshold) for each in schemes]
    before, after = (
        set(zip(each.later.tolist(), each.earlier.tolist(), strict=True)) for each in found
    )
    return Effect(len(texts), threshold, len(before), len(after), len(before & after))
