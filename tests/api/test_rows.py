"""What a user may give as documents, and what the answers then hold."""

import pyarrow as pa
import pytest

from streamfilter import Deduplicator, Duplicate, unique
from tests.api.test_deduplicator import BASE, FAR, NEAR, make  # noqa: F401 (a fixture)

IDS, TEXTS = ["a", "b", "c"], [BASE, NEAR, FAR]


class Frame:
    """A DataFrame as pandas and polars have it: its iteration yields columns, not rows."""

    def __init__(self, **columns: list[object]) -> None:
        self.columns, self._values = [*columns], columns

    def __getitem__(self, name: str) -> list[object]:
        return self._values[name]

    def __iter__(self):
        return iter(self.columns)


SHAPES = {
    "pairs": zip(IDS, TEXTS, strict=True),
    "mappings": [{"text": text, "more": 1, "id": id} for id, text in zip(IDS, TEXTS, strict=True)],
    "a frame": Frame(id=IDS, more=[1, 2, 3], text=TEXTS),
    "an arrow table": (TABLE := pa.table({"id": IDS, "more": [1, 2, 3], "text": TEXTS})),
    "an arrow batch": TABLE.to_batches()[0],
    "an arrow reader": TABLE.to_reader(max_chunksize=2),
}


@pytest.mark.parametrize("rows", SHAPES.values(), ids=SHAPES)
def test_rows_of_every_shape_are_the_same_documents(rows):
    with Deduplicator() as texts:
        near = Duplicate("a", 12 / 13, False)
        assert texts.add_many(rows) == [[], [near], []]
        assert list(texts) == IDS


def test_fields_may_have_other_names_and_a_missing_one_is_named_with_its_row():
    with Deduplicator() as texts:
        rows = [{"url": "a", "body": BASE}, {"url": "b", "title": FAR}]
        with pytest.raises(KeyError, match="row 1 has no 'body', but url, title; name it with"):
            texts.add_many(rows, id="url", text="body")
        with pytest.raises(KeyError, match="no column 'id'; there are url, body"):
            texts.add_many(Frame(url=IDS, body=TEXTS))
        with pytest.raises(KeyError, match="no column 'text'; there are id"):
            texts.add_many(pa.table({"id": IDS}))
        assert len(texts) == 0
        texts.add_many(rows[:1], id="url", text="body")
        assert list(texts.duplicates_of_many([{"body": NEAR}, {"body": FAR}], text="body")) == [
            [Duplicate("a", 12 / 13, False)],
            [],
        ]


class Twice(Frame):
    """As pandas after a join: one name for two columns, and under it another frame of both."""

    def __init__(self) -> None:
        super().__init__(id=["a", "b"], text=Frame(text=[BASE, FAR], more=[BASE, FAR]))
        self.columns.append("text")


def test_a_column_that_is_there_twice_is_refused_and_its_name_is_no_text():
    twice = pa.Table.from_arrays([["a"], [BASE], [FAR]], names=["id", "text", "text"])
    for rows in (Twice(), twice, twice.to_batches()[0]):
        with Deduplicator() as texts:
            with pytest.raises(KeyError, match="the column 'text' is there 2 times; rename one"):
                texts.add_many(rows)
            with pytest.raises(KeyError, match="the column 'text' is there 2 times"):
                list(unique(rows))
            assert len(texts) == 0


class Lazy:
    """A LazyFrame of polars, as far as it is known: it has columns and no values."""

    columns = ("id", "text")

    def __getitem__(self, name: str) -> object:
        raise TypeError("LazyFrame is not subscriptable")

    def collect(self) -> object:
        raise AssertionError("an expensive query is not run unasked")

    collect_schema = collect


def test_a_lazy_frame_is_answered_with_what_to_call():
    with Deduplicator() as texts, pytest.raises(TypeError, match=r"no rows yet; give its collect"):
        texts.add_many(Lazy())


