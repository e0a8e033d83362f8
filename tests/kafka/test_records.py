"""The contract of records on the wire: what leaves, where, byte for byte, with which evidence."""

import json
import random
import re
from collections.abc import Callable

import pytest

from streamfilter.model import Record
from tests.kafka.story import TIMESTAMP, id_of, record, verdicts
from tests.support.stage import Stage
from tests.support.topics import Input, create_topics, header

SEED = 20_261_125
SETTINGS = {"kafka": {"session_timeout": "6s"}}


def run(stage: Stage, **sections) -> None:
    process = stage.start(**{**SETTINGS, **sections})
    stage.drain(process)
    assert process.terminate() == 0, process.told("did not end well")


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


def test_a_unique_record_leaves_byte_for_byte_in_its_partition_and_order(
    make_stage: Callable[..., Stage],
) -> None:
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


def deep(levels: int) -> bytes:
    return b'{"id":"x","text":"t","more":' + b"[" * levels + b"]" * levels + b"}"


POISON: dict[str, tuple[bytes | None, str]] = {
    "no JSON": (b"{", "invalid_json"),
    "an array": (b"[]", "wrong_type"),
    "no text": (b'{"id":"a"}', "missing_text"),
    "no id": (b'{"text":"some text"}', "missing_id"),
    "text is a number": (b'{"id":"a","text":5}', "wrong_type"),
    "id is an object": (b'{"id":{},"text":"some text"}', "wrong_type"),
    "bad UTF-8": (b'{"id":"a","text":"\xff"}', "bad_utf8"),
    "nested 1,000 deep": (deep(1_000), "too_deep"),
    "too large": (json.dumps({"id": "a", "text": "x " * 20_000}).encode(), "too_large"),
    "NaN in place of the text": (b'{"id":"a","text":NaN}', "wrong_type"),
    "nothing": (b"", "invalid_json"),
}


def test_poison_goes_to_the_dead_letters_with_its_code_and_disturbs_nothing(stage: Stage) -> None:
    rng = random.Random(SEED)
    good = [record(n, story(rng)) for n in range(20)]
    bad = [Input(value, key=name.encode(), headers=(("h", None), ("h", b"2")), timestamp=TIMESTAMP)
           for name, (value, _) in POISON.items()]  # fmt: skip
    mixed = [*good, *bad]
    rng.shuffle(mixed)
    stage.produce(mixed)
    run(stage, limits={"document": 20_000})
    outputs = stage.outputs()
    assert sorted(map(id_of, outputs["unique"])) == sorted(f"d{n}" for n in range(20))
    letters = {each.key.decode(): each for each in outputs["dead_letter"] if each.key}
    assert {name: code(each) for name, each in letters.items()} == {
        name: wanted for name, (_, wanted) in POISON.items()
    }
    for name, each in letters.items():
        assert each.value == POISON[name][0]
        assert each.headers[:2] == (("h", None), ("h", b"2"))
        offset = int(header(each, "__streamfilter.error.offset") or -1)
        assert mixed[offset].key == name.encode()
        assert header(each, "__streamfilter.error.topic") == stage.input
        assert header(each, "__streamfilter.error.stage") == "read"


def test_what_is_no_document_but_no_error_is_forwarded_unjudged(stage: Stage) -> None:
    tombstone = Input(None, key=b"gone", timestamp=TIMESTAMP)
    empty = [document(f"e{n}", text) for n, text in enumerate(["", "  \n", "\u200b"])]
    stage.produce([tombstone, *empty, tombstone])
    run(stage)
    outputs = stage.outputs()
    assert [(r.key, r.value) for r in outputs["unique"]] == [
        (b"gone", None), *((None, each.value) for each in empty), (b"gone", None)
    ]  # fmt: skip
    assert not outputs["duplicates"]
    assert not outputs["dead_letter"]


def test_what_no_pointer_reads_and_a_text_that_is_null_refuse_no_record(stage: Stage) -> None:
    rng = random.Random(SEED)
    texts = [story(rng) for _ in range(3)]
    values = [
        b'{"id":"a","text":null}',
        b'{"id":"b","score":NaN,"text":"%s"}' % texts[0].encode(),
        b'{"id":"c","name":"caf\xe9","text":"%s"}' % texts[1].encode(),
        b'{"id":"d","text":"%s \\ud83d"}' % texts[2].encode(),
        b'{"id":"e","text":null}',
    ]
    again = b'{"id":"f","score":-Infinity,"text":"%s \\udc00"}' % texts[0].encode()
    stage.produce([Input(value, timestamp=TIMESTAMP) for value in [*values, again]])
    run(stage)
    outputs = stage.outputs()
    assert [each.value for each in outputs["unique"]] == values
    assert [each.value for each in outputs["duplicates"]] == [again]
    assert not outputs["dead_letter"]


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


