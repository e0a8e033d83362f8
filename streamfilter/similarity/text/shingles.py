r"""Shingles: a text as the set of its runs of n words or k characters.

A chunk of normalised texts lies in one byte buffer. Words and characters become byte spans,
found and hashed as columns; a shingle's token is a multilinear hash of its words' hashes, each
half of it mixed by itself. Shingles that differ have equal tokens under one seed in 2^63, and
equal upper halves, which samples store, under one in 2^32.

ASCII takes shortcuts that give the same tokens. A word is a run of letters, numbers and
underscores, each with the marks and joiners behind it (UAX #29); apostrophes and points part words.
In scripts written without spaces each pair of neighbouring characters stands for a word.
Stop-word shingles are those runs of words that begin with a stop word: prose has many of them,
adverts and navigation few.
"""

from collections.abc import Iterator, Sequence
from functools import cache, cached_property
from itertools import pairwise

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from streamfilter.similarity.columns import I64, U64, Flags, distinct
from streamfilter.similarity.hashing import (
    LOWER,
    MASKS,
    WORD,
    Multilinear,
    SpanHasher,
    spread,
    uniform,
)
from streamfilter.similarity.kernel.choice import kernel
from streamfilter.similarity.scheme import FADING, Normalisation, Shingling
from streamfilter.similarity.text.boilerplate import Table, TokenSet, table_of
from streamfilter.similarity.text.code_points import LETTER, UNSPACED, classes_in_context
from streamfilter.similarity.text.normalisation import Chunk, Normaliser, Spans, first_bytes

CASE, LETTER_A, LETTERS, DIGIT_ZERO, DIGITS, UNDERSCORE = np.array(
    [32, ord("a"), 26, ord("0"), 10, ord("_")], np.uint8
)
"""ASCII word characters, as bytes: arithmetic with them wraps, and that is the trick."""

UPPER_HALF = np.uint64(0xFFFFFFFF00000000)
"""What a token of 4 bytes has of 8: the half that is also stored in samples."""


class Tokens(Struct, frozen=True):
    """The tokens of n texts, one after the other; repeats are kept."""

    values: U64
    starts: I64  # (n + 1,) text i has values[starts[i]:starts[i + 1]]
    dropped: I64 | None = None
    """(n,) how many more of text i were boilerplate; negative: all of them were, and they stay.
    None without a table."""


class Passage(Struct, frozen=True):
    """A part of a text whose shingles all are common."""

    text: int  # number of the text in its chunk
    begin: int  # its tokens are those from *begin* up to *end*
    end: int
    words: bytes  # the normalised text, from the first word to the last


