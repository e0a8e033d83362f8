import random
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamfilter.index.errors import FormatError
from streamfilter.index.format import (
    Lists,
    decode_buckets,
    decode_documents,
    encode_buckets,
    encode_documents,
)
from streamfilter.index.journal import (
    StoredProgress,
    decode_mark,
    decode_span,
    decode_standing,
    encode_mark,
    encode_standing,
)
from streamfilter.index.progress import Progress
from streamfilter.index.protocol import Documents
from streamfilter.similarity.columns import Contents, Samples, Widths
from tests.index.samples import SLOTS, documents, mark
from tests.support.columns import columns_of, same_columns
from tests.support.values import replace

ORDINALS = list(range(0, 60, 3))


def test_documents_come_back_as_they_were_to_the_second() -> None:
    for seed in range(20):
        given_ = documents(ORDINALS, seed=seed, unsigned=[6, 9])
        values = encode_documents(given_)
        assert same_columns(decode_documents(given_.ordinals, values, Widths(SLOTS)), given_), seed


def test_no_documents_are_no_bytes() -> None:
    none = documents([1]).at(np.array([], np.intp))
    assert encode_documents(none) == []
    assert len(decode_documents(none.ordinals, [], Widths(SLOTS))) == 0


def test_a_record_takes_180_bytes_and_4_a_token_with_128_slots() -> None:
    one = Documents(
        ordinals=np.array([2**40 - 1]),
        ids=["doc-000042"],
        batches=np.array([2**32 - 1]),
        partitions=np.array([7]),
        offsets=np.array([2**50]),
        timestamps=np.array([1_700_000_000_000]),
        contents=Contents(
            fingerprints=np.arange(16, dtype=np.uint8).reshape(1, 16),
            signatures=np.arange(128, dtype=np.uint8).reshape(1, 128),
            samples=Samples(
                tokens=np.arange(1_024, dtype=np.uint32),
                starts=np.array([0, 1_024]),
                set_sizes=np.array([100_000]),
            ),
        ),
    )
    assert len(encode_documents(one)[0]) == 180 + 4 * 1_024


LATE = [2**32 - 1, 2**32, 2**32 + 7, 2**40 + 1, 2**48 - 1]
"""Numbers of batches: 50 a second reach 32 bits after 2.7 years, and ended with 70 then."""


def late(*, payloads: bool = False) -> Documents:
    """Documents of batches on both sides of 32 bits."""
    found = documents(range(len(LATE)))
    texts = [b"x" * n for n in range(len(LATE))] if payloads else ()
    contents = replace(found.contents, payloads=texts)
    return replace(found, batches=np.array(LATE), contents=contents)


@pytest.mark.parametrize("payloads", [False, True])
def test_a_batchs_number_has_48_bits_and_costs_nothing_below_33(payloads: bool) -> None:
    given_ = late(payloads=payloads)
    values = encode_documents(given_)
    assert same_columns(decode_documents(given_.ordinals, values, Widths(SLOTS)), given_)
    early = replace(given_, batches=given_.batches % 2**31)
    extra = [len(a) - len(b) for a, b in zip(values, encode_documents(early), strict=True)]
    assert extra == [0, 2, 2, 2, 2]
    without = [*values[:-1], values[-1][:-2] + b"\0\0"]
    with pytest.raises(FormatError, match="lacks a part of its batch's number"):
        decode_documents(given_.ordinals, without, Widths(SLOTS))


@pytest.mark.parametrize("given_", [documents([1, 2, 3]), late(), late(payloads=True)])
def test_every_truncation_and_every_extra_byte_is_refused(given_: Documents) -> None:
    values = encode_documents(given_)
    for end in range(len(values[1])):
        broken = [values[0], values[1][:end], *values[2:]]
        with pytest.raises(FormatError):
            decode_documents(given_.ordinals, broken, Widths(SLOTS))
    longer = [values[0], values[1] + b"\0", *values[2:]]
    with pytest.raises(FormatError):
        decode_documents(given_.ordinals, longer, Widths(SLOTS))


def test_digests_are_stored_and_without_them_no_byte_changes() -> None:
    given_ = documents(range(5))
    plain = encode_documents(given_)
    digests = np.arange(10, dtype=np.uint64).reshape(5, 2) << np.uint64(60)
    with_digests = replace(given_, contents=replace(given_.contents, digests=digests))
    values = encode_documents(with_digests)
    assert [len(value) for value in values] == [len(value) + 16 for value in plain]
    found = decode_documents(given_.ordinals, values, Widths(SLOTS, 2))
    assert same_columns(found, with_digests)
    assert (found.contents.digests == digests).all()
    with pytest.raises(FormatError):
        decode_documents(given_.ordinals, plain, Widths(SLOTS, 2))


def test_a_record_of_another_number_of_slots_is_refused() -> None:
    given_ = documents([1])
    for slots in (SLOTS - 1, SLOTS + 1, 128):
        with pytest.raises(FormatError):
            decode_documents(given_.ordinals, encode_documents(given_), Widths(slots))


