"""`unique`: the rows that the service would forward, from any iterable; nothing is kept.

>>> from streamfilter import unique
>>> list(unique([
...     "the cat sat on the mat and looked at dogs",
...     "The cat sat on the mat, and looked at dogs!",
...     "a dog barked at the cat",
... ], shingle="word:2"))
['the cat sat on the mat and looked at dogs', 'a dog barked at the cat']
"""

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from streamfilter.collection.identity import (
    index_at,
    new_policy,
    new_scheme,
    wanted_identity,
    warn_of_missed,
)
from streamfilter.collection.rows import (
    TEXT,
    Row,
    Rows,
    check_workers,
    chunks_up_to_an_error,
    texts_of,
)
from streamfilter.documents.reader import is_blank
from streamfilter.index.format import BUCKET_CAP
from streamfilter.index.protocol import Changes, Index
from streamfilter.matching.blocking.retention import EVERYTHING
from streamfilter.matching.pipeline import Batch, judge
from streamfilter.matching.verdict.policy import MatchPolicy
from streamfilter.model import Document, Source, Verdict
from streamfilter.similarity.columns import Flags
from streamfilter.similarity.scheme import Scheme
from streamfilter.similarity.sketch import Sketcher
from streamfilter.workers.crew import Crew

FORWARDED = (Verdict.UNIQUE, Verdict.PASSTHROUGH)
BATCH_ROWS = 4_000  # as batch.documents of the service


def unique(
    rows: Rows,
    *,
    text: str = TEXT,
    threshold: float | None = None,
    shingle: str | None = None,
    scheme: Scheme | None = None,
    workers: int = 0,
    progress: Callable[[int], object] | None = None,
) -> Iterator[Row]:
    """Yield the *rows* that are no near-duplicate of a row yielded before, in their order.

    The verdicts are those of `run` and `filter` with their default settings. Texts without a
    shingle, such as empty ones, are all yielded. Rows are read 4,000 at a time; if one raises,
    those before it are yielded first. What was yielded is remembered in a temporary directory,
    which is removed at the end: memory is bounded.

    Args:
        rows: texts; or mappings, pairs of an id and a text, a DataFrame, an Arrow table, batch
            or reader, or a data set. Rows of a table are yielded as mappings of all its columns.
        text: the field with the text.
        threshold: as of `Deduplicator` (default 0.8).
        shingle: as of `Deduplicator`.
        scheme: as of `Deduplicator`.
        workers: how many other processes sign texts: worth it above some 500 characters each.
        progress: is called with the number of rows that were judged since its last call.

    Raises:
        TypeError, KeyError, ValueError: an invalid argument, or a row without a text.
        IndexFault: the temporary directory cannot be written.
    """
    policy = new_policy(threshold)
    wanted = new_scheme(threshold, shingle, scheme)
    if threshold is not None:
        warn_of_missed(wanted, threshold, stacklevel=1)
    return _unique(texts_of(rows, text), wanted, policy, Crew(check_workers(workers)), progress)


def _unique(
    rows: Iterator[tuple[Row, str]],
    scheme: Scheme,
    policy: MatchPolicy,
    crew: Crew,
    progress: Callable[[int], object] | None,
) -> Iterator[Row]:
    identity = wanted_identity(None, scheme)
    sketcher = Sketcher(scheme, seed=identity.seed)
    with TemporaryDirectory(prefix="streamfilter-") as directory, closing(crew):
        index = index_at(Path(directory, "index"), identity, bucket_cap=BUCKET_CAP)
        with closing(index):
            for chunk in chunks_up_to_an_error(rows, BATCH_ROWS):
                kept = _kept([text for _, text in chunk], index, sketcher, policy, crew)
                for (row, _), forwarded in zip(chunk, kept.tolist(), strict=True):
                    if forwarded:
                        yield row
                if progress is not None:
                    progress(len(chunk))


def _kept(
    texts: list[str], index: Index, sketcher: Sketcher, policy: MatchPolicy, crew: Crew
) -> Flags:
    """Judge *texts* (n,), remember the unique ones, and return which are forwarded (n,)."""
    kept = np.ones(len(texts), np.bool_)
    judged = [row for row, text in enumerate(texts) if not is_blank(text)]
    if not judged:
        return kept
    sketches = crew.sketch(sketcher, [Document("", texts[row]) for row in judged])
    before, n = index.progress, len(judged)
    judgement = judge(
        _batch(n),
        sketches,
        index=index,
        policy=policy,
        locate=lambda partition, offset: Source("", partition, offset),
        number=before.next_batch,
        first_ordinal=before.next_ordinal,
    )
    following, _ = before.advanced(n, (), EVERYTHING)
    index.apply(Changes(following, judgement.additions))
    kept[judged] = [each.verdict in FORWARDED for each in judgement.decisions]
    return kept


def _batch(n: int) -> Batch:
    """Return *n* documents without ids, places and times: no answer needs them."""
    nothing = np.zeros(n, np.int64)
    return Batch([""] * n, nothing, nothing, nothing - 1)
