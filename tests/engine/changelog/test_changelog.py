"""The changelog's bytes: what is written is read back, and anything else is refused."""

import random
from hashlib import blake2b

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamfilter.engine.messages import changelog
from streamfilter.engine.messages.changelog import BatchRecord, Update
from streamfilter.engine.messages.changelog_header import (
    AGED,
    BATCH,
    BEGIN,
    DATED,
    DOCUMENT,
    END,
    FORGET,
    HEADER,
    NAMED,
    NUMBER_MAX,
    REWRITING,
    SUCCESSOR,
    VERSION,
    Header,
    Successor,
    decode_header,
    decode_successor,
    encode_header,
    kind_of,
)
from streamfilter.index.ages import Ages, ages_of
from streamfilter.index.directory.identity import decode_identity
from streamfilter.index.errors import FormatError
from streamfilter.index.format import encode_documents, recorded
from streamfilter.index.input_table import InputTable, Seed, table_of
from streamfilter.index.journal import decode_mark, encode_mark
from streamfilter.index.protocol import Additions, Documents
from streamfilter.model import BatchMark, InputTopic, Span, Window
from streamfilter.similarity.columns import Widths
from streamfilter.stops import Stop
from tests.index import samples
from tests.index.samples import identity
from tests.support.cases import cases
from tests.support.columns import same_columns
from tests.support.values import replace

SLOTS = 16
MOST = NUMBER_MAX


def documents(seed: int, count: int) -> Documents:
    rng = random.Random(seed)
    return samples.documents(sorted(rng.sample(range(2**39), count)), seed=seed)


@cases("seed", range(5))
def test_documents_are_read_back_as_they_were_written(seed: int) -> None:
    written = documents(seed, 20)
    values = changelog.encode_changelog_documents(written)
    back, stored = changelog.decode_changelog_documents(values, Widths(SLOTS))
    assert same_columns(back, written)
    assert stored == encode_documents(written)


def test_the_index_stores_the_very_bytes_that_the_changelog_carries() -> None:
    given_ = documents(6, 20)
    additions = recorded(Additions(given_, np.zeros((20, 4), np.uint64)))
    update = Update.encoded(BatchRecord(BatchMark(0, 0, 20), -1), additions=additions)
    kept = update.additions
    assert kept is not None
    assert kept.records == encode_documents(given_)
    assert all(map(bytes.endswith, update.values, kept.records))
    some = kept.at(np.array([17, 3, 4]))  # of several windows each stores its own
    assert some.records == encode_documents(some.documents)


spans = st.dictionaries(
    st.integers(0, 2**32 - 1), st.tuples(st.integers(0, 2**62), st.integers(0, 2**62)), max_size=9
).map(lambda found: tuple(Span(p, min(a), max(a)) for p, a in found.items()))
numbers = st.integers(0, 2**63 - 1)
OURS = changelog.writer_of("ab" * 16, "ours")
writers = st.sampled_from((b"", OURS))


@pytest.mark.slow
@given(numbers, numbers, numbers, spans, st.integers(-1, 2**62), writers, st.data())
def test_a_batch_is_read_back_as_it_was_written(number, one, other, some, highest, writer, data):
    first, following = min(one, other), max(one, other)
    batch = BatchRecord(BatchMark(number, first, following, some), highest, writer)
    assert changelog.decode_batch(changelog.encode_batch(batch)) == batch
    if writer and highest >= 0:
        horizon = data.draw(st.integers(0, first))
        mark = BatchMark(number, first, following, some, horizon, highest)
        aged = replace(batch, mark=mark)
        assert changelog.decode_batch(changelog.encode_batch(aged)) == aged
        assert aged.progress(1, b"").horizon == horizon


