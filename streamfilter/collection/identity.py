"""Settings of a `Deduplicator`'s directory: scheme, identity, policy and retention."""

import json
import os
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from numbers import Integral
from pathlib import Path

from msgspec import ValidationError, convert, to_builtins
from msgspec.structs import replace

from streamfilter.collection.rows import check_threshold
from streamfilter.index.directory.identity import Identity
from streamfilter.index.directory.opening import open_index, read_identity
from streamfilter.index.errors import IndexMismatch
from streamfilter.index.memory import MemoryIndex
from streamfilter.index.protocol import Index
from streamfilter.matching.blocking.retention import Retention
from streamfilter.matching.verdict.policy import MatchPolicy
from streamfilter.similarity.scheme import Normalisation, Scheme, Shingling, scheme_of
from streamfilter.similarity.statistics.shape import Shape, plan

_RETENTION = "retention_documents"
WINDOW_DOCUMENTS = 1_000
"""Documents of a window, at least. Forgotten documents stay on disk until their window goes."""
RETENTION_LEAST = 2 * WINDOW_DOCUMENTS
"""The newest window must be remembered as a whole, even if one call fills it. Otherwise its full
buckets could list only forgotten documents, and have no place for remembered ones."""

RECALL_MIN = 0.9  # share of the pairs at the threshold; planned bands find .99
_FACT = "deduplicator"  # other indexes do not store it, nor find documents by id

WAYS = """
    ways out: leave out the settings that differ, and it opens with its own; or
    1. new directory: add the texts to another Deduplicator(path), made with these settings
    2. the version of streamfilter that made it, if format or scheme.algorithm differs
    3. if it is of filter or run: `streamfilter query` looks into it"""


def directory_of(path: object) -> Path:
    """Return *path* as a `Path`; raise `TypeError` or `ValueError` if it names no directory."""
    if not isinstance(path, (str, os.PathLike)):
        kind = type(path).__name__
        raise TypeError(f"the path is {path!r:.60} ({kind}); expected a str or a Path")
    if not path or "\0" in str(path):  # pathlib takes '' for the current directory
        raise ValueError(f"the path is {path!r:.60}; name a directory, such as 'memory'")
    return Path(path)


def identity_at(path: str | Path | None) -> Identity | None:
    """Return the identity of the index in *path*, None if there is none; raise `IndexFault`."""
    with refusing_callers():
        return None if path is None else read_identity(directory_of(path))


def index_at(path: Path | None, identity: Identity, *, bucket_cap: int) -> Index:
    """Open the index of *identity* in the directory *path*; None: in memory."""
    if path is None:
        return MemoryIndex(identity.widths, bucket_cap=bucket_cap)
    with refusing_callers():
        return open_index(path, identity, bucket_cap=bucket_cap)


@contextmanager
def refusing_callers() -> Iterator[None]:
    """Give an `IndexMismatch` the ways out that fit a `Deduplicator`, instead of a service's."""
    try:
        yield
    except IndexMismatch as fault:
        raise fault.with_ways(WAYS) from fault


def wanted_scheme(
    known: Identity | None, threshold: float | None, shingle: str | None, scheme: Scheme | None
) -> Scheme | None:
    """Return the scheme wanted of an index: *scheme*, or the *known* one with *shingle*, or a new.

    None: no other than its own. Its bands stay, whatever the threshold is now. If they miss
    too many pairs at the new threshold, `warn_of_missed` warns.
    """
    if known is None or scheme is not None:
        return new_scheme(threshold, shingle, scheme)
    if shingle is None:
        return None
    asked = new_scheme(shingle=shingle).shingling
    return replace(scheme_of(known.scheme), shingling=asked)


