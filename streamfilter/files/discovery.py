"""Discovery: all near-duplicate pairs of some files or of an index, and their clusters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from functools import partial
from operator import attrgetter
from typing import Any, cast

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from streamfilter.assembly import crew_for, policy_for, sketcher_for
from streamfilter.collection.clusters import CLUSTERS, Cluster
from streamfilter.collection.collection import BATCH_DOCUMENTS, Collection, Pair
from streamfilter.collection.rows import chunks
from streamfilter.config.configuration import Config
from streamfilter.files.answers import TableWriter
from streamfilter.files.inputs import check_evidence, documents_of, refuse
from streamfilter.files.outputs import OutputFile
from streamfilter.files.run import check_paths, no_progress
from streamfilter.files.state import opened
from streamfilter.index.format import BUCKET_CAP_MAX
from streamfilter.index.protocol import Index, Readable
from streamfilter.matching.verdict import envelope
from streamfilter.matching.verdict.policy import MatchPolicy
from streamfilter.model import Document, Malformed, Record
from streamfilter.process.signals import INTERRUPTION
from streamfilter.process.terminal_escapes import inline
from streamfilter.similarity.columns import I64
from streamfilter.similarity.sketch import Sketcher
from streamfilter.stops import counted

KINDS = tuple(CLUSTERS)  # kinds of clusters; the first one is the usual one
PAIR_COLUMNS = {"id": str, "other": str, "similarity": float, "same_text": bool, "same_field": str}
"""Columns of a table of pairs, as `Pair` names them."""


class Discovery(Struct, frozen=True):
    """The result: pairs, clusters and counts."""

    documents: int
    broken: int
    pairs: list[Pair]
    clusters: list[Cluster]  # of the requested kind, with members, in the order of the centres
    overflows: int  # how often a document was not added to a full bucket: pairs may be missing
    kind: str

    def as_json(self) -> dict[str, Any]:
        fields = to_builtins(self)
        for pair in fields["pairs"]:
            if not pair["same_field"]:
                del pair["same_field"]
        return {name: fields[name] for name in
                ("documents", "broken", "pairs", "clusters", "overflows")}  # fmt: skip

    def pairs_as_text(self) -> Iterator[str]:
        """Yield a line for each pair, as `evaluate --pairs` reads it."""
        for each in self.pairs:
            yield f"{inline(str(each.other))}\t{inline(str(each.id))}\t{each.similarity:.6f}"

    def clusters_as_text(self) -> Iterator[str]:
        for each in self.clusters:
            yield "\t".join(map(inline, (each.centre, *each.members)))

    def write_pairs(self, write: TableWriter) -> None:
        write(PAIR_COLUMNS, map(attrgetter(*PAIR_COLUMNS), self.pairs))

    def write_clusters(self, write: TableWriter) -> None:
        """Write a row for each document in a cluster, the centre too."""
        rows = ((each.centre, id) for each in self.clusters for id in (each.centre, *each.members))
        write({"centre": str, "id": str}, rows)

    def summary(self) -> str:
        named = counted(len(self.clusters), "cluster" if self.kind == "stars" else "component")
        inside = sum(len(cluster.members) for cluster in self.clusters)
        broken = f"; {counted(self.broken, 'broken line')} set aside" if self.broken else ""
        full = (
            f"; {self.overflows:,} times a bucket was full: of more than 255 documents of one kind "
            "not all pairs are here"
            if self.overflows
            else ""
        )
        return (
            f"{counted(self.documents, 'document')}: {counted(len(self.pairs), 'pair')}; {named}, "
            f"{counted(inside, 'document')} besides their centres{broken}{full}"
        )


def discover(
    config: Config,
    inputs: Sequence[str],
    *,
    seed: bytes,
    dead_letter: str | None = None,
    clusters: str = "stars",
    advanced: Callable[[int], None] = no_progress,
) -> Discovery:
    """Return all pairs of *inputs* that share a band key and are similar by *config*.

    Lines that cannot be read go to the file *dead_letter*; without one they raise `Stop`.
    *clusters* is one of `KINDS`. *advanced* is called with the bytes read since its last
    call.
    """
    index_settings = config.index.model_copy(update={"bucket_cap": BUCKET_CAP_MAX})
    config = config.model_copy(update={"index": index_settings})
    policy = policy_for(config)
    pairs: list[Pair] = []
    groups = CLUSTERS[clusters]()
    letters: AbstractContextManager[OutputFile | None] = nullcontext()
    if dead_letter is not None:
        check_paths(inputs, [dead_letter])
        check_evidence(dead_letter)
        letters = OutputFile(dead_letter)
    broken = 0
    with (
        letters as output,
        opened(config, None, seed=seed) as state,
        closing(crew_for(config)) as crew,
    ):

        def rejected(record: Record, malformed: Malformed) -> None:
            nonlocal broken
            if output is None:
                refuse(record, malformed)
            else:
                output.write(envelope.dead_letter(malformed, record))
                broken += 1

        sketcher = sketcher_for(config.scheme(), seed=seed)
        sketch = partial(crew.sketch, sketcher)
        collection = Collection(state.index, sketcher, seed=seed, sketch=sketch)
        documents = documents_of(inputs, config, rejected=rejected, advanced=advanced)
        for ordinals in _added(collection, documents):
            INTERRUPTION.obey()
            short = policy.judges_short
            for row in collection.like_ordinals(ordinals, policy, earlier=True, short=short):
                pairs += [each.pair(_given) for each in row]
                groups.add(row)
        count = len(collection)
    found = [Cluster(_given(c.centre), [*map(_given, c.members)]) for c in groups.clusters()]
    return Discovery(count, broken, pairs, found, collection.overflows, clusters)


def discover_stored(
    indexes: Sequence[tuple[Readable, Sketcher, MatchPolicy]],
    *,
    clusters: str,
    advanced: Callable[[int], None] = no_progress,
) -> Discovery:
    """Return all pairs of the documents of each index that share a band key and are similar.

    The *indexes* are only read. Only documents with a pair are kept in memory. *advanced* is called
    with the number of documents that were compared since its last call.
    """
    pairs: list[Pair] = []
    found: list[Cluster] = []
    for index, sketcher, policy in indexes:
        groups = CLUSTERS[clusters]()
        # A collection writes only in other methods.
        collection = Collection(cast(Index, index), sketcher, seed=b"")
        for documents, rows in collection.likenesses(policy):
            INTERRUPTION.obey()
            for row in rows:
                pairs += [each.pair() for each in row]
                groups.add(row)
            advanced(len(documents))
        found += groups.clusters()
    count = sum(len(index) for index, _, _ in indexes)
    return Discovery(count, 0, pairs, found, 0, clusters)


def _added(collection: Collection, documents: Iterator[Document]) -> Iterator[I64]:
    """Add *documents* a thousand at a time; yield their ordinals."""
    for chunk in chunks(documents, BATCH_DOCUMENTS):
        first = len(collection)
        # Two records of a file may have one id; the collection needs names that differ.
        yield collection.put(
            [replace(each, id=f"{first + n} {each.id}") for n, each in enumerate(chunk)]
        )


def _given(name: str) -> str:
    """Return the id of the document that `_added` has named."""
    return name.partition(" ")[2]