class Shingler:
    """Turns normalised texts into tokens under one `Shingling` and one secret seed."""

    def __init__(
        self,
        shingling: Shingling,
        *,
        seed: bytes,
        fold: tuple[str, ...] = (),
        boilerplate: str = "",
    ) -> None:
        self._how, self._fold, self._table = shingling, fold, boilerplate
        self._anchored = shingling.kind == "stopword"
        self._size = shingling.size + self._anchored
        self._words = shingling.kind != "char"
        self._hash = SpanHasher(seed)
        units = self._size if self._words else 1
        self._combine = Multilinear(units, seed=seed, purpose="shingle")
        self._start = uniform(seed, "shingle start", 2)
        self._stops = self._hashed_stop_words() if self._anchored else np.empty(0, np.uint64)
        self._whole = (shingling.token_bytes, shingling.sample_modulus) == (8, 1)

    def tokens(self, chunk: Chunk) -> Tokens:
        tokens = self.every_token(chunk)
        if self._table:
            tokens = without(tokens, self.boilerplate(tokens.values))
        if self._whole:
            return tokens
        return replace(self._thinned(tokens), dropped=tokens.dropped)

    @cached_property
    def boilerplate(self) -> TokenSet:
        """Return the tokens that do not count; raise `TableError` if the table was not read."""
        return TokenSet(self.tokens_of(table_of(self._table)))

    def tokens_of(self, table: Table) -> U64:
        """Return the distinct tokens of a *table*'s shingles."""
        buffer = b"\0".join(table.words) + bytes(WORD)
        lengths = np.array([*map(len, table.words)], np.int64)
        hashes = self._hash(buffer, np.cumsum(lengths + 1) - lengths - 1, lengths)
        columns = [hashes[table.shingles[:, place]] for place in range(table.shingles.shape[1])]
        return distinct(self._tokens_of(columns))

    def words(self, chunk: Chunk) -> Spans:
        if chunk.words is not None:
            return chunk.words
        return _ascii_words(chunk.buffer, chunk.bounds) if chunk.is_ascii else _words(chunk)

    def runs(self, spans: Spans) -> I64:
        """Return the number of the first word of each shingle, in the order of the tokens."""
        inside, _ = _starts_of_runs(spans.text_starts, self._size)
        return np.flatnonzero(inside[: max(len(spans.starts) - self._size + 1, 0)])

    def passages(self, chunk: Chunk, tokens: Tokens, common: Flags) -> Iterator[Passage]:
        spans, owners = self.words(chunk), np.repeat(
            np.arange(len(tokens.starts) - 1), np.diff(tokens.starts)
        )  # fmt: skip
        firsts = self.runs(spans)
        breaks = np.flatnonzero(np.diff(owners)) + 1
        edges = np.zeros(len(common) + 1, np.bool_)
        edges[0] = edges[-1] = True
        edges[breaks] = True
        edges[1:-1] |= common[1:] != common[:-1]
        ends = np.flatnonzero(edges)
        for begin, end in pairwise(ends.tolist()):
            if common[begin]:
                first, last = firsts[begin], firsts[end - 1] + self._size - 1
                stop = int(spans.starts[last] + spans.lengths[last])
                text = chunk.buffer[int(spans.starts[first]) : stop]
                yield Passage(int(owners[begin]), begin, end, text)

    def every_token(self, chunk: Chunk) -> Tokens:
        """Return all tokens, of 8 bytes, boilerplate among them."""
        buffer, bounds = chunk.buffer, chunk.bounds
        if self._words:
            spans = self.words(chunk)
            hashes = self._hash(buffer, spans.starts, spans.lengths)
            runs = self._runs(hashes, spans.text_starts, self._size)
            return self._with_anchor(runs, hashes, spans.text_starts) if self._anchored else runs
        native = kernel()
        made = None if native is None else native.characters(buffer, bounds, self._size)
        if made is None and chunk.is_ascii and self._size <= WORD:
            return self._ascii_characters(buffer, bounds)
        spans = _character_runs(buffer, bounds, self._size) if made is None else Spans(*made)
        hashes = self._hash(buffer, spans.starts, spans.lengths)
        return self._runs(hashes, spans.text_starts, 1)

    def _tokens_of(self, columns: Sequence[U64]) -> U64:
        """Return the tokens of shingles whose units' hashes stand in *columns*."""
        return spread(self._combine(columns, self._start))

    def _runs(self, hashes: U64, text_starts: I64, size: int) -> Tokens:
        """Combine each *size* consecutive units of a text into one token."""
        if (native := kernel()) is not None:
            made = native.runs(hashes, text_starts, size, self._combine.factors, self._start)
            if made is not None:
                return Tokens(*made)
        runs = max(len(hashes) - size + 1, 0)
        combined = self._tokens_of([hashes[i : i + runs] for i in range(size)])
        inside, starts = _starts_of_runs(text_starts, size)
        return Tokens(combined[np.flatnonzero(inside[:runs])], starts)

    def _with_anchor(self, runs: Tokens, hashes: U64, text_starts: I64) -> Tokens:
        """Keep the runs that begin with a stop word, and of the others their text's share."""
        inside, _ = _starts_of_runs(text_starts, self._size)
        anchored = np.isin(hashes[np.flatnonzero(inside)], self._stops)
        limits = self._limits(_count(anchored, runs.starts))
        if not limits.any():
            return _only(runs, anchored)
        # The half of a token that chooses is not the one that orders it in a sample.
        chosen = (runs.values & LOWER) < np.repeat(limits, np.diff(runs.starts))
        return _only(runs, anchored | chosen)

    def _limits(self, anchored: I64) -> U64:
        """Return below which lower halves of tokens a text with so many anchored runs keeps others.

        The same runs go first in every text, so two texts on two sides of the fallback's limit,
        or of any step above it, still have nearly the same set.
        """
        below = self._how.fallback_below
        shares = fading() if below else np.zeros(1, np.uint64)
        return shares[np.clip(anchored - below + 1, 0, len(shares) - 1)]

    def _hashed_stop_words(self) -> U64:
        """Return the hashes of the stop words, as the words of any text have them."""
        from streamfilter.similarity.text.stopwords import stop_words

        words = stop_words(self._how.languages)
        # Texts whose case is kept have them at the beginning of sentences and in headlines too.
        spelled = sorted({f(w) for w in words for f in (str, str.casefold, str.title, str.upper)})
        chunk = Normaliser(Normalisation(casefold=False, fold=self._fold)).chunk(
            spelled, ascii_only=False
        )
        spans = _words(chunk)
        single = np.flatnonzero(np.diff(spans.text_starts) == 1)  # "don't" is two words
        chosen = spans.text_starts[single]
        hashes = self._hash(chunk.buffer, spans.starts[chosen], spans.lengths[chosen])
        return distinct(hashes)

    def _thinned(self, tokens: Tokens) -> Tokens:
        """Cut tokens to 4 bytes, and keep those that are 0 modulo the sample's modulus."""
        values = tokens.values
        if self._how.token_bytes == 4:
            values = values & UPPER_HALF
            tokens = Tokens(values, tokens.starts)
            values = values >> np.uint64(32)
        if self._how.sample_modulus == 1:
            return tokens
        return _only(tokens, values % np.uint64(self._how.sample_modulus) == 0)

    def _ascii_characters(self, buffer: bytes, bounds: I64) -> Tokens:
        """Read each *size* <= 8 ASCII characters as one masked integer."""
        view: U64 = np.ndarray((len(buffer) - WORD,), "<u8", buffer=buffer, strides=(1,))
        lengths = np.diff(bounds) - 1
        counts = np.maximum(lengths - self._size + 1, 0)
        starts = np.concatenate(([0], np.cumsum(counts)))
        values = np.empty(starts[-1], np.uint64)
        for begin, to, count in zip(
            bounds[:-1].tolist(), starts[:-1].tolist(), counts.tolist(), strict=True
        ):
            values[to : to + count] = view[begin : begin + count]
        values &= MASKS[self._size]
        return Tokens(self._tokens_of([self._hash.fixed(values, self._size)]), starts)


