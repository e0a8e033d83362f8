"""One suite for every implementation: what the pipeline may rely on."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamfilter.index.bands import bucket_writes as listing
from streamfilter.index.bands.bucket_overflow import DEPTH, cap_at
from streamfilter.index.directory.opening import open_index
from streamfilter.index.errors import FormatError
from streamfilter.index.format import name_of, whole_seconds
from streamfilter.index.progress import Progress
from streamfilter.index.protocol import Additions, Changes, Index
from streamfilter.model import Window
from tests.index.conftest import SMALL, MakeIndex
from tests.index.samples import add, buckets_of, documents, identity, keys_of, mark, removals
from tests.support.columns import same_columns
from tests.support.values import replace

PLACE = np.array([0], np.int64)


def test_an_empty_index_knows_nothing_and_has_not_begun(make_index: MakeIndex) -> None:
    index: Index = make_index()
    assert len(index) == 0
    assert index.progress == Progress()
    assert buckets_of(index, [1, 2, 1]) == [[], [], []]
    assert len(index.fetch(np.array([0, 5], np.int64))) == 0
    assert index.marks_covering(PLACE, PLACE) == [None]


def test_documents_with_a_key_are_listed_in_the_order_of_judgement(make_index: MakeIndex) -> None:
    index = make_index()
    add(index, [3, 4], keys_of([[1, 2, 3, 4], [1, 20, 30, 40]]))
    add(index, [9], keys_of([[1, 2, 300, 400]]))
    assert buckets_of(index, [1, 2, 3, 99]) == [[3, 4, 9], [3, 9], [3], []]
    assert len(index) == 3


def test_a_probe_answers_row_by_row_and_repeats_what_is_asked_twice(make_index: MakeIndex) -> None:
    index = make_index()
    add(index, [0, 1], keys_of([[1, 2, 3, 4], [1, 5, 6, 7]]))
    found = index.probe(np.array([[1, 9], [4, 1]], np.uint64))
    assert found.counts.tolist() == [[2, 0], [1, 2]]
    assert found.ordinals.tolist() == [0, 1, 0, 0, 1]


def test_a_key_that_is_not_present_is_not_read(make_index: MakeIndex) -> None:
    index = make_index()
    add(index, [0], keys_of([[0, 2, 3, 4]]))
    found = index.probe(np.array([[0, 2], [0, 4]], np.uint64), np.array([[0, 1], [1, 1]], bool))
    assert found.counts.tolist() == [[0, 1], [1, 1]]
    nothing = index.probe(np.zeros((2, 4), np.uint64), np.zeros((2, 4), bool))
    assert nothing.counts.shape == (2, 4)
    assert not nothing.counts.any()


def test_a_probe_of_no_documents_has_no_rows(make_index: MakeIndex) -> None:
    assert make_index().probe(np.zeros((0, 4), np.uint64)).counts.shape == (0, 4)


def test_a_copy_is_of_the_same_text_not_only_of_the_same_key(make_index: MakeIndex) -> None:
    index, everyone = make_index(), lambda rows, _: np.ones(len(rows), bool)
    add(index, [2, 5], keys_of([[1, 2, 3, 40], [5, 6, 7, 40]]))
    texts = documents([2, 5, 9]).contents.fingerprints[[1, 2, 0, 0]]
    keys, asked = np.array([40, 40, 41, 40], np.uint64), np.array([True, True, True, False])
    found = index.copies(keys, asked, texts, everyone)
    assert (found.rows.tolist(), found.ordinals.tolist()) == ([0], [5])
    assert not len(index.copies(keys[:0], asked[:0], texts[:0], everyone).rows)


def test_who_does_not_meet_its_original_is_no_copy(make_index: MakeIndex) -> None:
    index = make_index()
    add(index, [2, 5], keys_of([[1, 2, 3, 40], [5, 6, 7, 50]]))
    texts, keys = documents([2, 5]).contents.fingerprints, np.array([40, 50], np.uint64)
    met: list[tuple[int, int]] = []

    def forgotten(rows: Any, ordinals: Any) -> Any:
        met.extend(zip(rows.tolist(), ordinals.tolist(), strict=True))
        return ordinals > 2

    found = index.copies(keys, np.ones(2, bool), texts, forgotten)
    assert (found.rows.tolist(), found.ordinals.tolist()) == ([1], [5])
    assert sorted(met) == [(0, 2), (1, 5)]


def test_fetch_gives_back_what_was_added_and_leaves_out_what_was_not(make_index: MakeIndex) -> None:
    index, ordinals = make_index(), [2, 3, 7, 11]
    add(index, ordinals, keys_of([[i, i, i, i] for i in ordinals]))
    got = index.fetch(np.array([0, 3, 5, 11, 12], np.int64))
    assert got.ordinals.tolist() == [3, 11]
    want = documents([3, 11])
    assert got.timestamps.tolist() == [
        -1 if t < 0 else t // 1000 * 1000 for t in want.timestamps.tolist()
    ]
    assert same_columns(got, want)


def test_an_unsigned_document_is_found_by_its_fingerprint_only(make_index: MakeIndex) -> None:
    index = make_index()
    additions = Additions(documents([0, 1], unsigned=[1]), keys_of([[5, 6, 7, 8], [0, 0, 0, 9]]))
    index.apply(Changes(Progress(), additions))
    assert buckets_of(index, [0, 9, 8]) == [[], [1], [0]]


def test_a_known_ordinal_adds_nothing(make_index: MakeIndex) -> None:
    index = make_index(bucket_cap=2)
    rows = [[1, 2, 3, 4], [1, 5, 6, 7], [1, 8, 9, 10]]
    assert add(index, [0, 1, 2], keys_of(rows)).documents == 3
    before = list(index.dump())
    again = add(index, [0, 1, 2], keys_of(rows))
    assert (again.documents, again.overflows) == (0, 0)
    assert list(index.dump()) == before


def test_of_known_and_new_documents_only_the_new_are_added(make_index: MakeIndex) -> None:
    index = make_index()
    add(index, [0, 1], keys_of([[1, 2, 3, 4], [1, 5, 6, 7]]))
    additions = Additions(
        documents([1, 2]),
        keys_of([[1, 5, 6, 7], [1, 5, 60, 70]]),
        index.probe(keys_of([[1, 5, 6, 7], [1, 5, 60, 70]])),
    )
    assert index.apply(Changes(Progress(next_ordinal=3), additions)).documents == 1
    assert buckets_of(index, [1, 5, 6, 60]) == [[0, 1, 2], [1, 2], [1], [2]]
    assert len(index) == 3


def test_a_full_bucket_keeps_its_first_and_counts_the_others(make_index: MakeIndex) -> None:
    index = make_index(bucket_cap=2)
    first = add(index, [0, 1, 2], keys_of([[1, 2, 3, 4], [1, 5, 6, 7], [1, 8, 9, 10]]))
    assert (first.longer, first.overflows) == (1, 0)
    keys = keys_of([[1, 11, 12, 13]])
    second = index.apply(Changes(Progress(), Additions(documents([3]), keys, index.probe(keys))))
    assert (second.longer, second.overflows) == (1, 0)
    assert buckets_of(index, [1]) == [[0, 1]]
    stored = {key: value for kind, key, value in index.dump() if kind == "bucket"}
    assert stored[(1).to_bytes(8, "big")] == bytes([0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 2, 0, 0, 0])


def test_a_batch_of_any_number_below_48_bits_is_stored_and_found_again(make_index):
    index, numbers = make_index(), [2**32 - 1, 2**32, 2**48 - 1]
    for ordinal, number in enumerate(numbers):
        one = replace(documents([ordinal]), batches=np.array([number]))
        covering = mark(number, (0, 10 * ordinal, 10 * ordinal + 10))
        progress = Progress(next_batch=number + 1, next_ordinal=ordinal + 1)
        additions = Additions(one, keys_of([[ordinal] * 4]))
        index.apply(Changes(progress, additions, (covering,)))
    assert index.fetch(np.arange(3)).batches.tolist() == numbers
    covered = index.marks_covering(np.zeros(3, np.int64), np.array([5, 15, 25]))
    assert [each.number for each in covered if each] == numbers
    assert index.progress.next_batch == 2**48


def test_a_document_with_one_key_in_two_columns_is_listed_once(make_index: MakeIndex) -> None:
    index = make_index()
    add(index, [0, 1], keys_of([[5, 5, 5, 5], [5, 5, 6, 6]]))
    assert buckets_of(index, [5, 6]) == [[0, 1], [1]]


@pytest.mark.parametrize("cut", [1, 2, 3, 7, 40])
def test_the_bytes_do_not_depend_on_how_documents_are_cut_into_batches(make_index, cut):
    rows = keys_of([[i % 3, i % 5, i % 7, i] for i in range(40)])

    def built(size: int) -> list[tuple[str, bytes, bytes]]:
        index = make_index(bucket_cap=4)
        for start in range(0, 40, size):
            ordinals = range(start, min(40, start + size))
            add(index, list(ordinals), rows[ordinals.start : ordinals.stop])
        return [entry for entry in index.dump() if entry[0] in ("bucket", "document")]

    assert built(cut) == built(5)


def test_progress_is_what_was_last_applied(make_index: MakeIndex) -> None:
    index = make_index()
    progress = Progress(41, b"h" * 16, {0: 7, 3: 2**40}, 5, 9, 1_700_000_000_123)
    index.apply(Changes(progress))
    assert index.progress == progress
    assert len(index) == 0


def test_a_mark_is_found_by_any_offset_of_its_spans_and_by_no_other(make_index: MakeIndex) -> None:
    index: Index = make_index()
    one, two = mark(0, (0, 10, 20), (1, 0, 5)), mark(7, (0, 25, 26), (2, 0, 1), first=15, after=17)
    index.apply(Changes(Progress(), marks=(one, two)))
    places: list[tuple[int, int, Any]] = [
        (0, 9, None),
        (0, 10, one),
        (0, 19, one),
        (0, 20, None),
        (0, 24, None),
        (0, 25, two),
        (0, 26, None),
        (1, 4, one),
        (1, 5, None),
        (2, 0, two),
        (3, 0, None),
    ]
    partitions = np.array([p for p, _, _ in places[::-1]], np.int64)
    offsets = np.array([o for _, o, _ in places[::-1]], np.int64)
    assert index.marks_covering(partitions, offsets) == [m for _, _, m in places[::-1]]


def test_an_empty_span_never_hides_the_batch_that_starts_there(make_index: MakeIndex) -> None:
    index: Index = make_index()
    idle, busy = mark(1, (0, 5, 5), (1, 0, 9)), mark(2, (0, 5, 8))
    index.apply(Changes(Progress(), marks=(busy,)))
    index.apply(Changes(Progress(), marks=(idle,)))
    assert index.marks_covering(np.array([0, 1]), np.array([5, 0])) == [busy, idle]


def test_what_cannot_be_stored_changes_nothing(make_index: MakeIndex) -> None:
    index = make_index()
    before = list(index.dump())
    broken = documents([0])
    broken.ids[0] = "x" * 70_000  # type: ignore[index]
    with pytest.raises(FormatError, match="id_len"):
        index.apply(Changes(Progress(next_ordinal=1), Additions(broken, keys_of([[1, 2, 3, 4]]))))
    assert list(index.dump()) == before


def test_timestamps_keep_their_second_and_absence_and_never_stop_the_service() -> None:
    stored = whole_seconds(np.array([-1, 0, 999, 1_000, 2**62]))
    assert stored.tolist() == [0, 1, 1, 2, 2**32 - 1]


def test_a_forgotten_document_is_in_no_bucket_and_no_longer_known(make_index: MakeIndex) -> None:
    index = make_index()
    add(index, [0, 1], keys_of([[1, 2, 3, 4], [1, 5, 6, 7]]))
    gone = removals(documents([0, 8]), keys_of([[1, 2, 3, 4], [1, 5, 6, 7]]))
    applied = index.apply(Changes(Progress(next_ordinal=2), removals=gone))
    assert (applied.removed, len(index)) == (1, 1)
    assert buckets_of(index, [1, 2, 3, 4, 5]) == [[1], [], [], [], [1]]
    assert index.fetch(np.array([0, 1], np.int64)).ordinals.tolist() == [1]
    assert not [value for kind, _, value in index.dump() if kind == "bucket" and not value]


def test_an_update_is_one_write_and_takes_the_place_of_the_old(make_index: MakeIndex) -> None:
    index = make_index(bucket_cap=2)
    add(index, [0, 1, 2], keys_of([[1, 2, 3, 4]] * 3))
    changes = Changes(
        Progress(next_ordinal=4),
        Additions(documents([3]), keys_of([[1, 9, 9, 9]])),
        removals=removals(documents([0]), keys_of([[1, 2, 3, 4]])),
    )
    applied = index.apply(changes)
    assert (applied.documents, applied.removed, applied.overflows) == (1, 1, 0)
    # The third stays under its longer keys: a place that becomes free is for newcomers.
    assert buckets_of(index, [1, 2, 9]) == [[1, 3], [1], [3]]


def test_more_keys_than_can_be_numbered_are_refused_whether_they_join_or_leave(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = open_index(tmp_path, identity(), bucket_cap=8, memory=SMALL)
    rows = keys_of([[1, 2, 3, 4], [1, 5, 6, 7]])
    add(index, [0, 1], rows)
    before = list(index.dump())
    monkeypatch.setattr(listing, "APPLY_KEYS_MAX", 8)
    with pytest.raises(ValueError, match="not 8"):
        index.apply(Changes(Progress(next_ordinal=2), removals=removals(documents([0, 1]), rows)))
    with pytest.raises(ValueError, match="not 8"):
        add(index, [2, 3], rows)
    one = removals(documents([0]), rows[:1])
    with pytest.raises(ValueError, match="not 8"):
        index.apply(Changes(Progress(next_ordinal=3), Additions(documents([2]), rows[:1]), (), one))
    assert list(index.dump()) == before
    index.apply(Changes(Progress(next_ordinal=2), removals=one))
    assert len(index) == 1
    index.close()


def test_a_key_that_always_counts_finds_an_unsigned_document(make_index: MakeIndex) -> None:
    index = make_index()
    short = documents([0], unsigned=[0])
    index.apply(Changes(Progress(), Additions(short, keys_of([[1, 2, 3, 4]]), always=2)))
    assert buckets_of(index, [1, 2, 3, 4]) == [[], [], [0], [0]]


def test_documents_are_found_by_their_id_and_only_by_it(make_index: MakeIndex) -> None:
    """Many may have one id, and one id may begin with another; a bucket's cap is no limit."""
    index = make_index(bucket_cap=1, ids=True)
    ids = ["a", "a", "ab", "", "a", "語", "a\0"]
    rows = keys_of([[i, i, i, i] for i in range(len(ids))])
    given = replace(documents(range(len(ids))), ids=ids)
    index.apply(Changes(Progress(next_ordinal=7), Additions(given, rows)))
    asked = [*map(name_of, ["語", "a", "b", "ab", "", "a\0", "x" * 60_000, "x" * 70_000])]
    found = [each.tolist() for each in index.named(asked, 9)]
    assert found == [[5], [0, 1, 4], [], [2], [3], [6], [], []]
    gone = removals(given.at(np.array([1, 3])), rows[[1, 3]])
    index.apply(Changes(Progress(next_ordinal=7), removals=gone))
    assert [each.tolist() for each in index.named([*map(name_of, ("a", "", "ab"))], 9)] == [
        [0, 4],
        [],
        [2],
    ]
    assert [len(key) for kind, key, _ in index.dump() if kind == "id"] == [11, 11, 12, 12, 13]


