"""Heavy hitters: the most frequent of a stream's tokens, counted in bounded memory.

A Misra-Gries summary that takes tokens in blocks (Agarwal et al., "Mergeable Summaries", 2012). A
block is counted exactly and added to the summary. If there are more counters than allowed, the
largest count that does not fit is subtracted from all, and what is not above 0 goes. A count is
therefore never too high, and too low by at most `error`: the sum of what was subtracted. That is
at most the number of added tokens divided by the number of counters.

Example with 2 counters: the tokens a a a b b c have the counts 3, 2, 1. 1 is subtracted from all;
a keeps 2, b keeps 1, and the error is 1.
"""

import numpy as np

from streamfilter.similarity.columns import I64, U64

COUNTERS = 1 << 22  # counters of a sample: 64 MiB, and four times as much while a block is added


class HeavyHitters:
    """Counts tokens; the result depends only on the tokens and their order."""

    def __init__(self, counters: int = COUNTERS) -> None:
        self._counters = counters
        self._tokens, self._counts = np.zeros(0, np.uint64), np.zeros(0, np.int64)
        self._waiting: list[U64] = []
        self._size = 0
        self._error = 0

    def add(self, tokens: U64) -> None:
        """Count each of *tokens* once more."""
        self._waiting.append(tokens)
        self._size += len(tokens)
        if self._size >= self._counters:
            self._settle()

    def from_(self, least: int) -> tuple[U64, I64]:
        """Return the tokens counted *least* times or more, ascending, and their counts."""
        self._settle()
        kept = self._counts >= least
        return self._tokens[kept], self._counts[kept]

    @property
    def error(self) -> int:
        """Return by how much a count may be too low."""
        self._settle()
        return self._error

    def _settle(self) -> None:
        if not self._size:
            return
        values = np.concatenate([self._tokens, *self._waiting])
        counts = np.ones(len(values), np.int64)
        counts[: len(self._counts)] = self._counts
        self._waiting, self._size = [], 0
        order = np.argsort(values)
        values, counts = values[order], counts[order]
        first = np.flatnonzero(np.concatenate(([True], values[1:] != values[:-1])))
        values, counts = values[first], np.add.reduceat(counts, first)
        over = len(values) - self._counters
        if over > 0:
            least = int(np.partition(counts, over - 1)[over - 1])
            counts -= least
            self._error += least
            values, counts = values[counts > 0], counts[counts > 0]
        self._tokens, self._counts = values, counts
