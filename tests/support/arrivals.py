"""Sketches as the law takes them, and what a law has stored, for comparisons with an index."""

from streamfilter.entities.joined import SEPARATOR
from streamfilter.index.format import ORDINAL_BYTES, decode_buckets
from streamfilter.index.rocks.stored_index import StoredIndex
from streamfilter.matching.law import Arrival, Law
from streamfilter.similarity.sketch import Sketches


def arrival(doc_id: str, sketches: Sketches, row: int = 0) -> Arrival:
    """Return the document in *row*, as plain values."""
    contents, samples = sketches.contents, sketches.contents.samples
    return Arrival(
        doc_id,
        contents.fingerprints[row].tobytes(),
        contents.signatures[row].tobytes(),
        tuple(samples.tokens[samples.starts[row] : samples.starts[row + 1]].tolist()),
        int(samples.set_sizes[row]),
        tuple(sketches.keys[row].tolist()),
        tuple(contents.payloads[row].decode().split(SEPARATOR)[:-1]) if contents.payloads else (),
        tuple(contents.digests[row, : contents.agreeing].tolist()) if contents.agreeing else (),
        contents.splitters[row].tobytes(),
        contents.scopes[row],
        tuple(contents.naming[row].tolist()) if contents.also else (),
    )


def documents_below(law: Law, limit: int) -> dict[int, tuple[str, bytes]]:
    """Return id and fingerprint of the documents that were remembered before ordinal *limit*."""
    return {o: (each.id, each.fingerprint) for o, each in law.documents.items() if o < limit}


def buckets_below(law: Law, limit: int, oldest: int = 0) -> dict[tuple[int, int], list[int]]:
    """Return the lists of the windows from *oldest* on, without ordinals from *limit* on."""
    below = {
        place: [ordinal for ordinal in bucket if ordinal < limit]
        for place, bucket in law.buckets.items()
        if place[0] >= oldest
    }
    return {place: kept for place, kept in below.items() if kept}


def buckets_of(index: StoredIndex) -> dict[tuple[int, int], list[int]]:
    """Return the lists of *index* by the number of their window and their key."""
    return {
        (each.window.number, int.from_bytes(key, "big")): decode_buckets([row]).ordinals.tolist()
        for each in index.tables
        for kind, key, row in each.dump()
        if kind == "bucket" and len(row) >= ORDINAL_BYTES
    }