def test_a_duplicate_carries_its_evidence(stage: Stage) -> None:
    text = story(random.Random(SEED))
    stage.produce([document("a", text), document("b", text + " more", headers=(("x", None),))])
    run(stage)
    (each,) = stage.outputs()["duplicates"]
    assert each.headers[0] == ("x", None)
    assert header(each, "__streamfilter.schema") == "1"
    assert header(each, "__streamfilter.match.topic") == stage.input
    assert header(each, "__streamfilter.match.offset") == "0"
    assert header(each, "__streamfilter.source.offset") == "1"
    assert header(each, "__streamfilter.canonical.id") == "a"
    assert float(header(each, "__streamfilter.match.similarity") or 0) == pytest.approx(58 / 59)
    (match,) = json.loads(header(each, "__streamfilter.matches") or "")
    assert match["id"] == "a"
    assert match["bands"] >= 1
    assert len(header(each, "__streamfilter.scheme") or "") == 8


def test_a_duplicate_leaves_as_an_envelope_where_that_is_configured(stage: Stage) -> None:
    """What stands in it, and in a reference, is held by `test_forged_headers.py`."""
    text = story(random.Random(SEED))
    first, second = document("a", text), document("b", text, key=b"k")
    stage.produce([first, second])
    places = {"unique": stage.unique, "duplicates": stage.duplicates}
    run(stage, output={**places, "dead_letter": None, "duplicates_mode": "envelope"})
    (each,) = stage.outputs()["duplicates"]
    assert each.key == b"k"
    assert json.loads(each.value or b"")["payload"].encode() == second.value


def test_in_shadow_mode_everything_goes_to_the_unique_topic_annotated(stage: Stage) -> None:
    text = story(random.Random(SEED))
    sent = [document("a", text), document("b", text), Input(None, key=b"t", timestamp=TIMESTAMP)]
    stage.produce(sent)
    run(stage, output={"unique": stage.unique, "duplicates": stage.duplicates,
                       "dead_letter": stage.dead_letter, "mode": "shadow"})  # fmt: skip
    outputs = stage.outputs()
    assert [(r.key, r.value, header(r, "__streamfilter.verdict")) for r in outputs["unique"]] == [
        (None, sent[0].value, "unique"),
        (None, sent[1].value, "exact_duplicate"),
        (b"t", None, "passthrough"),
    ]
    assert not outputs["duplicates"]


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


def test_too_many_dead_letters_stop_the_intake_and_say_so(stage: Stage) -> None:
    stage.produce([Input(b"{", timestamp=TIMESTAMP) for _ in range(300)])
    process = stage.start(batch={"documents": 50}, **SETTINGS)
    status = process.wait_for_state("paused:dead_letters")
    assert "could not be read" in status["detail"]
    example = rf"such as {stage.input}/0 at \d+ \(invalid_json: .+\); look at the dead letters"
    assert re.search(example, status["detail"])
    assert not status["ready"]
    lines = map(json.loads, process.log.read_text().splitlines())
    (said,) = [each for each in lines if each["message"].startswith("paused:dead_letters: ")]
    assert said["level"] == "warning"
    assert re.search(example, said["message"])
    taken = len(stage.outputs()["dead_letter"])
    assert taken < 300
    assert process.terminate() == 0
    assert len(stage.outputs()["dead_letter"]) == taken


def test_without_a_dead_letter_topic_the_first_broken_record_stops_the_process(
    stage: Stage,
) -> None:
    stage.produce([document("a", story(random.Random(SEED))), Input(b"{", timestamp=TIMESTAMP)])
    process = stage.start(
        output={"unique": stage.unique, "duplicates": stage.duplicates, "dead_letter": None},
        **SETTINGS,
    )
    assert process.wait_for_exit() == 78
    assert "output.dead_letter is not configured" in process.log.read_text()
    assert verdicts(stage) == {}


def test_a_missing_topic_is_named_with_its_cure_and_nothing_is_created(stage: Stage) -> None:
    settings = {"unique": f"{stage.unique}.typo", "duplicates": stage.duplicates,
                "dead_letter": stage.dead_letter}  # fmt: skip
    process = stage.start(output=settings, **SETTINGS)
    assert process.wait_for_exit() == 78
    said = process.log.read_text()
    assert f"output.unique: topic '{stage.unique}.typo' does not exist" in said
    assert "--apply" in said
