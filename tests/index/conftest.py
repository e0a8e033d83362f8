from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from streamfilter.index.directory.opening import open_index
from streamfilter.index.memory import MemoryIndex
from streamfilter.index.rocks.options import MIB, Memory
from streamfilter.similarity.columns import Widths
from tests.index.plain_index import PlainIndex
from tests.index.samples import SLOTS, identity

SMALL = Memory(cache_bytes=4 * MIB, memtable_bytes=4 * MIB, run_keys=64)

MakeIndex = Callable[..., Any]


@pytest.fixture(params=["rocks", "memory", "plain"])
def make_index(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MakeIndex]:
    """All implementations of the protocol, for a suite that does not care which it has."""
    made: list[Any] = []

    def make(bucket_cap: int = 8, *, ids: bool = False) -> Any:
        if request.param != "rocks":
            kind = MemoryIndex if request.param == "memory" else PlainIndex
            return kind(Widths(SLOTS), bucket_cap=bucket_cap, ids=ids)
        path = tmp_path / f"state-{len(made)}"
        made.append(open_index(path, identity(), bucket_cap=bucket_cap, memory=SMALL, ids=ids))
        return made[-1]

    yield make
    for index in made:
        index.close()
