"""One micro-batch from records to outcomes: the same path for `run` and `filter`.

A batch is prepared (read and sketched) without the index: `workers.preparing`. `decide` reads the
index and changes nothing. It needs only the prepared batch. The caller acts on the outcomes.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import Struct, field

from streamfilter.index.ages import Ages
from streamfilter.index.format import name_of
from streamfilter.index.protocol import Additions, Index
from streamfilter.matching.blocking.forgetting import (
    NOTHING,
    CutBatch,
    Forgetting,
    Forgotten,
    Tombstone,
    known_as,
)
from streamfilter.matching.blocking.retention import EVERYTHING, Extent
from streamfilter.matching.pipeline import Batch, Judgement, Locate, judge
from streamfilter.matching.verdict.policy import MatchPolicy
from streamfilter.model import Decision, Malformed, Reason, Record, Unjudged
from streamfilter.similarity.columns import I64
from streamfilter.similarity.sketch import Sketcher, Sketches


class Rules(Struct, frozen=True):
    """How the documents of one index are judged."""

    policy: MatchPolicy
    locate: Locate  # turns the two numbers by which the index stores a source into that source
    trusted: bool = False  # whether new documents are remembered as they are (`seed --trust`)


class Prepared(Struct, frozen=True):
    """A batch that was read and sketched. Only records that are no documents keep their reading."""

    records: Sequence[Record]
    others: dict[int, Unjudged | Malformed]  # row of ``records`` → why it is not judged
    rows: Sequence[int]  # the rows of ``records`` that are documents, rising
    batch: Batch
    sketches: Sketches | None  # None if there are no documents to judge
    scopes: Mapping[int, bytes] = field(default_factory=dict)
    """The scope in which a row of ``others`` forgets; a row without one forgets in all scopes."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    """Seconds of preparation by stage; they may overlap with the commit of the batch before."""

    @property
    def rejected(self) -> tuple[int, str]:
        """Return how many records could not be read, and the place and error of the last one."""
        broken = [(row, each) for row, each in self.others.items() if isinstance(each, Malformed)]
        if not broken:
            return 0, ""
        row, why = broken[-1]
        at = self.records[row].source
        return len(broken), f"{at.topic}/{at.partition} at {at.offset} ({why.code}: {why.message})"

    @property
    def tombstones(self) -> list[Tombstone]:
        """Return the records without a text that forget documents, in the order of judgement."""
        return [
            Tombstone(
                row,
                bisect_left(self.rows, row),
                next((name_of(id_, self.scopes.get(row, b"")) for id_ in other.forgets), None),
                replaces=other.reason is not Reason.TOMBSTONE,
            )
            for row, other in sorted(self.others.items())
            if isinstance(other, Unjudged) and other.forgets is not None
        ]

    @property
    def versions(self) -> list[Tombstone]:
        """Return the documents, each as a new version of the documents of its id."""
        named = enumerate(zip(self.rows, self.names, strict=True))
        return [
            Tombstone(row, before, known_as(*name), replaces=True) for before, (row, name) in named
        ]

    @property
    def names(self) -> list[tuple[str, bytes]]:
        scopes = [] if self.sketches is None else self.sketches.contents.scopes
        return [*zip(self.batch.ids, scopes, strict=True)]

    @property
    def ids(self) -> dict[int, str]:
        """Return the id of each document, by its row of ``records``."""
        return dict(zip(self.rows, self.batch.ids, strict=True))


def scopes_of(others: Mapping[int, Unjudged | Malformed], sketcher: Sketcher) -> dict[int, bytes]:
    """Return the scopes in which rows of *others* forget, as `Prepared` has them."""
    return {
        row: sketcher.scope(*each.scope)
        for row, each in others.items()
        if isinstance(each, Unjudged) and each.scope
    }


class Decided(Struct, frozen=True):
    """A batch with an outcome for every record."""

    prepared: Prepared
    extent: Extent  # the extent with which it was judged
    judgement: Judgement | None
    outcomes: Sequence[Decision | Unjudged | Malformed]  # one for each record, in their order
    forgotten: Forgotten = NOTHING  # what its tombstones forget, if it is not read again

    @property
    def ages(self) -> Ages | None:
        """Return when each of its documents arrived; None if the batch's mark does not store it."""
        extent, batch = self.extent, self.prepared.batch
        if extent.horizons is None or not len(extent.horizons):
            return None
        return Ages(batch.partitions, batch.offsets, extent.since(len(batch.ids)), extent.times)

    @property
    def additions(self) -> Additions | None:
        """Return the documents that the index should add."""
        return self.judgement.additions if self.judgement else None


def decide(
    prepared: Prepared,
    index: Index,
    rules: Rules,
    *,
    number: int,
    first_ordinal: int,
    reread: bool,
    extent: Extent = EVERYTHING,
) -> Decided:
    """Judge the documents of *prepared* with *extent*; read *index*, change nothing.

    A re-read batch is judged with what was remembered when it was first judged, and adds nothing.
    `CutBatch` says that the batch must end early: decide its first records by themselves.
    """
    judgement, batch = None, prepared.batch
    if extent.cut is not None:
        raise CutBatch(prepared.rows[extent.cut])
    tombstones = [] if reread else prepared.tombstones
    if rules.policy.known_id == "update" and not (reread or rules.trusted):
        tombstones = sorted([*tombstones, *prepared.versions], key=lambda each: each.row)
    names = prepared.names if tombstones else []
    forgetting = Forgetting.of(
        tombstones, names, index, first_ordinal=first_ordinal, records=prepared.rows
    )
    if prepared.sketches is not None:
        judgement = judge(
            batch,
            prepared.sketches,
            index=index,
            policy=rules.policy,
            locate=rules.locate,
            number=number,
            first_ordinal=first_ordinal,
            as_of=index.marks_covering(batch.partitions, batch.offsets) if reread else None,
            extent=extent,
            forgetting=forgetting,
            trusted=rules.trusted and not reread,
        )
    unique = judgement.unique if judgement else np.zeros(0, np.bool_)
    horizons = np.append(extent.remembered(len(batch.ids)), extent.horizon)
    forgotten = forgetting.forgotten(unique, horizons)
    outcomes = _outcomes(prepared, judgement.decisions if judgement else [])
    return Decided(prepared, extent, judgement, outcomes, forgotten)


def _outcomes(
    prepared: Prepared, decisions: Sequence[Decision]
) -> Sequence[Decision | Unjudged | Malformed]:
    """Return the outcome of each record: its reading, or the decision on its document."""
    if not prepared.others:
        return decisions
    outcomes: dict[int, Decision | Unjudged | Malformed] = dict(prepared.others)
    outcomes |= zip(prepared.rows, decisions, strict=True)
    return [outcomes[row] for row in range(len(prepared.records))]


def forgets_first(ordinals: I64, extent: Extent) -> Decided:
    """Return a batch without records that forgets *ordinals*; then the tombstone is read again."""
    nothing = Batch([], *(np.zeros((3, 0), np.int64)))
    return Decided(Prepared([], {}, [], nothing, None), extent, None, [], Forgotten(ordinals))
