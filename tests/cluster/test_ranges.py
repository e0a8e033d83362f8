import random

import msgspec
import numpy as np
import pytest

from streamfilter.cluster.acceptance import Acceptance, acceptance
from streamfilter.cluster.ranges import (
    BadRange,
    SketchRange,
    VerdictRange,
    decode_sketches,
    decode_verdicts,
    encode_sketches,
    encode_verdicts,
    in_messages,
)
from streamfilter.index.input_table import NUMBERS_MAX
from streamfilter.matching.verdict.decision import SHORT, UNIQUE
from streamfilter.model import (
    Decision,
    ErrorCode,
    Malformed,
    Match,
    Reason,
    Source,
    Unjudged,
    Verdict,
)
from streamfilter.similarity.scheme import Scheme
from streamfilter.similarity.sketch import Sketcher, Sketches
from tests.support.cases import cases
from tests.support.values import replace

SCHEME = Scheme(20, 5)
SKETCHER = Sketcher(SCHEME, seed=bytes(16))
MARK = bytes(range(16))
TEXTS = [" ".join(f"w{n * k % 97}" for n in range(1, 40)) for k in range(1, 6)]
OTHERS = {
    1: Unjudged(Verdict.PASSTHROUGH, Reason.TOMBSTONE, ("a\ud800", "")),
    4: Malformed(ErrorCode.WRONG_TYPE, "a list \0 where", "read"),
}


def sketched(texts: list[str]) -> Sketches:
    return SKETCHER.sketch(texts)


def whole() -> SketchRange:
    offsets = np.array([10, 12, 13, 17, 18, 20, 21], np.int64)
    ids = [f"d{n}" for n in range(4)] + ["lone \udc00 and \0"]
    stamps = np.arange(7) * 1_000 - 1
    return SketchRange(MARK, 3, 10, 25, offsets, stamps, ids, OTHERS, sketched(TEXTS))


def read(data: bytes, scheme: Scheme = SCHEME) -> SketchRange:
    return decode_sketches(data, MARK, scheme.widths, fields=bool(scheme.fields))


def test_a_sketch_range_comes_back_with_keys_computed_anew():
    one, back = whole(), read(encode_sketches(whole()))
    assert back.sketches is not None
    assert one.sketches is not None
    keys = SKETCHER.keys_of(back.sketches.contents)
    assert (keys == one.sketches.keys).all()
    assert (back.offsets == one.offsets).all()
    assert (back.timestamps == one.timestamps).all()
    assert (back.ids, back.others, back.start, back.end) == (one.ids, OTHERS, 10, 25)


def test_a_range_in_parts_covers_the_same_offsets_without_a_gap():
    parts = in_messages(whole(), encode_sketches, 700)
    assert len(parts) > 2
    read_back = [read(message) for _, message in parts]
    assert [each.end for each in read_back][:-1] == [each.start for each in read_back][1:]
    assert (read_back[0].start, read_back[-1].end) == (10, 25)
    assert [o for each in read_back for o in each.offsets.tolist()] == whole().offsets.tolist()
    assert [i for each in read_back for i in each.ids] == whole().ids


def test_a_row_is_encoded_twice_however_many_messages_a_range_becomes():
    written = []

    def encode(one: VerdictRange) -> bytes:
        written.append(data := encode_verdicts(one))
        return data

    rows = np.arange(4_000)
    parts = in_messages(VerdictRange(MARK, 0, 4_000, rows, [UNIQUE] * 4_000), encode, 700)
    assert len(parts) > 2
    assert max(len(message) for _, message in parts) <= 700
    assert len(written) == 1 + len(parts)


@cases(
    ("start", "end", "found"),
    [
        (4, 10, "below"), (4, 12, "counts"), (10, 12, "counts"), (11, 12, "gap"),
        (10, 10, "below"), (9, 9, "below"), (12, 12, "gap"),
    ],
)  # fmt: skip
def test_what_becomes_of_a_range_if_10_comes_next(start, end, found):
    assert acceptance(start, end, 10) is Acceptance(found)


MATCH = Match("m\udc00", 0.8125, 3, Source("in", 2, 7), 5, 1.0)
SEEDED = Source("old.jsonl", NUMBERS_MAX - 1, 17)  # no edge has the table of seeds
OUTCOMES = [
    UNIQUE,
    Decision(Verdict.NEAR_DUPLICATE, (MATCH, replace(MATCH, containment=None)), "sampled_jaccard",
             True, 1e-9),
    Decision(Verdict.EXACT_DUPLICATE, (replace(MATCH, similarity=1.0),), "exact_text"),
    Decision(Verdict.EXACT_DUPLICATE, (replace(MATCH, source=SEEDED),), "exact_text"),
    SHORT["forward"],
    Unjudged(Verdict.DROPPED, Reason.EMPTY),
    Malformed(ErrorCode.TOO_DEEP, "65 levels", "read"),
]  # fmt: skip


