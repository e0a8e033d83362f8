"""The contract of records on the wire: what leaves, where, byte for byte, with which evidence."""

import json
import random
import re
from collections.abc import Callable

import pytest

from streamfilter.model import Record
from streamfilter.process.health import State
from streamfilter.stops import Stop
from tests.engine.world import VALUES, World
from tests.kafka.story import TIMESTAMP, id_of
from tests.support.stage import Stage
from tests.support.topics import Input, create_topics, header

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


def test_the_second_of_two_is_the_duplicate_in_a_batch_across_batches_restarts_and_partitions(
    make_stage: Callable[..., Stage],
) -> None:
    stage = make_stage(partitions=2)
    rng = random.Random(SEED)
    texts = [story(rng) for _ in range(4)]
    near = [f"{text} and a word more" for text in texts]
    # in one batch; across partitions of it: partition 0 is judged first
    stage.produce([document("a1", texts[0]), document("a2", near[0])])
    stage.produce([document("b1", texts[1]), document("b2", near[1], partition=1)])
    stage.produce([document("c1", texts[2])])
    run(stage)
    # across a restart, and across batches
    stage.produce([document("c2", near[2], partition=1), document("d1", texts[3])])
    run(stage, batch={"documents": 1})
    stage.produce([document("d2", near[3])])
    run(stage)
    # a repeated id is a document of its own
    stage.produce([document("a1", texts[0])])
    run(stage)
    outputs = stage.outputs()
    assert sorted(map(id_of, outputs["unique"])) == ["a1", "b1", "c1", "d1"]
    told = [
        (id_of(each), header(each, "__streamfilter.verdict"),
         header(each, "__streamfilter.match.id"))
        for each in outputs["duplicates"]
    ]  # fmt: skip
    assert sorted(told) == [
        ("a1", "exact_duplicate", "a1"),
        ("a2", "near_duplicate", "a1"),
        ("b2", "near_duplicate", "b1"),
        ("c2", "near_duplicate", "c1"),
        ("d2", "near_duplicate", "d1"),
    ]


def test_what_the_outputs_cannot_take_is_a_reference_and_never_blocks(stage: Stage) -> None:
    """Limits of 2,000 bytes on the outputs: found before the transaction, or it would abort."""
    small = {name: f"{name}.small" for name in (stage.unique, stage.duplicates, stage.dead_letter)}
    create_topics(
        stage.bootstrap, dict.fromkeys(small.values(), 1), config={"max.message.bytes": "2000"}
    )
    rng = random.Random(SEED)
    fits, wide = story(rng, 200), story(rng, 600)
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


def test_other_partition_counts_place_by_key_as_java_does(stage: Stage) -> None:
    wide = f"{stage.unique}.wide"
    create_topics(stage.bootstrap, {wide: 5})
    rng = random.Random(SEED)
    keys = [b"21", b"foobar", b"abc", b"a-little-bit-long-string"]
    stage.produce(document(key.decode(), story(rng), key=key) for key in keys)
    stage.unique = wide
    run(stage)
    # The hashes are those of Kafka's own tests (UtilsTest.testMurmur2).
    hashes = [-973932308, -790332482, 479470107, -985981536]
    wanted = {key: (value & 0x7FFFFFFF) % 5 for key, value in zip(keys, hashes, strict=True)}
    assert {r.key: r.source.partition for r in stage.outputs()["unique"]} == wanted


def test_how_duplicates_leave_is_configured(stage: Stage) -> None:
    """In shadow mode, then as envelopes; `test_forged_headers.py` holds what is in them."""
    text = story(random.Random(SEED))
    sent = [document("a", text), document("b", text, key=b"k"), document("c", text, key=b"l")]
    places = {"unique": stage.unique, "duplicates": stage.duplicates}
    stage.produce(sent[:2])
    run(stage, output={**places, "mode": "shadow"})
    stage.produce(sent[2:])
    run(stage, output={**places, "dead_letter": None, "duplicates_mode": "envelope"})
    outputs = stage.outputs()
    told = [(r.key, header(r, "__streamfilter.verdict")) for r in outputs["unique"]]
    assert told == [(None, "unique"), (b"k", "exact_duplicate")]
    (each,) = outputs["duplicates"]
    assert (each.key, json.loads(each.value or b"")["payload"].encode()) == (b"l", sent[2].value)


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