def new_scheme(
    threshold: float | None = None, shingle: str | None = None, scheme: Scheme | None = None
) -> Scheme:
    """Return the scheme for a new index, or raise `TypeError` or `ValueError`."""
    if shingle is not None and not isinstance(shingle, str):
        raise TypeError(f"shingle is {shingle!r:.60}; write it as a str, such as 'word:3'")
    if scheme is not None and not isinstance(scheme, Scheme):
        raise TypeError(f"scheme is {scheme!r:.60}; expected a Scheme, or shingle='word:3' instead")
    if scheme is not None:
        if shingle is not None:
            raise ValueError("give shingle or scheme: the scheme has the shingle in it")
        if scheme.fields:
            raise ValueError("a Deduplicator takes texts; records go through filter or run")
        if scheme.pointers:
            raise ValueError(
                f"a Deduplicator has texts without fields, so none at {scheme.pointers[0]}; name "
                "only numbers or urls in the scheme's digests"
            )
        return _checked(scheme)
    policy = new_policy(threshold)
    kind, _, size = (shingle or "word:3").partition(":")
    if not size.isdecimal():
        raise ValueError(f"{shingle!r} is no shingle; write word:3 or char:5")
    shape = plan(policy.threshold, slots=128, recall=0.99, layout="bands")
    shingling = Shingling(kind, int(size))
    return Scheme(shape.bands, shape.rows, 128, shingling, Normalisation())


def _checked(scheme: Scheme) -> Scheme:
    """Return *scheme* with lists as tuples; raise `TypeError` or `ValueError` for a wrong value.

    A `Struct` takes any value. A wrong one would fail at the first text, with a directory made.
    """
    try:
        scheme = convert(to_builtins(scheme), Scheme)
    except ValidationError as fault:
        said, _, place = str(fault).partition(" - at `$")
        raise TypeError(f"scheme{place.rstrip('`')}: {said}") from None
    scheme.normalisation.check_names()
    return scheme


def wanted_identity(
    known: Identity | None, scheme: Scheme | None, *, seed: bytes | None = None
) -> Identity:
    """Return the wanted identity: the *known* one (with *scheme*, if given), or a new one."""
    if known is not None:
        return known if scheme is None else known.of_scheme(scheme)
    scheme = scheme or new_scheme()
    return Identity.new(
        scheme=scheme.as_json(),
        fingerprint=scheme.fingerprint,
        created=time.time_ns() // 1_000_000,
        seed=seed,
    )


def warn_of_missed(scheme: Scheme, threshold: float, *, stacklevel: int) -> None:
    """Warn the caller *stacklevel* frames above if the bands miss too many pairs at *threshold*."""
    found = Shape.of(scheme).probability(threshold)
    if found < RECALL_MIN:
        warnings.warn(
            f"the bands of this scheme ({scheme.bands} x {scheme.rows}) find {found:.2f} of the "
            f"pairs at threshold {threshold:g}; for all of them add the texts to a new "
            f"Deduplicator(threshold={threshold:g})",
            stacklevel=stacklevel + 1,
        )


def new_policy(threshold: float | None) -> MatchPolicy:
    """Return the policy of *threshold*; raise `TypeError` or `ValueError` if that is none."""
    if threshold is None:
        return MatchPolicy()
    check_threshold(threshold)
    return MatchPolicy(threshold=threshold)


def noted_policy(index: Index, threshold: float | None, *, new: bool) -> MatchPolicy:
    """Return the policy of *index*, with *threshold* if it is given, and store it there.

    Raises `ValueError` if no `Deduplicator` made the index: it cannot find documents by id.
    """
    if not new and index.fact(_FACT) is None:
        raise ValueError(
            "this index belongs to filter or run, which remember no ids; look into it with "
            "`streamfilter query`, or give the Deduplicator a directory of its own"
        )
    policy = MatchPolicy(**json.loads(index.fact("policy") or "{}"))
    if threshold is not None:
        policy = replace(policy, threshold=threshold)
    index.remember("policy", policy.as_fact())
    index.remember(_FACT, b"1")
    return policy


def retention_of(documents: int | None) -> Retention:
    """Return the retention of the last *documents* documents; None: nothing is forgotten."""
    if documents is not None and not isinstance(documents, Integral):
        kind = type(documents).__name__
        raise TypeError(f"retention_documents={documents!r:.60} ({kind}); expected an int, or None")
    if documents is not None and documents < RETENTION_LEAST:
        raise ValueError(
            f"retention_documents={documents} is too few: what is forgotten goes a thousand at a "
            f"time; use {RETENTION_LEAST:,} or more, or None"
        )
    return Retention(documents, least=WINDOW_DOCUMENTS)


def noted_retention(index: Index, documents: int | None) -> Retention:
    """Return the retention of *index* and store it there; None: the retention stays as it was."""
    known = index.fact(_RETENTION)
    if documents is None:
        return retention_of(int(known) if known else None)
    if known != (asked := str(documents).encode()):
        index.remember(_RETENTION, asked)
    return retention_of(documents)