@cache
def fading() -> U64:
    """Return which part of 2^32 is left after 0, 1, 2 … steps, down to nothing."""
    left = [1 << 32]
    while left[-1]:
        left.append(left[-1] * (FADING - 1) // FADING)
    return np.array(left, np.uint64)


def without(tokens: Tokens, common: Flags) -> Tokens:
    """Return *tokens* but the *common* ones; a text that has no others keeps them.

    So a text of boilerplate alone has a set of its own kind. That set shares no token with any
    other text's set, because theirs have no common token left.

    Example: of texts a b X and X X, with X common, the first keeps a b and the second X X.
    """
    dropped = _count(common, tokens.starts)
    sizes = np.diff(tokens.starts)
    whole = (dropped == sizes) & (sizes > 0)
    if not dropped.any():
        return replace(tokens, dropped=dropped)
    kept = ~common
    if whole.any():
        kept |= np.repeat(whole, sizes)
    return replace(_only(tokens, kept), dropped=np.where(whole, -dropped, dropped))


def _count(flags: NDArray[np.bool_], starts: I64) -> I64:
    before = np.concatenate(([0], np.cumsum(flags)))
    return before[starts[1:]] - before[starts[:-1]]


def _only(tokens: Tokens, kept: NDArray[np.bool_]) -> Tokens:
    starts = np.concatenate(([0], np.cumsum(_count(kept, tokens.starts))))
    return Tokens(tokens.values[kept], starts)


def _starts_of_runs(text_starts: I64, size: int) -> tuple[NDArray[np.bool_], I64]:
    """Return which units start a run of *size* units inside their text, and runs per text."""
    counts = np.maximum(np.diff(text_starts) - size + 1, 0)
    inside = np.ones(text_starts[-1], bool)
    for back in range(1, size):
        last = text_starts[1:] - back
        inside[last[last >= text_starts[:-1]]] = False
    return inside, np.concatenate(([0], np.cumsum(counts)))


def _ascii_words(buffer: bytes, bounds: I64) -> Spans:
    octets = np.frombuffer(buffer, np.uint8)
    # Arithmetic on bytes is three times faster than a table: (b | 32) - "a" < 26 is a letter.
    classes = ((octets | CASE) - LETTER_A) < LETTERS
    classes |= (octets - DIGIT_ZERO) < DIGITS
    classes |= octets == UNDERSCORE
    # A buffer begins and ends outside words, so edges alternate: start, end, start, end.
    edges = np.flatnonzero(classes[1:] != classes[:-1]) + 1
    starts, ends = edges[0::2], edges[1::2]
    return Spans(starts, ends - starts, np.searchsorted(starts, bounds))


def _words(chunk: Chunk) -> Spans:
    """Find words, and pairs of characters in scripts without spaces, as byte spans."""
    points, at = chunk.decoded()
    bounds = chunk.bounds
    table = classes_in_context(points)
    letters = table == LETTER
    edges = np.flatnonzero(letters[1:] != letters[:-1]) + 1
    begins, ends = edges[0::2], edges[1::2]
    unspaced = table == UNSPACED
    units = np.flatnonzero(unspaced)
    if units.size:
        paired, follows = unspaced[units + 1], unspaced[units - 1]
        # The last character of a run starts no pair, unless it is the whole run.
        keep = paired | ~follows
        begins = np.concatenate((begins, units[keep]))
        ends = np.concatenate((ends, units[keep] + 1 + paired[keep]))
        if edges.size:
            order = np.argsort(begins, kind="stable")
            begins, ends = begins[order], ends[order]
    starts = at[begins]
    return Spans(starts, at[ends] - starts, np.searchsorted(starts, bounds))


def _character_runs(buffer: bytes, bounds: I64, size: int) -> Spans:
    """Find every run of *size* code points inside a text, as byte spans."""
    at = first_bytes(buffer)
    firsts = np.searchsorted(at, bounds)
    counts = np.maximum(np.diff(firsts) - 1 - size + 1, 0)
    text_starts = np.concatenate(([0], np.cumsum(counts)))
    first = np.repeat(firsts[:-1] - text_starts[:-1], counts) + np.arange(text_starts[-1])
    starts = at[first]
    return Spans(starts, at[first + size] - starts, text_starts)