def test_verdicts_come_back_to_the_bit():
    offsets = np.array([5, 6, 7, 8, 9, 11, 12])
    one = VerdictRange(MARK, 5, 14, offsets, OUTCOMES, {1: "own \ud800", 2: "b"})
    data = encode_verdicts(one)
    back = decode_verdicts(data, MARK, lambda n, offset: Source("in", n, offset))
    assert [*back.outcomes] == OUTCOMES
    assert [repr(each) for each in back.outcomes] == [repr(each) for each in OUTCOMES]
    assert {row: back.ids[row] for row in one.ids} == one.ids
    assert len(encode_verdicts(VerdictRange(MARK, 0, 900, np.arange(900), [UNIQUE] * 900))) < 1_000


def test_records_with_fields_keep_what_is_compared():
    contents = replace(whole().sketches.contents, payloads=[b"a", b"b", b"c", b"d", b"e"])
    one = replace(whole(), sketches=replace(whole().sketches, contents=contents))
    with pytest.raises(BadRange, match="another scheme"):
        read(encode_sketches(one))
    back = decode_sketches(encode_sketches(one), MARK, SCHEME.widths, fields=True)
    assert back.sketches.contents.payloads == contents.payloads


def spoilt() -> list[tuple[str, bytes]]:
    good = encode_sketches(whole())
    found = [
        ("undecodable", b""), ("undecodable", b"S"), ("undecodable", b"V\1"),
        ("undecodable", good[:-1]), ("undecodable", good + b"\0"), ("undecodable", b"S\1\xc1"),
        ("other_version", b"S\2" + good[2:]), ("other_index", good.replace(MARK, MARK[::-1])),
        ("undecodable", b"S\1" + b"\x91" * 50_000), ("undecodable", b"S\1\xdd\xff\xff\xff\xff"),
    ]  # fmt: skip
    fields = msgspec.msgpack.decode(good[2:])
    for place, value in (
        (1, -1), (2, -1), (2, 11), (3, 20), (3, 1 << 63), (4, b"\0" * 56), (4, b"\0" * 55),
        (5, b""), (6, []), (6, [b"x" * 70_000] * 5), (7, [[9, "dropped", "empty", b"", None, []]]),
        (7, [[1, "no such", "empty", b"", None, []]] * 2),
        (7, [[1, "dropped", "tombstone", b"", [b"a"], [b"scope"]]]),
        (8, b""), (8, b"SFK1" + b"\xff" * 33),
        (9, [b"a"]), (10, [-1]), (10, [4, 5]), (3, None), (0, b"short"),
    ):  # fmt: skip
        spoiled = [*fields]
        spoiled[place] = value
        fault = "other_index" if place == 0 else "undecodable"
        found.append((fault, b"S\1" + msgspec.msgpack.encode(spoiled)))
    return found


@cases(("fault", "data"), spoilt())
def test_hostile_bytes_are_refused_with_a_reason(fault, data):
    with pytest.raises(BadRange) as refused:
        read(data)
    assert refused.value.fault == fault


@pytest.mark.slow
def test_no_changed_byte_breaks_the_reader():
    rng, good = random.Random(1), encode_sketches(whole())
    for _ in range(3_000):
        data = bytearray(good)
        for _ in range(rng.choice((1, 1, 2, 8))):
            data[rng.randrange(len(data))] = rng.randrange(256)
        try:
            back = read(bytes(data))
        except BadRange:
            continue
        assert back.sketches is not None
        SKETCHER.keys_of(back.sketches.contents)  # what the index would store
        assert len(back.ids) == len(back.sketches)


def test_sketches_whose_samples_are_no_sets_are_refused():
    one = whole()
    samples = one.sketches.contents.samples
    bad = [
        replace(samples, tokens=samples.tokens[::-1].copy()),
        replace(samples, starts=samples.starts + 1),
        replace(samples, set_sizes=samples.set_sizes * 0),
    ]
    for each in bad:
        contents = replace(one.sketches.contents, samples=each)
        spoiled = replace(one, sketches=replace(one.sketches, contents=contents))
        with pytest.raises(BadRange, match="samples"):
            read(encode_sketches(spoiled))


def test_a_tombstone_keeps_its_scope_where_the_scheme_has_one():
    scoped = Scheme(20, 5, digests=("scope /tenant",))
    others = {0: replace(OTHERS[1], scope=("x",)), 1: replace(OTHERS[1], scope=(None,))}
    one = SketchRange(MARK, 0, 0, 2, np.arange(2), np.arange(2), (), others)
    assert read(encode_sketches(one), scoped).others == others
    with pytest.raises(BadRange, match="scopes of another scheme"):
        read(encode_sketches(one))
