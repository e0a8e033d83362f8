"""Two processes on one group: one works, one waits; killed, paused, sharing."""

import random
from collections.abc import Callable

from streamfilter.engine.messages import changelog
from streamfilter.engine.messages.changelog_header import BATCH, kind_of
from tests.kafka.story import records, texts, verdicts
from tests.support.stage import Stage
from tests.support.topics import Input, end_offsets, read_committed
from tests.support.values import replace

SEED = 20_261_123
SETTINGS = {
    "batch": {"documents": 25},
    "kafka": {"session_timeout": "2s", "transaction_timeout": "5s"},
}


def order_of_judgement(stage: Stage) -> list[tuple[int, int]]:
    """Return (partition, offset) of every input record in the order that the batch records tell."""
    order = []
    for each in read_committed(stage.bootstrap, stage.changelog):
        assert each.value is not None
        if kind_of(each.value) == BATCH:
            spans = changelog.decode_batch(each.value).mark.spans
            order += [(s.partition, o) for s in spans for o in range(s.start, s.end)]
    return order


def replayed(make_stage: Callable[..., Stage], stage: Stage) -> dict[str, tuple[str, str | None]]:
    """Return the verdicts of one undisturbed process on the same records in the committed order."""
    by_place = {
        (each.source.partition, each.source.offset): each
        for each in read_committed(stage.bootstrap, stage.input)
    }
    order = order_of_judgement(stage)
    assert sorted(order) == sorted(by_place)
    alone = make_stage()
    alone.produce(Input(by_place[place].value, key=by_place[place].key) for place in order)
    alone.run(**SETTINGS)
    return verdicts(alone)


def topics(stage: Stage) -> tuple[str, ...]:
    return stage.unique, stage.duplicates, stage.dead_letter, stage.changelog


def test_with_scope_partition_both_work_and_each_partition_is_a_scope_of_its_own(make_stage):
    stage = make_stage(partitions=2)
    settings = {**SETTINGS, "index": {"scope": "partition"}}
    pair = []
    for name in ("one", "another"):
        index = {"scope": "partition", "path": str(stage.directory / name)}
        index["seed_file"] = str(stage.directory / "seed")
        pair.append(stage.start(state=name, **{**settings, "index": index}))
    for process in pair:
        process.wait_for(
            lambda s: s.get("state") == "running" and len(s["tasks"]) == 1, what="one task each"
        )
    stories = texts(random.Random(SEED + 3), 100)
    both = records(stories) + records(stories, first=1_000)
    stage.produce(replace(each, partition=n // 100) for n, each in enumerate(both))
    for partition, n in end_offsets(stage.bootstrap, stage.input).items():
        key = f"{stage.input}/{partition}"
        pair[0].wait_for(
            lambda _, key=key, n=n: any(p.status()["positions"].get(key) == n for p in pair),
            what=f"the end of {key}",
        )
    assert [process.terminate() for process in pair] == [0, 0]
    found = verdicts(stage)
    for n in range(100):
        verdict, match = found[f"d{n}"]
        twin = None if match is None else f"d{int(match[1:]) + 1_000}"
        assert found[f"d{n + 1_000}"] == (verdict, twin)
