"""What the tests of the engine share: seeded texts, outputs to compare, an index's dump."""

import json
import random
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from streamfilter.demo.running_filter import Child
from streamfilter.index.directory.opening import open_index, read_identity
from streamfilter.index.directory.seed_file import read_seed
from streamfilter.killpoints import VARIABLE
from streamfilter.model import Record
from tests.support.stage import Stage
from tests.support.topics import Input, header

TIMESTAMP = time.time_ns() // 1_000_000
"""Recent, for a broker deletes by the records' own timestamps; fixed, so that runs compare."""


Settings = Mapping[str, Mapping[str, Any]]
BATCH = 6
CUT = {"documents": BATCH, "latency": "10s"}
"""Only full batches, so that every run cuts them alike and indexes can be compared."""
STATIC: Settings = {
    "batch": CUT,
    # A static member takes its place again at once: no session timeout to wait for.
    "kafka": {"session_timeout": "6s", "consumer": {"group.instance.id": "one"}},
}


def texts(rng: random.Random, count: int, *, recent: int = 60) -> list[str]:
    """Return originals, edited copies and exact copies, in about equal numbers."""
    stories: list[list[str]] = []
    for _ in range(count):
        kind = rng.random()
        if stories and kind < 0.6:
            words = list(rng.choice(stories[-recent:]))
            if kind < 0.35:
                words[rng.randrange(len(words))] = f"x{rng.randrange(10_000)}"
        else:
            words = [f"w{rng.randrange(10_000)}" for _ in range(rng.randrange(30, 90))]
        stories.append(words)
    return [" ".join(words) for words in stories]


def record(number: int, text: str, *, partition: int = 0) -> Input:
    """Return the document ``d<number>`` with everything a record can have."""
    return Input(
        json.dumps({"id": f"d{number}", "text": text}).encode(),
        key=f"k{number}".encode(),
        partition=partition,
        headers=(("h", b"1"), ("h", None), ("n", str(number).encode())),
        timestamp=TIMESTAMP + number,
    )


def records(stories: Sequence[str], *, partitions: int = 1, first: int = 0) -> list[Input]:
    """Return a record for each story, over the partitions in turn."""
    return [record(first + n, text, partition=n % partitions) for n, text in enumerate(stories)]


def id_of(each: Record) -> str:
    assert each.value is not None
    return str(json.loads(each.value)["id"])


def verdicts(stage: Stage) -> dict[str, tuple[str, str | None]]:
    """Return id → (verdict, id of the match), and fail if an id came out twice or not at all."""
    outputs = stage.outputs()
    found = [(id_of(each), ("unique", None)) for each in outputs["unique"]]
    for each in outputs["duplicates"]:
        verdict = header(each, "__streamfilter.verdict")
        found.append((id_of(each), (verdict or "?", header(each, "__streamfilter.match.id"))))
    twice = sorted({name for name, _ in found if [n for n, _ in found].count(name) > 1})
    assert not twice, f"more than once: {twice}"
    return dict(found)


def bytes_of(stage: Stage) -> dict[str, list[tuple[object, ...]]]:
    """Return every output record by topic, free of what differs from stage to stage."""

    def plain(value: bytes | None) -> bytes | None:
        return None if value is None else value.replace(stage.group.encode(), b"GROUP")

    return {
        name: [
            (
                each.source.partition,
                each.key,
                each.value,
                tuple((key, plain(value)) for key, value in each.headers),
                each.timestamp,
            )
            for each in found
        ]
        for name, found in stage.outputs().items()
    }


def index_of(stage: Stage, state: str = "state") -> dict[tuple[str, bytes], bytes]:
    """Return everything that a closed index holds, but for how far into the changelog it came."""
    path = stage.directory / state
    identity = read_identity(path, seed=read_seed(stage.directory / "seed"))
    assert identity is not None
    index = open_index(path, identity)
    try:
        dump = {(kind, key): value for kind, key, value in index.dump() if kind != "progress"}
        progress = index.progress
    finally:
        index.close()
    told = (progress.positions, progress.next_batch, progress.next_ordinal)
    return {**dump, ("progress", b""): repr(told).encode()}


def finish(stage: Stage, settings: Settings = STATIC) -> str:
    """Run a filter to the end of the input, and stop it; return its log."""
    return stage.run(**settings)


def die_at(stage: Stage, point: str, settings: Settings = STATIC) -> None:
    """Run a filter until it passes a kill point."""
    process = stage.start(environment={VARIABLE: point}, **settings)
    assert process.wait_for_exit() == -9, process.with_log(f"did not die at {point}")


@contextmanager
def undisturbed_run(
    bootstrap: str, directory: Path, story: Sequence[Input], launch: Callable[..., Child]
) -> Iterator[Stage]:
    """Give a stage on which a filter has worked off *story*, and nothing went wrong."""
    stage = Stage(bootstrap, directory, launch=launch)
    try:
        stage.produce(story)
        finish(stage)
        yield stage
    finally:
        stage.close()


def assert_as_undisturbed(stage: Stage, undisturbed: Stage) -> None:
    """Hold everything that came of a story with faults to what came of it without any."""
    assert bytes_of(stage) == bytes_of(undisturbed)
    assert index_of(stage) == index_of(undisturbed)


def wipe(path: Path) -> None:
    """Remove a directory with everything in it, if it is there."""
    if path.exists():
        shutil.rmtree(path)
