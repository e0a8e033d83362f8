"""An index held to the history, at whatever batch it stands."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

from streamfilter.index.format import ORDINAL_BYTES, names_of
from tests.support.arrivals import buckets_below, documents_below
from tests.support.values import replace
from tests.truth.changelog import SEEDS_FROM, Batch, windows_at
from tests.truth.history import History


def state_differences(index: Any, history: History, start: int) -> Iterator[str]:
    """Yield what is wrong with an index of a task whose changelog begins at *start*.

    *history* may have gone further. One that is about to be restored from there lacks windows that
    were alive at its batch, and are gone by the changelog's end.
    """
    progress = index.progress
    done = history.batches[: progress.next_batch]
    if len(done) != progress.next_batch or (
        done and done[-1].next_ordinal != progress.next_ordinal
    ):
        yield f"stands at batch {progress.next_batch}"
        return
    have, windows = index.windows, windows_at(done)
    midway = history.anew and len(done) < len(history.batches)
    # A standby restores what is left of a changelog that was cut off inside of a window; a start
    # finds that its oldest window begins behind the horizon, and restores what was written anew.
    partial = history.anew and have[0].first_ordinal > progress.horizon
    if have[0].offset <= start or midway or partial:
        windows = windows[-len(have) :]
    if history.anew:  # restored from there, or not: they begin elsewhere
        have, windows = (tuple(replace(w, offset=0) for w in each) for each in (have, windows))
    if (have, progress.horizon) != (windows, done[-1].horizon if done else 0):
        yield f"has {have} from {progress.horizon} on, not {windows}"
        return
    yield from _positions(index, done, history)
    # A bucket whose every member was forgotten still counts those that it had turned away.
    stored = Counter(
        kind for kind, _, value in index.dump() if kind != "bucket" or len(value) >= ORDINAL_BYTES
    )
    yield from _documents(index, history, windows[0].first_ordinal, stored["document"])
    if index.ids:
        yield from _names(index, history, windows[0].first_ordinal, stored["id"])
    known = buckets_below(history.law, progress.next_ordinal, windows[0].number)
    yield from _buckets(index, known, stored["bucket"])
    yield from _marks(index, done[windows[0].first_batch :], stored["batch"])


def _positions(index: Any, done: list[Batch], history: History) -> Iterator[str]:
    have = dict(index.progress.positions or {})
    wanted = {p: end for p, (_, end) in done[-1].spans.items() if p < SEEDS_FROM} if done else {}
    if history.anew:  # inside of it, a batch tells only of the partitions that it judged
        wanted = {p: end for p, end in wanted.items() if p in have}
    if have != wanted:
        yield f"has positions {have}, not {wanted}"


def _documents(index: Any, history: History, oldest: int, stored: int) -> Iterator[str]:
    """Compare documents of windows that are alive, also those that the horizon has passed."""
    known = documents_below(history.law, index.progress.next_ordinal)
    wanted = {o: (history.judged[name].id, mark) for o, (name, mark) in known.items()}
    wanted = {ordinal: each for ordinal, each in wanted.items() if ordinal >= oldest}
    remembered = sum(ordinal >= index.progress.horizon for ordinal in wanted)
    if (len(index), stored) != (remembered, len(wanted)):
        yield f"has {len(index)} documents and stores {stored}, not {remembered}, {len(wanted)}"
        return
    found = index.fetch(np.array(sorted(wanted), np.int64))
    rows = zip(found.ordinals.tolist(), found.ids, found.contents.fingerprints, strict=True)
    if odd := [o for o, id_, mark in rows if (id_, mark.tobytes()) != wanted[o]]:
        yield f"documents {odd[:3]} differ from the law's"


def _names(index: Any, history: History, oldest: int, stored: int) -> Iterator[str]:
    """Compare what the table of ids has of each document: its id and its values."""
    law, end = history.law.documents, index.progress.next_ordinal
    documents = index.fetch(np.array(sorted(o for o in law if oldest <= o < end), np.int64))
    names = dict(zip(documents.ordinals.tolist(), names_of(documents), strict=True))
    wanted = sum(1 + sum(map(bool, law[ordinal].values)) for ordinal in names)
    if stored != wanted:
        yield f"finds {stored} names, the law has {wanted}"
    for ordinal, theirs in names.items():
        if any(ordinal not in each.tolist() for each in index.named(theirs, end)):
            yield f"document {ordinal} is not found by its names"


def _buckets(index: Any, buckets: dict[tuple[int, int], list[int]], stored: int) -> Iterator[str]:
    if stored != len(buckets):
        yield f"{stored} buckets, the law has {len(buckets)}"
    keys = np.array(sorted({key for _, key in buckets}), np.uint64).reshape(-1, 1)
    for window, probed in zip(index.windows, index.probe(keys).windows, strict=True):
        ends = np.cumsum(probed.counts[:, 0].astype(np.int64)).tolist()
        ordinals = probed.ordinals.tolist()
        for key, begin, end in zip(keys[:, 0].tolist(), [0, *ends], ends, strict=False):
            wanted = buckets.get((window.number, key), [])
            if ordinals[begin:end] != wanted:
                yield f"bucket {key:x} of {window} differs from the law's {wanted}"
                return


def _marks(index: Any, batches: list[Batch], stored: int) -> Iterator[str]:
    if stored != len(batches):
        yield f"{stored} marks of batches, not {len(batches)}"
    for batch in batches:
        mark = index.mark(batch.number)
        spans = {p: span for p, span in batch.spans.items() if span[0] < span[1]}
        have = mark and ({s.partition: (s.start, s.end) for s in mark.spans}, mark.horizon,
                         mark.stream_time)  # fmt: skip
        if have != (spans, batch.horizon, batch.time):
            yield f"the mark of batch {batch.number} is {have}"
            return