def test_the_largest_numbers_are_read_back_and_larger_ones_refused() -> None:
    assert np.iinfo(np.int64).max == MOST, "the columns"
    largest = BatchRecord(BatchMark(MOST, MOST, MOST, ()), -1, b"")
    assert changelog.decode_batch(changelog.encode_batch(largest)) == largest
    for mark in (BatchMark(MOST + 1, 0, 0, ()), BatchMark(0, 0, MOST + 1, ())):
        with pytest.raises(FormatError, match="impossible numbers"):
            changelog.decode_batch(changelog.encode_batch(BatchRecord(mark, -1, b"")))


@pytest.mark.slow
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 1_000), st.integers(0, 2**40),
                          st.integers(0, 2**40)), min_size=1, max_size=30))  # fmt: skip
def test_a_batch_says_of_each_document_when_it_came_and_what_was_forgotten_then(steps) -> None:
    partitions, offsets, horizons, times = (
        np.cumsum(column) for column in zip(*steps, strict=True)
    )
    ages = Ages(partitions, offsets, horizons, times)
    begin, end, gone, time = (
        int(offsets[0]) // 2,
        int(offsets[-1]),
        int(horizons[-1]),
        int(times[-1]),
    )
    spans = tuple(
        Span(p, begin if p in partitions else end, end + (p in partitions))
        for p in range(int(partitions[-1]) + 2)
    )
    first = 2**42
    mark = BatchMark(7, first, first + len(steps), spans, gone, time, ages.encoded(spans))
    batch = BatchRecord(mark, time, OURS)
    value = changelog.encode_batch(batch)
    assert value[0] == DATED
    assert changelog.decode_batch(value) == batch
    found = ages_of(batch.stored_mark)
    assert found is not None
    for name in ("partitions", "offsets", "horizons", "times"):
        assert getattr(found, name).tolist() == getattr(ages, name).tolist()
    assert found.horizons_at(partitions, offsets).tolist() == horizons.tolist()
    assert decode_mark(7, encode_mark(mark)) == mark
    for wrong in (value[:-1], value + b"\0", bytes([AGED]) + value[1:]):
        with pytest.raises(FormatError):
            changelog.decode_batch(wrong)


def test_a_batch_that_ends_before_its_documents_is_refused() -> None:
    ages = Ages(*np.array([[0], [4], [3], [9]]))
    mark = BatchMark(3, 5, 6, (Span(0, 4, 5),), 3, 9, ages.encoded((Span(0, 4, 5),)))
    assert changelog.decode_batch(changelog.encode_batch(BatchRecord(mark, 9, OURS))).mark == mark
    beyond = Ages(*np.array([[0], [4], [7], [9]])).encoded((Span(0, 4, 5),))
    for late in (replace(mark, ages=beyond), replace(mark, stream_time=8)):
        with pytest.raises(FormatError, match="dates its documents after its end"):
            changelog.decode_batch(
                changelog.encode_batch(BatchRecord(late, late.stream_time, OURS))
            )
    empty = replace(mark, next_ordinal=5)
    with pytest.raises(FormatError, match="dates no documents"):
        changelog.decode_batch(changelog.encode_batch(BatchRecord(empty, 9, OURS)))


def test_a_batch_of_before_is_the_same_bytes_still_and_names_no_one() -> None:
    batch = BatchRecord(BatchMark(3, 5, 6, (Span(1, 4, 9),)), 7)
    value = changelog.encode_batch(batch)
    told = ("0300000000000000", "0500000000000000", "0600000000000000", "0700000000000000",
            "01000000", "01000000", "0400000000000000", "0900000000000000")  # fmt: skip
    assert value == bytes([1, BATCH]) + bytes.fromhex("".join(told))
    named = changelog.encode_batch(replace(batch, writer=OURS))
    assert named == bytes([2, BATCH]) + OURS + value[2:]
    others = {changelog.writer_of("ab" * 16, "other"), changelog.writer_of("cd" * 16, "ours")}
    assert len(others | {OURS}) == 3


