"""What the filters of this host's indexes let through, by `memory.miss_filter`.

It needs a view of each index: its database is opened read-only, beside a process that writes it.
"""

from collections.abc import Iterator

from msgspec import Struct

from streamfilter.config.configuration import Config
from streamfilter.config.settings.types import format_size
from streamfilter.index.directory.index_paths import indexes_in
from streamfilter.index.directory.read_only_view import viewed
from streamfilter.index.directory.seed_file import seed_at
from streamfilter.index.errors import IndexFault
from streamfilter.index.rocks.run_filters import FilterSizes
from streamfilter.monitoring.capacity import PASSING_MUCH, front_bytes_for
from streamfilter.preflight.disk import KEY
from streamfilter.stops import Problem


class Filters(Struct, frozen=True):
    """The filters of one index, as `run` will hold them."""

    index: str
    bits_per_key: float
    passing: float  # share of the new keys that are read from disk

    def __str__(self) -> str:
        return (
            f"{self.index}: its filter has {self.bits_per_key:.1f} bits a key, and lets "
            f"{self.passing:.1%} of the new keys through"
        )


def check_filters(config: Config) -> tuple[list[Problem], list[Filters]]:
    """Return a warning if the filters of an index are too small, and what each index has."""
    try:
        places = indexes_in(config.index.path)
    except IndexFault:  # there is no index, or `check_disk` says what is wrong
        return [], []
    problems, found, needed = list[Problem](), list[Filters](), 0
    bound = config.memory.miss_filter
    for place in places:
        try:
            with viewed(place, seed=seed_at(config.index.seed_file)) as view:
                runs = [run.info for run in view.paged]
        except IndexFault as fault:
            problems.append(Problem(KEY, str(fault), "", warning=True))
            continue
        if runs:
            sizes = FilterSizes.of(runs, bound // len(places))
            found.append(Filters(str(place), sizes.bits, sizes.passing))
            needed = max(needed, sizes.keys * len(places))
    return [*problems, *_too_small(bound, found, needed)], found


def _too_small(bound: int, found: list[Filters], keys: int) -> Iterator[Problem]:
    passing = max((each.passing for each in found), default=0.0)
    if passing > PASSING_MUCH:
        yield Problem(
            "memory.miss_filter",
            f"with {format_size(bound)}, {passing:.0%} of the new keys are read from disk",
            f"set it to {format_size(front_bytes_for(keys))} if the host has that memory",
            warning=True,
        )
