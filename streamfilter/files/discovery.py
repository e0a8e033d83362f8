"""Discovery: all near-duplicate pairs of some files, and their clusters.

Near-duplication is not transitive, so a cluster is a star: in the order of the input, a document
joins the most similar earlier centre that it was itself compared with, or becomes a centre.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice

from streamfilter.assembly import policy_for
from streamfilter.collection.collection import BATCH_DOCUMENTS, Collection, Likeness, Pair
from streamfilter.config.configuration import Config
from streamfilter.files.outputs import OutputFile
from streamfilter.files.run import check_paths
from streamfilter.files.sampling import documents_of, refuse
from streamfilter.files.state import opened
from streamfilter.index.format import BUCKET_CAP_MAX
from streamfilter.matching import envelope
from streamfilter.model import Malformed, Record
from streamfilter.process.signals import INTERRUPTION
from streamfilter.similarity.columns import I64
from streamfilter.similarity.sketchers import sketcher_of


@dataclass(frozen=True, slots=True)
class Cluster:
    """A star: its centre, and who was verified against it."""

    centre: str
    members: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Discovery:
    """What was found."""

    documents: int
    broken: int
    pairs: list[Pair]
    clusters: list[Cluster]
    """Those with members, in the order of their centres."""
    overflows: int
    """How often a document stayed unlisted in a full bucket: pairs may be missing."""


def discover(
    config: Config, inputs: Sequence[str], *, seed: bytes, dead_letter: str | None = None
) -> Discovery:
    """Return all pairs of *inputs* that meet and are similar by *config*.

    Args:
        config: what similar means, and where a record has its text.
        inputs: the files, in their order.
        seed: of the hashes.
        dead_letter: a file for lines that cannot be read.

    Raises:
        Stop: an input cannot be read, or holds something else; names the line and the cure.
    """
    index_settings = config.index.model_copy(update={"bucket_cap": BUCKET_CAP_MAX})
    config = config.model_copy(update={"index": index_settings})
    policy = policy_for(config)
    pairs: list[Pair] = []
    stars: dict[int, Cluster] = {}
    with (
        _rejections(inputs, dead_letter) as rejections,
        opened(config, None, seed=seed) as (index, _),
    ):
        sketcher = sketcher_of(config.scheme().as_json(), seed=seed)
        collection = Collection(index, sketcher, seed=seed)
        for ordinals, ids in _added(
            collection, documents_of(inputs, config, rejected=rejections.take)
        ):
            INTERRUPTION.obey()
            rows = collection.like_ordinals(ordinals, policy, earlier=True)
            for ordinal, id_, found in zip(ordinals.tolist(), ids, rows, strict=True):
                pairs += [_pair(each) for each in found]
                _join(stars, ordinal, id_, found)
        count = len(collection)
    clusters = [star for star in stars.values() if star.members]
    return Discovery(count, rejections.count, pairs, clusters, collection.overflows)


class _Rejections:
    """What becomes of lines that cannot be read: set aside and counted, or an end."""

    def __init__(self, output: OutputFile | None) -> None:
        self._output, self.count = output, 0

    def take(self, record: Record, malformed: Malformed) -> None:
        if self._output is None:
            refuse(record, malformed)
            return
        self._output.write(envelope.dead_letter(malformed, record))
        self.count += 1


@contextmanager
def _rejections(inputs: Sequence[str], path: str | None) -> Iterator[_Rejections]:
    """Yield where broken lines go; the file at *path* appears when all went well."""
    if path is None:
        yield _Rejections(None)
        return
    check_paths(inputs, [path])
    output = OutputFile(path)
    try:
        yield _Rejections(output)
        output.complete()
        output.publish()
    finally:
        output.discard()


def _added(
    collection: Collection, documents: Iterator[tuple[str, str]]
) -> Iterator[tuple[I64, list[str]]]:
    """Add *documents* a thousand at a time; yield their ordinals and ids."""
    while chunk := list(islice(documents, BATCH_DOCUMENTS)):
        ids = [id_ for id_, _ in chunk]
        first = len(collection)
        # Two records of a file may have one id; the collection needs names that differ.
        names = [f"{first + place} {id_}" for place, id_ in enumerate(ids)]
        yield collection.put(names, [text for _, text in chunk]), ids


def _pair(found: Likeness) -> Pair:
    own, other = (name.partition(" ")[2] for name in (found.id, found.other_id))
    return Pair(own, other, found.similarity, found.same_text)


def _join(stars: dict[int, Cluster], ordinal: int, id_: str, found: list[Likeness]) -> None:
    """Let a document join the star of its most similar centre, or become a centre."""
    for each in found:
        if each.other_ordinal in stars:
            stars[each.other_ordinal].members.append(id_)
            return
    stars[ordinal] = Cluster(id_)