def test_a_batch_of_an_index_that_forgets_says_so_behind_the_bytes_of_before() -> None:
    mark = BatchMark(3, 5, 6, (Span(1, 4, 9),))
    named = changelog.encode_batch(BatchRecord(mark, 7, OURS))
    aged = BatchRecord(replace(mark, horizon=4, stream_time=7), 7, OURS)
    value = changelog.encode_batch(aged)
    assert value == bytes([3]) + named[1:] + (4).to_bytes(8, "little")
    assert changelog.record_hash(value) != blake2b(value, digest_size=16).digest()
    impossible = (7, 7, named), (4, -1, changelog.encode_batch(BatchRecord(mark, -1, OURS)))
    for horizon, highest, before in impossible:
        assert changelog.decode_batch(before).highest_timestamp == highest
        with pytest.raises(FormatError, match="forgets what was not judged, or at no time"):
            changelog.decode_batch(bytes([3]) + before[1:] + horizon.to_bytes(8, "little"))


def test_a_version_that_names_no_one_does_not_find_its_last_record_in_ours() -> None:
    """It knew the hash alone, and would write batches behind ours that no one may believe."""
    mark = BatchMark(7, 3, 5, (Span(0, 1, 4),))
    named = changelog.encode_batch(BatchRecord(mark, 9, OURS))
    before = changelog.encode_batch(BatchRecord(mark, 9))
    assert changelog.record_hash(named) != blake2b(named, digest_size=16).digest()
    assert changelog.record_hash(before) == blake2b(before, digest_size=16).digest()


def test_a_batch_tells_every_position_but_the_index_keeps_only_spans_with_offsets() -> None:
    batch = BatchRecord(BatchMark(3, 5, 6, (Span(0, 7, 9), Span(1, 4, 4))), -1)
    assert batch.positions == {0: 9, 1: 4}
    assert batch.stored_mark == BatchMark(3, 5, 6, (Span(0, 7, 9),))


def test_a_header_carries_the_identity_whose_changelog_it_is_and_its_bucket_cap() -> None:
    value = encode_header(Header(identity().encode(), "ours", 5))
    assert kind_of(value) == HEADER
    told = decode_header(value)
    assert decode_identity(told.identity) == identity()
    assert (told.group, told.bucket_cap) == ("ours", 5)


def test_a_header_of_before_is_read_and_says_neither() -> None:
    value = bytes([1, HEADER]) + identity().encode()
    told = decode_header(value)
    assert decode_identity(told.identity) == identity()
    assert (told.group, told.bucket_cap) == ("", 0)


def test_a_header_that_begins_a_window_says_which_and_is_otherwise_that_of_before() -> None:
    first = encode_header(Header(identity().encode(), "ours", 5))
    window = Window(3, 70, 9)
    value = encode_header(Header(identity().encode(), "ours", 5, window))
    assert value != first
    told = decode_header(value)
    assert decode_identity(told.identity) == identity()
    assert (told.group, told.bucket_cap, told.window) == ("ours", 5, window)
    assert decode_header(first).window is None
    batch = BatchRecord(BatchMark(9, 70, 70, (Span(0, 1, 1),)), 7)
    opens = Update.encoded(batch, Header(identity().encode(), "ours", 5, window)).changes(20).opens
    assert opens == replace(window, offset=19), "its header comes right before the batch"


def test_a_successor_after_the_batch_changes_nothing_of_its_write() -> None:
    batch = BatchRecord(BatchMark(9, 70, 70, (Span(0, 1, 1),)), 7)
    header = Header(identity().encode(), "ours", 5, Window(3, 70, 9))
    plain = Update.encoded(batch, header)
    succeeded = Update.encoded(batch, header, successor=Successor("other", "ab" * 16))
    assert decode_successor(succeeded.values[-1]) == Successor("other", "ab" * 16)
    assert succeeded.values[:-1] == plain.values
    assert succeeded.changes(20) == plain.changes(19)
    assert len(succeeded.places) == len(succeeded.values)


