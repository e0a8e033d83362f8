"""The filters of all runs in pages: as large as memory allows, and what they let through."""

from collections.abc import Sequence

from msgspec import Struct

from streamfilter.index.bands.bloom_filter import (
    BLOCK_BYTES,
    WORD_BYTES,
    FilterPool,
    pass_rate_of,
    passing,
)
from streamfilter.index.bands.run_rows import RunInfo
from streamfilter.index.rocks.paged_run import PagedRun

SIDE_BY_SIDE_MAX = 16 << 20  # bytes of a filter that is side by side: its places cost 48 MiB


class FilterSizes(Struct, frozen=True):
    """The filters that runs in pages have within a bound on their memory."""

    keys: int
    size: int  # bytes
    passing: float  # share of the unwritten keys that at least one of them lets through

    @property
    def bits(self) -> float:
        """Return their bits for each key; there are keys."""
        return 8 * self.size / self.keys

    @classmethod
    def of(cls, runs: Sequence[RunInfo], bytes_max: int) -> "FilterSizes":
        """Return what the stored filters of *runs* take and let pass with at most *bytes_max*."""
        sizes = fitted([run.words * WORD_BYTES for run in runs], bytes_max)
        keys = [run.keys for run in runs]
        return cls(sum(keys), sum(sizes), passing(map(pass_rate_of, sizes, keys)))


def fitted(sizes: Sequence[int], bytes_max: int) -> list[int]:
    """Return the *sizes* of filters after the largest were halved until all fit; 0: not held."""
    left = list(sizes)
    while sum(left) > bytes_max:
        largest = max(range(len(left)), key=left.__getitem__)
        blocks = left[largest] // BLOCK_BYTES
        left[largest] = 0 if blocks % 2 else left[largest] // 2
    return left


def pool_of(bytes_max: int) -> FilterPool:
    """Return a pool for filters that together take *bytes_max* bytes at most.

    The free places of one size take a tenth of that at most.
    """
    return FilterPool(min(SIDE_BY_SIDE_MAX, bytes_max // 32))


def load_filters(runs: Sequence[PagedRun], bytes_max: int) -> None:
    """Read the filters of *runs*, one after the other, as far as memory allows it."""
    pool = pool_of(bytes_max)
    for run in runs if bytes_max else ():
        run.load_filter(pool)
        fit_filters(runs, bytes_max)


def fit_filters(runs: Sequence[PagedRun], bytes_max: int) -> None:
    """Halve the largest filters until all together take *bytes_max* bytes at most."""
    held = [run for run in runs if run.filter is not None]
    sizes = fitted([run.filter.size for run in held if run.filter is not None], bytes_max)
    for run, size in zip(held, sizes, strict=True):
        while run.filter is not None and run.filter.size > size:
            run.filter = run.filter.halved()
