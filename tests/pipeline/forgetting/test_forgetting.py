"""An index that forgets by id: on disk, below the horizon, and with a damaged table of ids."""

import numpy as np
import pytest

from streamfilter.index.directory.identity import Identity
from streamfilter.index.directory.inspection import inspect
from streamfilter.index.directory.opening import open_index
from streamfilter.index.directory.read_only_view import viewed
from streamfilter.index.errors import IndexDamaged
from streamfilter.index.memory import MemoryIndex
from streamfilter.index.progress import Progress
from streamfilter.index.protocol import Changes
from streamfilter.index.rocks.options import MIB, Memory
from streamfilter.matching.batch import Prepared, Rules, decide
from streamfilter.matching.blocking.forgetting import named_removals
from streamfilter.matching.blocking.retention import Extent
from streamfilter.matching.pipeline import MatchPolicy
from streamfilter.model import Reason, Source, Unjudged, Verdict
from streamfilter.similarity.columns import Widths
from tests.pipeline.forgetting.test_one_at_a_time import Story
from tests.pipeline.test_sequential_model import SEED, SKETCHER, batch_of

FORGETTING = (2, 8, 10, 13, 15, 20, 33)
"""Stories that forget by id."""


def tombstone(*ids: str) -> Unjudged:
    return Unjudged(Verdict.PASSTHROUGH, Reason.TOMBSTONE, ids)


@pytest.mark.slow
@pytest.mark.parametrize("seed", FORGETTING)
def test_the_index_on_disk_forgets_the_same(tmp_path, seed):
    story = Story(seed)
    scheme = story.given.scheme
    identity = Identity.new(
        scheme=scheme.as_json(), fingerprint=scheme.fingerprint, created=0, seed=SEED
    )
    bounds = Memory(cache_bytes=4 * MIB, memtable_bytes=4 * MIB)
    rocks = open_index(tmp_path, identity, bucket_cap=story.given.cap, memory=bounds, ids=True)
    story.beside = [rocks]
    story.run()
    assert story.given.had["documents forgotten by id"]
    assert list(rocks.dump()) == list(story.index.dump())
    rocks.close()
    with viewed(tmp_path, seed=SEED) as view:
        assert inspect(view, story.sketcher.keys_of).problems == []


def test_a_tombstone_of_who_is_older_than_the_horizon_takes_them_away_and_is_unknown():
    sketches = SKETCHER.sketch([" ".join(f"{letter}{i}" for i in range(12)) for letter in "abc"])
    batch = batch_of(["old", "old", "new"], np.arange(3))
    rules = Rules(MatchPolicy(), lambda p, o: Source("t", p, o))
    index = MemoryIndex(Widths(128), bucket_cap=8, ids=True)
    numbers = {"number": 0, "first_ordinal": 0, "reread": False}
    first = decide(Prepared([None] * 3, {}, [0, 1, 2], batch, sketches), index, rules, **numbers)
    index.apply(Changes(Progress(next_batch=1, next_ordinal=3), first.judgement.additions))
    others = {row: tombstone(id_) for row, id_ in enumerate(("old", "new", "nobody"))}
    nothing = Prepared([None] * 3, others, [], batch_of([], np.arange(0)), None)
    numbers = {"number": 1, "first_ordinal": 3, "reread": False}
    forgotten = decide(nothing, index, rules, extent=Extent(horizon=2), **numbers).forgotten
    stored = index.fetch(np.arange(3)).ordinals.tolist()
    assert (forgotten.stored.tolist(), forgotten.unknown) == (stored, 2)
    assert stored == [0, 1, 2]


def test_a_table_of_ids_that_names_missing_documents_is_damage_and_no_endless_tombstone():
    index = MemoryIndex(SKETCHER.scheme.widths, ids=True)
    missing = np.array([7, 9])
    with pytest.raises(IndexDamaged, match="2 documents by id, from ordinal 7 on"):
        named_removals(missing, index, SKETCHER.keys_of)
    assert named_removals(missing[:0], index, SKETCHER.keys_of) is None