@cases("body", [b"", b"{}", b"[]", b'["a"]', b'["", "b"]', b"[1, 2]", b"[[[", b"\xff"])
def test_a_successor_record_without_a_group_is_refused(body: bytes) -> None:
    with pytest.raises(FormatError, match="names no group"):
        decode_successor(bytes([1, SUCCESSOR]) + body)


@pytest.mark.parametrize("part", [BEGIN, END])
def test_a_header_of_what_is_written_anew_has_a_version_that_older_readers_refuse(part):
    value = encode_header(Header(identity().encode(), "ours", 5, Window(3, 70, 9), part))
    assert value.startswith(REWRITING)
    assert value[0] == DATED + 1, "what comes after the last one that they know"
    told = decode_header(value)
    assert (told.group, told.window, told.anew) == ("ours", Window(3, 70, 9), part)
    for version in (VERSION, DATED):
        with pytest.raises(FormatError):
            decode_header(bytes([version]) + value[1:])
    with pytest.raises(FormatError, match="is the part ''"):
        decode_header(REWRITING + identity().encode())


@cases(
    ("field", "impossible"),
    [("window", each) for each in
     ("7", "[]", "[1,2]", "[1,2,3,4]", "[0,0,0]", "[1,-1,0]", "[1,0,-1]", "[1,0,true]",
      "[1,0,1.5]", "[1,0,9223372036854775808]", "[1,1099511627777,0]", '{"1":2}')]
    + [("bucket_cap", each) for each in ("256", "-1", "true", '"8"', "1e999", "null")],
)  # fmt: skip
def test_a_header_with_an_impossible_field_is_refused(field: str, impossible: str) -> None:
    with pytest.raises(FormatError, match=f"a header record has the {field}"):
        decode_header(bytes([1, HEADER]) + f'{{"{field}":{impossible}}}'.encode())


TOPICS = InputTable((InputTopic("b", "id of b", 2), InputTopic("a", "", 1)))


def test_a_header_tells_the_numbers_of_several_topics_and_one_of_one_topic_is_as_it_was() -> None:
    grown = TOPICS.extended([InputTopic("a", "id of a", 2), InputTopic("0", "", 1)])
    for table in (TOPICS, grown):
        value = encode_header(Header(identity().encode(), "ours", 5, inputs=table))
        assert decode_header(value).inputs == table
        assert value[0] == 6
    assert grown.spots == [("b", 0), ("b", 1), ("a", 0), ("0", 0), ("a", 1)]
    assert grown.topics["a"] == InputTopic("a", "id of a", 2)
    alone = encode_header(Header(identity().encode(), "ours", 5))
    assert alone[0] == 1
    assert b"inputs" not in alone
    with pytest.raises(Stop, match="more than 64536 partitions"):
        TOPICS.extended([InputTopic("a", "", 65_536)])


@cases(
    "table", ["null", "{}", "[1]", "[[]]", '[["a","",0]]', '[["a","",-1]]', '[["","",1]]',
              '[["a",null,1]]', '[["a","",true]]', '[["a","",65537]]', '[["a","",1.0]]',
              '[["a","",65536],["b","",1]]', '[["a","",1,2]]']
)  # fmt: skip
def test_a_header_with_an_impossible_table_is_refused(table: str) -> None:
    with pytest.raises(FormatError, match="a table of input topics"):
        decode_header(bytes([6, HEADER]) + f'{{"inputs":{table}}}'.encode())
    with pytest.raises(FormatError):
        table_of(table.encode())


@given(st.binary(max_size=200))
def test_garbage_is_refused_and_never_anything_but_a_format_error(value: bytes) -> None:
    readers = (changelog.decode_batch, decode_header, changelog.decode_forgotten)
    for read in (kind_of, *readers):
        try:
            read(value)
        except FormatError:
            continue
        assert value[0] in (VERSION, NAMED, AGED)
    try:
        changelog.decode_changelog_documents([value], Widths(SLOTS))
    except FormatError:
        return
    assert value[:2] == bytes([VERSION, DOCUMENT])