@pytest.mark.parametrize(
    ("field", "value", "word"),
    [
        ("batches", 2**48, "batch"),
        ("batches", -1, "batch"),
        ("partitions", 2**16, "partition"),
        ("set_sizes", 2**32, "set_size"),
    ],
)
def test_a_number_that_does_not_fit_its_field_is_refused(field: str, value: int, word: str) -> None:
    broken = documents([1, 2])
    dict(columns_of(broken))[field][1] = value
    with pytest.raises(FormatError, match=word):
        encode_documents(broken)


def test_an_id_that_is_no_unicode_is_refused() -> None:
    broken = documents([1])
    broken.ids[0] = "half \ud83e"  # type: ignore[index]
    with pytest.raises(FormatError, match="Unicode"):
        encode_documents(broken)


@pytest.mark.slow
@given(data=st.data())
@settings(max_examples=300, deadline=None)
def test_changed_bytes_are_refused_or_read_as_a_value_that_means_them(data: st.DataObject) -> None:
    value = bytearray(data.draw(st.sampled_from(encode_documents(late()))))
    for _ in range(data.draw(st.integers(1, 4))):
        value[data.draw(st.integers(0, len(value) - 1))] = data.draw(st.integers(0, 255))
    try:
        read = decode_documents(np.array([5]), [bytes(value)], Widths(SLOTS))
    except FormatError:
        return
    assert encode_documents(read) == [bytes(value)]


@given(value=st.binary(max_size=200))
@settings(max_examples=300, deadline=None)
def test_garbage_is_refused_or_means_itself(value: bytes) -> None:
    with suppress(FormatError):
        assert encode_buckets(decode_buckets([value])) == [value]
    with suppress(FormatError):
        assert encode_mark(decode_mark(3, value)) == value
    try:
        standing = decode_standing(value)
    except FormatError:
        pass
    else:
        assert decode_standing(encode_standing(standing)) == standing
    with pytest.raises(FormatError):
        decode_span(value[:11], value)


def test_buckets_come_back_with_their_overflow_among_empty_ones() -> None:
    rng = random.Random(4)
    for _ in range(50):
        counts = [rng.randint(0, 8) for _ in range(20)]
        overflows = [rng.choice([0, 1, 2**32 - 1]) if count else 0 for count in counts]
        ordinals = [o for count in counts for o in sorted(rng.sample(range(2**40), count))]
        full = [count > 0 for count in counts]
        stored = Lists(
            np.array([c for c in counts if c]),
            np.array(ordinals, np.int64),
            np.array([o for o, there in zip(overflows, full, strict=True) if there]),
        )
        values = iter(encode_buckets(stored))
        read = decode_buckets([next(values) if there else None for there in full])
        assert read.counts.tolist() == counts
        assert read.ordinals.tolist() == ordinals
        assert read.overflows.tolist() == overflows


def test_a_bucket_that_turned_others_away_may_list_no_one() -> None:
    value = b"\7\0\0\0"
    lists = decode_buckets([None, value, b"\1\0\0\0\0", value])
    assert (lists.counts.tolist(), lists.overflows.tolist()) == ([0, 0, 1, 0], [0, 7, 0, 7])
    assert encode_buckets(lists)[1:] == [value, b"\1\0\0\0\0", value]


def test_a_bucket_costs_5_bytes_an_ordinal_and_4_once_it_was_full() -> None:
    lists = Lists(np.array([1, 2]), np.array([7, 7, 2**40 - 1]), np.array([0, 9]))
    assert [len(value) for value in encode_buckets(lists)] == [5, 14]


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"\1",
        b"\0\0\0\0",
        b"\1\0\0\0\0\0",
        b"\2\0\0\0\0" + b"\1\0\0\0\0",
        b"\1\0\0\0\0" * 2,
        b"\1\0\0\0\0" + b"\0\0\0\0",
        b"".join(i.to_bytes(5, "little") for i in range(256)),
    ],
    ids=["empty", "short", "a count of nobody", "6", "falling", "twice", "no overflow", "too many"],
)
def test_a_broken_bucket_is_refused(value: bytes) -> None:
    with pytest.raises(FormatError):
        decode_buckets([None, value, None])


@pytest.mark.parametrize("ordinal", [-1, 2**40])
def test_an_ordinal_beyond_5_bytes_is_refused(ordinal: int) -> None:
    with pytest.raises(FormatError, match="ordinal"):
        encode_buckets(Lists(np.array([1]), np.array([ordinal]), np.array([0])))


def test_progress_and_marks_come_back() -> None:
    for positions in (None, {}, {3: 9, 0: 2**60}):
        standing = StoredProgress(Progress(5, b"hash", positions, 6, 7, -1), 3, held=(3,))
        assert decode_standing(encode_standing(standing)) == standing
    given_ = mark(9, (0, 1, 5), (4, 2**40, 2**40), first=3, after=8)
    assert decode_mark(9, encode_mark(given_)) == given_


def test_a_truncated_mark_or_progress_is_refused() -> None:
    stored = encode_mark(mark(9, (0, 1, 5), (4, 2, 3)))
    standing = encode_standing(StoredProgress(Progress(5, b"hash", {0: 1, 2: 3})))
    for end in range(len(stored)):
        with pytest.raises(FormatError):
            decode_mark(9, stored[:end])
    for end in range(len(standing)):
        with pytest.raises(FormatError):
            decode_standing(standing[:end])
