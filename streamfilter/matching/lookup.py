"""Lookup: what an index has for the documents of a batch. It reads the index and decides nothing.

`pipeline.settle` makes the verdicts of it without the index. So they can be settled from any
lookup, also from one that was made elsewhere, or joined from several.
"""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from msgspec import Struct

from streamfilter.entities.held_out import partners_in
from streamfilter.index.protocol import Buckets, Documents, Index
from streamfilter.matching.blocking.candidate_limit import LimitedCandidates
from streamfilter.matching.blocking.candidates import Candidates, meetings
from streamfilter.matching.blocking.forgetting import NO_TOMBSTONES, Forgetting
from streamfilter.matching.blocking.retention import EVERYTHING, Extent
from streamfilter.matching.blocking.visibility import Visibility, names_in, remembered_under
from streamfilter.matching.verdict.policy import MatchPolicy
from streamfilter.model import BatchMark
from streamfilter.similarity.columns import I64, Flags, distinct
from streamfilter.similarity.sketch import Sketches


class Lookup(Struct, frozen=True):
    """What the index has for a batch of n documents."""

    new: bool  # whether they are new; those read again are no candidates of each other
    visible: Visibility
    present: Flags  # (n, c) the keys that count; of a copy only that of its whole text
    buckets: Buckets
    limited: LimitedCandidates
    stored: Documents  # the documents of the candidates, by rising ordinal
    bucket_cap: int
    same_name: I64 | None
    """(n,) the index's oldest document with the same id or field, or -1; None: neither counts."""
    names: Sequence[Sequence[bytes]]  # of each document; empty if they do not count
    too_old: I64  # (n,) candidates in the index that arrived before what `verify.within` lets match
    kept: Flags  # (n,) rows remembered for their names, though no text is compared with theirs
    partners: Documents | None  # of new records with fields: the index's halves of the random pairs


def lookup(
    index: Index,
    ours: Documents,
    sketches: Sketches,
    policy: MatchPolicy,
    *,
    first_ordinal: int,
    as_of: Sequence[BatchMark | None] | None = None,
    extent: Extent = EVERYTHING,
    forgetting: Forgetting = NO_TOMBSTONES,
) -> Lookup:
    """Look up the candidates of *ours*, and fetch them; arguments as in `pipeline.judge`."""
    if as_of is None:
        visible = Visibility.of_new(extent, len(ours), forgetting=forgetting)
    else:
        visible = Visibility.reread(as_of, ours.partitions, ours.offsets, index)
    present = sketches.keys_that_count(short=policy.judges_short, least=policy.least_set)
    kept = ~present[:, -1] & policy.keeps_short
    names = names_in(ours, by_id=policy.by_id) if policy.by_name else []
    if kept.any():
        kept &= np.fromiter(map(bool, names), np.bool_, len(ours))
    same_name = remembered_under(names, visible, index) if policy.by_name else None
    if same_name is not None:
        present[same_name >= 0] = False
        kept[same_name >= 0] = False
    copies = visible.copies(present, sketches, index)
    present[copies.rows, :-1] = False
    asked = present
    if kept.any():
        asked = present.copy()
        asked[kept, -1] = True  # where they will be listed
    buckets = index.probe(sketches.keys, asked, ours.contents.splitters)
    buckets = buckets if extent.opens is None else buckets.aged()
    met = meetings(buckets.levels_beside(copies), columns=present.shape[1])
    too_old = np.zeros(len(ours), np.int64)
    met = _among(visible, met, too_old)
    limited = LimitedCandidates.of(met, documents=len(ours), most=policy.estimated)
    ordinals = limited.candidates.ordinals
    if same_name is not None:
        ordinals = np.concatenate((ordinals, same_name[same_name >= 0]))
    paired = as_of is None and ours.contents.payloads
    return Lookup(
        new=as_of is None,
        visible=visible,
        present=present,
        buckets=buckets,
        limited=limited,
        stored=index.fetch(distinct(ordinals)),
        bucket_cap=index.bucket_cap,
        same_name=same_name,
        names=names,
        too_old=too_old,
        kept=kept,
        partners=partners_in(index, first_ordinal, len(ours)) if paired else None,
    )


def _among(visible: Visibility, parts: Iterable[Candidates], too_old: I64) -> Iterator[Candidates]:
    """Yield the visible pairs of each part; add to *too_old* (n,) those that are too old."""
    for part in parts:
        too_old += visible.too_old(part)
        yield visible.among(part)
