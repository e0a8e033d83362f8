"""The contract of records on the wire: what leaves, where, byte for byte, with which evidence."""

import json
import random
import re
from collections import Counter

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, Producer
from confluent_kafka.admin import AdminClient

from streamfilter.engine.messages.forwarding import size_of
from streamfilter.model import Record
from streamfilter.process.health import State
from streamfilter.stops import Stop
from tests.engine.world import VALUES, World
from tests.kafka.story import TIMESTAMP, id_of
from tests.support.stage import Stage
from tests.support.topics import Input, create_topics, end_offsets, header

SEED = 20_261_125
SETTINGS = {"kafka": {"session_timeout": "6s"}}


def run(stage: Stage, **sections) -> None:
    stage.run(**{**SETTINGS, **sections})


def story(rng: random.Random, words: int = 60) -> str:
    return " ".join(f"w{rng.randrange(10_000)}" for _ in range(words))


def document(id_: str, text: str, **rest) -> Input:
    value = json.dumps({"id": id_, "text": text}, ensure_ascii=False).encode()
    return Input(value, timestamp=TIMESTAMP, **rest)


def code(each: Record) -> str | None:
    return header(each, "__streamfilter.error.code")


def any_record(rng: random.Random, number: int) -> Input:
    """Return a unique document with keys and headers of every kind."""
    headers = tuple(
        (
            rng.choice(["a", "b", "\u00e9", "__streamfilter.id", ""]),
            rng.choice([None, b"", b"\x00\xff", rng.randbytes(9)]),
        )
        for _ in range(rng.randrange(5))
    )
    fields = {"id": f"d{number}", "text": story(rng), "more": {"x": [1, None, "\u20ac"]}}
    return Input(
        json.dumps(fields, ensure_ascii=bool(rng.randrange(2))).encode(),
        key=rng.choice([None, b"", b"k", rng.randbytes(5)]),
        partition=rng.randrange(3),
        headers=headers,
        timestamp=TIMESTAMP + rng.randrange(-10_000, 10_000),
    )


def test_a_unique_record_leaves_byte_for_byte_in_its_partition_and_order(make_stage):
    stage = make_stage(partitions=3)
    rng = random.Random(SEED)
    sent = [any_record(rng, n) for n in range(150)]
    stage.produce(sent)
    run(stage, batch={"documents": 7})
    came = [
        (r.source.partition, r.key, r.value, r.headers, r.timestamp)
        for r in stage.outputs()["unique"]
    ]
    wanted = [
        (i.partition, i.key, i.value, i.headers, i.timestamp)
        for partition in range(3)
        for i in sent
        if i.partition == partition
    ]
    assert came == wanted, f"seed {SEED}"
    assert group_lag(stage) == {stage.input: 0, stage.changelog: 1}, "a marker counts as a record"


def group_lag(stage: Stage) -> dict[str, int]:
    """Return what other tools see of the group's lag, by topic."""
    admin = AdminClient({"bootstrap.servers": stage.bootstrap})
    wanted = [ConsumerGroupTopicPartitions(stage.group)]
    found = admin.list_consumer_group_offsets(wanted)[stage.group].result(20).topic_partitions
    lag: Counter[str] = Counter()
    for each in found:
        lag[each.topic] += end_offsets(stage.bootstrap, each.topic)[each.partition] - each.offset
    return dict(lag)


def test_what_the_outputs_cannot_take_is_a_reference_and_never_blocks(stage: Stage) -> None:
    """Limits of 2,000 bytes on the outputs: found before the transaction, or it would abort."""
    small = {name: f"{name}.small" for name in (stage.unique, stage.duplicates, stage.dead_letter)}
    create_topics(
        stage.bootstrap, dict.fromkeys(small.values(), 1), config={"max.message.bytes": "2000"}
    )
    rng = random.Random(SEED)
    fits, wide = story(rng, 250), story(rng, 600)
    stage.produce([document("a", fits), document("b", fits), document("c", wide, key=b"c")])
    stage.produce([document(f"n{n}", story(rng, 150)) for n in range(30)])
    stage.unique, stage.duplicates, stage.dead_letter = small.values()
    run(stage)
    outputs = stage.outputs()
    assert [id_of(r) for r in outputs["unique"]] == ["a", *(f"n{n}" for n in range(30))]
    (duplicate,) = outputs["duplicates"]
    assert duplicate.value is not None
    assert json.loads(duplicate.value)["matches"][0]["id"] == "a"
    (letter,) = outputs["dead_letter"]
    assert (letter.key, letter.value, code(letter)) == (b"c", None, "too_large")
    assert int(header(letter, "__streamfilter.error.value_bytes") or 0) > 2_000


@pytest.mark.parametrize("names", ["a" * 40, "\u00e9" * 20], ids=["ascii", "accents"])
def test_the_size_of_a_record_is_that_by_which_brokers_refuse_it(stage: Stage, names: str) -> None:
    """A record with many headers was a dead letter, and 13 kB smaller than what an output takes."""
    topic, most = f"{stage.unique}.{len(names)}", 20_000
    create_topics(stage.bootstrap, {topic: 1}, config={"max.message.bytes": str(most)})
    headers = tuple((f"{names}{n}", b"v" * n) for n in range(100))
    room = most - size_of(b"key", None, headers)
    value = b"x" * (room - 2)  # its length takes two bytes more than that of no value
    assert size_of(b"key", value, headers) == most
    said = list[object]()
    producer = Producer({"bootstrap.servers": stage.bootstrap, "message.max.bytes": 1_000_000})
    for more in (b"", b"12345"):
        producer.produce(
            topic, value + more, b"key", headers=[*headers],
            on_delivery=lambda error, _: said.append(error and error.code()),
        )  # fmt: skip
        producer.flush(60)
    assert said == [None, KafkaError.MSG_SIZE_TOO_LARGE]


def test_too_many_dead_letters_stop_the_intake_and_say_so(caplog):
    world = World(values=[b"{"] * 300, batch=50)
    world.turn(20)
    status = world.health.status
    assert (status.state, world.health.ready) == (State.PAUSED_DEAD_LETTERS, False)
    example = r"could not be read.* such as in/0 at \d+ \(invalid_json: .+\); look at the dead"
    assert re.search(example, status.detail)
    (said,) = [each for each in caplog.records if "paused:dead_letters: " in each.getMessage()]
    assert (said.levelname, status.detail in said.getMessage()) == ("WARNING", True)
    taken = len(world.result())
    assert 0 < taken < 300
    world.turn(20)
    assert len(world.result()) == taken


def test_without_a_dead_letter_topic_the_first_broken_record_stops_the_process() -> None:
    world = World(values=[VALUES[0], b"{"], dead=None)
    with pytest.raises(Stop) as stop:
        world.turn(9)
    assert "output.dead_letter is not configured" in str(stop.value)
    assert (stop.value.exit_code, world.result()) == (78, [])
