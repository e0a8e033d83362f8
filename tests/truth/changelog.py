"""The batches of a changelog, read with a few lines of our own, not by the code under test."""

import json
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice
from typing import Any, Protocol

from streamfilter.model import EVER, Window
from tests.support.values import replace

HEADER, DOCUMENT, BATCH, FORGET = 1, 2, 3, 4
NAMED, AGED, DATED, WRITER_BYTES = 2, 3, 4, 16
"""Versions of a batch that begins with its writer's name, and how long that is."""
NUMBER_MAX = 1 << 63
_BATCH, _SPAN = struct.Struct("<QQQqI"), struct.Struct("<Iqq")

Place = tuple[int, int]
"""Partition and offset of an input record."""
SEED_NAMES = ("old0", "old1")
SEEDS_FROM, SEEDS_TO = 64_536, 65_535
""""Numbers of seeds: the first has the last one."""


class Failure(AssertionError):
    """An oracle's finding."""

    def __init__(self, check: str, message: str) -> None:
        super().__init__(f"{check}: {message}")
        self.check = check


class Log(Protocol):
    """One partition of a changelog."""

    def committed(self, begin: int, /) -> Iterable[tuple[int, Any]]:
        """Return offsets and values of what a reader of committed records gets."""


@dataclass(frozen=True, slots=True)
class Age:
    """What the changelog tells of one document."""

    place: Place
    horizon: int
    time: int


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch as the changelog tells of it."""

    number: int
    first_ordinal: int
    next_ordinal: int
    spans: dict[int, tuple[int, int]]
    documents: list[int]
    """Ordinals of the document records before it."""
    forgotten: list[int]
    """Those of before that leave with it."""
    opens: Window | None = None
    horizon: int = 0
    time: int = -1
    """Of the stream, if the changelog tells it."""
    ages: tuple[Age, ...] = ()
    """Of its documents, if the changelog tells them."""


def read_batches(changelog: Log) -> list[Batch]:
    """Return the batches of a changelog partition, in order, also those that were cut off."""
    batches: list[Batch] = []
    documents: list[int] = []
    forgotten: list[int] = []
    opens: Window | None = None
    anew: int | None = None
    """The batch that comes next of what is written anew; -1: any, None: nothing is."""
    topics: list[str] = []
    seeds: list[list[Any]] = []
    for count, (offset, value) in enumerate(changelog.committed(0)):
        kind = value[1]
        told: dict[str, Any] = json.loads(value[2:]) if kind == HEADER else {}
        part, window = told.get("anew", ""), told.get("window")
        table = told.get("inputs", [])
        runs, read = (table["topics"], table["seeds"]) if isinstance(table, dict) else (table, [])
        named = [run[0] for run in runs]
        grows = len(named) > len(topics) or (read != seeds and window is None)
        version = 7 if read else 6 if named else value[0] if value[0] < 6 else 0
        if kind == HEADER and (named[: len(topics)] != topics or value[0] != version):
            raise Failure("changelog", f"offset {offset} numbers {named}, before it {topics}")
        if kind == HEADER and len(read) < len(seeds):
            raise Failure("changelog", f"offset {offset} has the seeds {read}, before it {seeds}")
        alone = grows and count > 0 and anew is None and part not in ("begin", "end")
        if kind == HEADER and (part == "grown") != alone:
            raise Failure("changelog", f"offset {offset} numbers {named} as {part!r}")
        topics, seeds = named or topics, read or seeds
        if count == 0 and kind != HEADER:
            raise Failure("changelog", f"offset {offset} holds a record of kind {kind}")
        if part in ("begin", "end"):
            begins = part == "begin"
            if not begins and anew != len(batches):
                raise Failure("changelog", f"what is written anew ends at {anew}, at {offset}")
            anew, documents, opens = -1 if begins else None, [], None
        elif kind == HEADER and anew is not None:
            pass
        elif kind == HEADER:
            if documents or opens or (window is None) != (count == 0 or alone):
                raise Failure("changelog", f"offset {offset} holds a header with window {window}")
            opens = Window(*window, offset) if window else None
        elif kind == DOCUMENT:
            documents.append(struct.unpack_from("<Q", value, 2)[0])
        elif kind == FORGET:
            forgotten += struct.unpack(f"<{len(value) // 8}Q", value[2:])
        elif kind == BATCH:
            body = value[2 + WRITER_BYTES * (value[0] in (NAMED, AGED, DATED)) :]
            number, first, after, time, count = _BATCH.unpack_from(body)
            end = _BATCH.size + count * _SPAN.size
            spans = {p: (a, b) for p, a, b in _SPAN.iter_unpack(body[_BATCH.size : end])}
            horizon = int.from_bytes(body[end : end + 8], "little")
            assert len(spans) == count
            for seed, (*_, position, _, _) in enumerate(seeds):
                _, end_ = spans.get(SEEDS_TO - seed, (0, position))
                if end_ != position and anew is None:  # one header for all that is written anew
                    raise Failure("changelog", f"batch {number} and its header differ: {seeds}")
            time = time if value[0] in (AGED, DATED) else -1
            age = opens, horizon, time, _ages(body[end + 8 :], spans, after - first)
            batch = Batch(number, first, after, spans, documents, forgotten, *age)
            if anew is not None and number < len(batches):
                _check_anew(batch, batches[number], anew)
                anew = number + 1
            else:
                batches.append(batch)
                anew = None
            documents, forgotten, opens = [], [], None
    if documents:
        raise Failure("changelog", f"documents {documents} without a batch record")
    return batches


def anew_at(changelog: Log, window: int) -> int:
    """Return where the last part that was written anew, and ended, begins with *window*; or 0."""
    begun: list[tuple[int, int]] = []
    whole: list[tuple[int, int]] = []
    for offset, value in changelog.committed(0):
        if value[1] == HEADER:
            told = json.loads(value[2:])
            if told.get("anew") == "begin":
                begun = []
            begun.append((offset, (told.get("window") or [0])[0]))
            whole = begun if told.get("anew") == "end" else whole
    return next((offset for offset, number in reversed(whole[:-1]) if number <= window), 0)


def _check_anew(batch: Batch, told: Batch, following: int) -> None:
    """Hold a batch that is written anew against the one of before."""
    spans = {p: span for p, span in told.spans.items() if span[0] < span[1]}
    same = replace(batch, opens=told.opens, spans=spans, forgotten=told.forgotten)
    if following not in (-1, batch.number) or same != replace(told, spans=spans):
        raise Failure("changelog", f"batch {told} is written anew as {batch}")
    if batch.spans != spans:
        raise Failure("changelog", f"batch {told} is written anew with {batch.spans}")


def _ages(data: bytes, spans: Mapping[int, tuple[int, int]], documents: int) -> tuple[Age, ...]:
    """Read columns of LEB128 differences: documents of each span, offsets, horizons, times."""
    if not data:
        return ()
    numbers, shift = [0], 0
    for byte in data:
        numbers[-1] |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            numbers.append(0)
            shift = 0
    holding = [(p, a) for p, (a, b) in sorted(spans.items()) if a < b]
    assert numbers.pop() == 0
    assert len(numbers) == len(holding) + 3 * documents
    places: list[Place] = []
    steps = iter(numbers[len(holding) :])
    for (p, offset), count in zip(holding, numbers, strict=False):
        for _ in range(count):
            offset += next(steps)
            places.append((p, offset))
    horizons, times = (accumulate(islice(steps, documents)) for _ in range(2))
    horizons, times = list(horizons), list(times)
    return tuple(map(Age, places, horizons, times))


def positions(changelog: Log) -> dict[int, int]:
    """Return the next offset never judged, by partition, as the last batch says."""
    batches = read_batches(changelog)
    return {p: end for p, (_, end) in batches[-1].spans.items()} if batches else {}


def windows_at(batches: Sequence[Batch]) -> tuple[Window, ...]:
    """Return which windows are alive after *batches*."""
    opened = [EVER, *(batch.opens for batch in batches if batch.opens)]
    horizon = batches[-1].horizon if batches else 0
    gone = sum(each.first_ordinal <= horizon for each in opened[1:])
    return tuple(opened[gone:])