def test_documents_are_found_by_their_id_in_all_windows_that_are_alive(make_index):
    index = make_index(ids=True)
    for number in range(3):
        opens = Window(number, number, number) if number else None
        one = Additions(replace(documents([number]), ids=["a"]), keys_of([[1, 2, 3, 4]]))
        progress = Progress(next_batch=number + 1, next_ordinal=number + 1)
        index.apply(Changes(progress, one, opens=opens))
    assert [each.tolist() for each in index.named([name_of("a"), name_of("b")], 9)] == [
        [0, 1, 2],
        [],
    ]
    index.apply(Changes(Progress(next_batch=3, next_ordinal=3, horizon=1)))
    assert [each.tolist() for each in index.named([name_of("a")], 2)] == [[1, 2]]
    assert [each.tolist() for each in index.named([name_of("a")], 1)] == [[1]]


def test_equal_documents_are_listed_and_found_under_ever_longer_keys(make_index: MakeIndex) -> None:
    index, count = make_index(1), 60
    found = documents(range(count))
    alike = np.repeat(found.contents.signatures[:1], count, axis=0)
    found = replace(found, contents=replace(found.contents, signatures=alike))
    keys = keys_of([[3, 5, 7, 9]] * count)
    progress = Progress(next_batch=1, next_ordinal=count)
    index.apply(Changes(progress, Additions(found, keys)))
    (buckets,) = index.probe(keys[:1], None, alike[:1]).windows
    assert [level.counts.max() for level in buckets.deeper] == [cap_at(1, 1)] * DEPTH