def test_every_truncation_and_extension_of_a_record_is_refused() -> None:
    for writer, age in ((b"", (0, -1)), (OURS, (0, -1)), (OURS, (1, 4))):
        batch = BatchRecord(BatchMark(1, 2, 3, (Span(0, 1, 2),), *age), 4, writer)
        value = changelog.encode_batch(batch)
        for cut in range(len(value)):
            with pytest.raises(FormatError):
                changelog.decode_batch(value[:cut])
        with pytest.raises(FormatError):
            changelog.decode_batch(value + b"\0")
    (value,) = changelog.encode_changelog_documents(documents(1, 1))
    for cut in range(len(value)):
        with pytest.raises(FormatError):
            changelog.decode_changelog_documents([value[:cut]], Widths(SLOTS))


@cases("count", [1, 2, 1_000, 1_001, 2_500])
def test_what_a_batch_forgets_is_read_back_in_records_of_bounded_size(count: int) -> None:
    ordinals = np.array(sorted(random.Random(count).sample(range(2**40), count)), np.int64)
    values = changelog.encode_forgotten(ordinals)
    assert len(values) == -(-count // 1_000)
    assert max(map(len, values)) <= 8_002
    assert np.concatenate([*map(changelog.decode_forgotten, values)]).tolist() == ordinals.tolist()
    assert {kind_of(value) for value in values} == {FORGET}


@cases("body", ["", "00" * 7, "00" * 9, "01" + "00" * 15, "00" * 16, "ff" * 8])
def test_a_record_that_forgets_no_one_or_the_impossible_is_refused(body: str) -> None:
    with pytest.raises(FormatError, match="forg"):
        changelog.decode_forgotten(bytes([1, FORGET]) + bytes.fromhex(body))


def test_a_header_with_seeds_has_their_version_and_says_how_far_each_was_read() -> None:
    table = TOPICS.seeded([Seed("a.jsonl"), Seed("b.jsonl", "", 7, 6, "f0")])
    value = encode_header(Header(identity().encode(), "ours", 5, inputs=table))
    assert value[0] == 7
    assert decode_header(value).inputs == table
    assert table_of(table.encode()) == table
    assert table.by_number[65_534].position == 7
    assert table.seeded([Seed("b.jsonl")]) == table, "a known seed keeps its position"
    with pytest.raises(FormatError, match="has 2 seeds"):
        decode_header(b"\x06" + value[1:])
    with pytest.raises(Stop, match="an index takes 1000 seeds"):
        table.seeded(Seed(str(n)) for n in range(999))
    with pytest.raises(Stop, match="was another one: a file, not id"):
        table.seeded([Seed("a.jsonl", "id")])


def test_another_version_is_named_in_the_refusal() -> None:
    value = changelog.encode_batch(BatchRecord(BatchMark(0, 0, 0), -1))
    with pytest.raises(FormatError, match="version 8; this streamfilter reads"):
        kind_of(b"\x08" + value[1:])
    for version in (2, 3, 4):
        with pytest.raises(FormatError, match=f"type 1 has no version {version}"):
            kind_of(bytes([version, HEADER]) + value[2:])
    with pytest.raises(FormatError, match="unknown type 9"):
        kind_of(value[:1] + b"\x09" + value[2:])


def test_a_batch_that_contradicts_itself_is_refused() -> None:
    for mark in (BatchMark(0, 3, 2), BatchMark(0, 0, 0, (Span(0, 5, 4),)),
                 BatchMark(0, 0, 0, (Span(1, 0, 1), Span(1, 1, 2)))):  # fmt: skip
        with pytest.raises(FormatError):
            changelog.decode_batch(changelog.encode_batch(BatchRecord(mark, -1)))