def test_ids_that_are_integers_stay_integers(make, tmp_path):  # noqa: F811
    texts = make()
    rows = Frame(id=[7, -1, 10**20], text=[BASE, NEAR, BASE])
    texts.add_many(rows)
    assert list(texts) == [7, -1, 10**20]
    assert texts.add(3, BASE)[0] == Duplicate(7, 1.0, True)
    assert {(pair.id, pair.other) for pair in texts.all_duplicates()} >= {(-1, 7), (3, 7)}
    assert texts.clusters() == [[7, -1, 10**20, 3]]
    assert (7 in texts, 8 in texts, texts.forget(7)) == (True, False, True)
    with pytest.raises(TypeError, match="the id is '7'; all ids here are int"):
        texts.update("7", BASE)
    texts.save(tmp_path / "copy")
    texts.close()
    with Deduplicator.open(tmp_path / "copy") as copy:
        assert list(copy) == [-1, 10**20, 3]
        with Deduplicator() as other, pytest.raises(ValueError, match="not made as copies"):
            other.merge(copy)


def test_the_first_document_decides_the_kind_of_ids_for_good(tmp_path):
    with Deduplicator(tmp_path / "kept") as texts:
        with pytest.raises(TypeError, match="row 1: the id is 'b'; all ids here are int"):
            texts.add_many([(1, BASE), ("b", FAR)])
        assert (len(texts), "b" in texts) == (0, False)
        texts.add("b", FAR)
        texts.forget("b")
    with Deduplicator.open(tmp_path / "kept") as texts, pytest.raises(TypeError, match="all ids"):
        texts.add(1, BASE)


def test_a_merge_keeps_ids_of_one_kind(tmp_path):
    with Deduplicator(tmp_path / "one") as one:
        one.save(tmp_path / "two")
        with Deduplicator.open(tmp_path / "two") as two:
            two.add_many(zip([1, 2], [BASE, FAR], strict=True))
            one.merge(two)
            assert list(one) == [1, 2]
            one.save(tmp_path / "three")
    with Deduplicator(tmp_path / "four") as four:
        four.save(tmp_path / "five")
        four.add("a", BASE)
        with Deduplicator.open(tmp_path / "five") as five:
            five.add(1, BASE)
            with pytest.raises(ValueError, match="the ids of one are int, those of the other str"):
                five.merge(four)


def test_a_row_whose_id_is_known_is_an_error_or_is_skipped(make):  # noqa: F811
    texts = make()
    texts.add("a", BASE)
    rows = [("b", NEAR), ("a", FAR), ("c", BASE), ("b", FAR)]
    with pytest.raises(ValueError, match="row 1: the id 'a' is known already; use update"):
        texts.add_many(rows)
    with pytest.raises(ValueError, match="row 2: the id 'b' comes twice"):
        texts.add_many([rows[0], rows[2], rows[3]])
    found = texts.add_many(rows, on_conflict="skip")
    assert [[each.id for each in row] for row in found] == [["a"], [], ["a", "b"], []]
    assert not texts.is_duplicate(FAR)
    with pytest.raises(ValueError, match="use 'error' or 'skip', or update_many"):
        texts.add_many(rows, on_conflict="replace")


def test_many_are_updated_in_one_call(make):  # noqa: F811
    texts = make()
    texts.add_many([("a", BASE), ("b", FAR)])
    found = texts.update_many([("a", FAR), ("c", BASE)])
    assert [[each.id for each in row] for row in found] == [["b"], []]
    assert list(texts) == ["b", "a", "c"]
    with pytest.raises(ValueError, match="row 1: the id 'c' comes twice"):
        texts.update_many([("c", FAR), ("c", NEAR)])


def test_a_limit_keeps_the_most_similar(make):  # noqa: F811
    texts = make()
    texts.add_many([("near", NEAR), ("same", BASE), ("again", BASE)])
    assert [each.id for each in texts.duplicates_of(BASE, limit=2)] == ["same", "again"]
    assert [[each.id for each in row] for row in texts.duplicates_of_many([BASE], limit=1)] == [
        ["same"]
    ]
    assert [(pair.id, pair.other) for pair in texts.all_duplicates(limit=1)] == [
        ("same", "near"),
        ("again", "same"),
    ]
    with pytest.raises(ValueError, match="limit is 0; use 1 or more"):
        texts.duplicates_of(BASE, limit=0)


def test_a_chain_is_two_stars_or_one_component(make):  # noqa: F811
    words = BASE.split()
    chain = [" ".join(words[at : at + 10]) for at in range(3)]  # each like the next: 7 of 9
    texts = make(threshold=0.7)
    texts.add_many(enumerate(chain))
    assert texts.clusters() == [[0, 1]]
    assert texts.clusters(kind="components") == [[0, 1, 2]]
    assert texts.clusters(threshold=0.99) == []
    with pytest.raises(ValueError, match="use stars or components"):
        texts.clusters(kind="star")
