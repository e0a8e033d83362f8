"""A Deduplicator's life: dropped, closed, shared by threads, given what is no text."""

import copy
import gc
import pickle
import threading
from functools import partial
from pathlib import Path

import pytest

import streamfilter
from streamfilter import (
    Deduplicator,
    DeduplicatorClosed,
    IndexFault,
    IndexLocked,
    Normalisation,
    Scheme,
    unique,
)
from streamfilter.collection.identity import new_scheme
from streamfilter.index.errors import DiskFull
from streamfilter.index.rocks.database import Database
from streamfilter.index.rocks.rocks_index import RocksIndex
from tests.support.cases import cases

TEXT = "the old mill by the river was sold to a young family from the city on monday"
THREADS, EACH = 4, 30


def test_one_that_is_dropped_releases_its_directory(tmp_path: Path):
    Deduplicator(tmp_path / "memory").add("a", TEXT)
    gc.collect()
    with Deduplicator(tmp_path / "memory") as again:
        assert "a" in again


OTHER = "something else entirely with words that were not seen before in any text about mills"
THIRD = "a third story of a harbour in the north where ships wait for the ice to break in spring"

CALLS = {
    "add": lambda stories: stories.add("b", OTHER),
    "add_many": lambda stories: stories.add_many([("b", OTHER), ("c", THIRD)]),
    "update": lambda stories: stories.update("a", OTHER),
    "forget": lambda stories: stories.forget("a"),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_call_without_room_did_nothing_and_can_be_repeated_and_others_go_on(
    call, tmp_path: Path, monkeypatch
):
    def full(store: Database, entries: object, *, sync: bool = False) -> None:
        raise DiskFull("the disk is full", tmp_path)

    with Deduplicator(tmp_path / "memory") as stories, Deduplicator() as twin:
        for each in (stories, twin):
            each.add("a", TEXT)
        with monkeypatch.context() as patch:
            patch.setattr(Database, "write", full)
            with pytest.raises(IndexFault, match="and a call can be repeated"):
                call(stories)
        assert list(stories) == ["a"]
        assert [each.id for each in stories.duplicates_of(TEXT)] == ["a"]
        stories.add("z", THIRD + " again and again")
        stories.forget("z")
        assert call(stories) == call(twin)
        assert list(stories) == list(twin)
    with Deduplicator.open(tmp_path / "memory") as again:
        assert len(again) == len(list(again))


def test_a_copy_without_room_leaves_nothing_so_save_can_be_repeated(tmp_path: Path, monkeypatch):
    def full(index: RocksIndex, changes: object) -> None:
        raise DiskFull("the disk is full", tmp_path)

    with Deduplicator() as stories:
        stories.add("a", TEXT)
        (tmp_path / "there").mkdir()
        for place in ("there", "new"):
            with monkeypatch.context() as patch:
                patch.setattr(RocksIndex, "apply", full)
                with pytest.raises(IndexFault, match="and a call can be repeated"):
                    stories.save(tmp_path / place)
            stories.save(tmp_path / place)
            with Deduplicator.open(tmp_path / place) as copied:
                assert list(copied) == ["a"]
        (tmp_path / "file").touch()
        with pytest.raises(FileExistsError, match="no empty directory"):
            stories.save(tmp_path / "file")


def test_a_save_beside_another_one_removes_nothing_of_it(tmp_path: Path, monkeypatch):
    with Deduplicator() as stories, Deduplicator(tmp_path / "other") as other:
        stories.add("a", TEXT)
        other.add("o", TEXT)
        with monkeypatch.context() as patch:
            patch.setattr("os.listdir", lambda path: [])  # it began in between
            with pytest.raises(IndexLocked):
                stories.save(tmp_path / "other")
        assert list(other) == ["o"]
    with Deduplicator.open(tmp_path / "other") as again:
        assert list(again) == ["o"]


def test_two_on_one_directory_are_refused_by_an_exported_name(tmp_path: Path):
    with Deduplicator(tmp_path / "memory"), pytest.raises(IndexLocked):
        Deduplicator(tmp_path / "memory")
    assert issubclass(IndexLocked, IndexFault)


def test_an_impossible_threshold_is_refused_before_anything_is_opened_or_made(tmp_path: Path):
    with pytest.raises(ValueError, match="threshold is 8") as refused:
        Deduplicator(tmp_path / "new", threshold=8, scheme=new_scheme())
    assert not (tmp_path / "new").exists()
    Deduplicator(tmp_path / "memory").close()
    with pytest.raises(ValueError, match="threshold is 8") as refused_again:
        Deduplicator(tmp_path / "memory", threshold=8)
    with Deduplicator(tmp_path / "memory", threshold=0.8) as again:
        assert again.threshold == 0.8
    del refused, refused_again  # kept until here: a traceback holds what was half made


def test_one_that_could_not_be_made_releases_its_directory(tmp_path: Path, monkeypatch):
    Deduplicator(tmp_path / "memory").close()

    def full(index: RocksIndex, name: str, value: bytes) -> None:
        raise IndexFault("No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(RocksIndex, "remember", full)
        with pytest.raises(IndexFault, match="No space") as failed:
            Deduplicator(tmp_path / "memory", threshold=0.7)
    with Deduplicator(tmp_path / "memory") as again:
        assert again.threshold == 0.8
    del failed  # kept until here: its traceback holds the one that was half made


@pytest.mark.parametrize(
    "use",
    [
        lambda stories: stories.add("b", TEXT),
        lambda stories: stories.update("a", TEXT),
        lambda stories: stories.forget("a"),
        lambda stories: stories.duplicates_of(TEXT),
        lambda stories: stories.is_duplicate(TEXT),
        lambda stories: list(stories.all_duplicates()),
        lambda stories: list(stories),
        lambda stories: len(stories),
        lambda stories: "a" in stories,
    ],
)
@pytest.mark.parametrize("kept", [True, False])
def test_use_after_close_says_so(tmp_path: Path, kept, use):
    stories = Deduplicator(tmp_path / "memory" if kept else None)
    stories.add("a", TEXT)
    stories.close()
    stories.close()
    with pytest.raises(DeduplicatorClosed, match="is closed"):
        use(stories)


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("begun", [iter, Deduplicator.all_duplicates])
def test_an_iterator_that_outlives_close_says_so(tmp_path: Path, kept, begun):
    stories = Deduplicator(tmp_path / "memory" if kept else None)
    stories.add_many([("a", TEXT), ("b", TEXT)])
    iterator = begun(stories)
    next(iterator)
    stories.close()
    with pytest.raises(DeduplicatorClosed, match="is closed"):
        list(iterator)


@pytest.mark.parametrize("begun", [iter, Deduplicator.all_duplicates])
def test_an_iterator_reads_only_while_no_other_call_runs_and_lets_others_in_between(begun):
    with Deduplicator() as stories:
        stories.add_many([("a", TEXT), ("b", TEXT)])
        iterator, read = begun(stories), threading.Event()

        def read_one() -> None:
            next(iterator)
            read.set()

        reader = threading.Thread(target=read_one)
        with stories._lock:  # as each call holds it
            reader.start()
            assert not read.wait(0.2)
        reader.join()
        stories.add("c", TEXT)  # the iterator is half-way, and holds nothing


def test_it_says_what_it_is(tmp_path: Path):
    with Deduplicator(threshold=0.7) as stories:
        stories.add("a", TEXT)
        assert repr(stories) == "<Deduplicator threshold=0.7: 1 documents>"
    kept = Deduplicator(tmp_path / "memory")
    kept.close()
    assert repr(kept) == f"<Deduplicator '{tmp_path}/memory', threshold=0.8: closed>"


@pytest.mark.slow
@pytest.mark.parametrize("kept", [True, False])
def test_calls_of_several_threads_are_done_one_after_the_other(tmp_path: Path, kept):
    stories = Deduplicator(tmp_path / "memory" if kept else None)
    failed: list[BaseException] = []

    def add(thread: int) -> None:
        try:
            for number in range(EACH):
                stories.add(f"{thread}-{number}", f"{TEXT} {thread} {number}")
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=add, args=(number,)) for number in range(THREADS)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    with stories:
        assert not failed
        assert sorted(stories) == sorted(f"{t}-{n}" for t in range(THREADS) for n in range(EACH))


@pytest.mark.parametrize(("id", "text"), [(1.5, TEXT), ("a", b"bytes"), ("a", None), (None, TEXT)])
def test_what_is_no_text_is_refused_by_name_and_nothing_is_remembered(id, text):
    stories = Deduplicator()
    for call in (stories.add, stories.update):
        with pytest.raises(TypeError, match="expected a str"):
            call(id, text)
    assert len(stories) == 0


@cases(
    ("call", "said"),
    [
        (lambda d: d.add_many("ab"), "expected many rows, got one str: 'ab'"),
        (lambda d: d.add_many({"ab": TEXT}), "of a dict its items"),
        (lambda d: d.add_many([("a", TEXT, "more")]), "row 0 is .*expected an id and a text"),
        (lambda d: d.add_many([("b", TEXT), 5]), "row 1 is 5 .int.; expected an id"),
        (lambda d: d.add_many([("b", TEXT), {"c", TEXT}]), "row 1 is .* .set.; expected an id"),
        (lambda d: d.add_many([("b", TEXT), ("c", None)]), "row 1: the text is None .NoneType."),
        (lambda d: d.add_many([{"id": "b", "text": float("nan")}]), "row 0: the text is nan"),
        (lambda d: d.add_many([(None, TEXT)]), "row 0: the id is None .NoneType.; expected a str"),
        (lambda d: d.add_many([(True, TEXT)]), "row 0: the id is True .bool."),
        (lambda d: d.update_many([(2.0, TEXT)]), "row 0: the id is 2.0 .float."),
        (
            lambda d: d.add_many([("b", TEXT), (5, TEXT)]),
            "row 1: the id is 5; all ids",
        ),
        (lambda d: 5 in d, "the id is 5; all ids here are str"),
        (lambda d: d.forget(5), "the id is 5; all ids here are str"),
        (lambda d: list(d.duplicates_of_many([TEXT, None])), "row 1 is None"),
        (lambda d: list(d.duplicates_of_many({"a": TEXT})), "a dict may be one row or many"),
        (lambda d: d.forget_many("ab"), "expected many ids"),
        (lambda d: d.forget_many(["a", None]), "the id is None"),
        (lambda d: d.forget_many(b"a"), "expected many ids, got one: forget.b'a'"),
        (lambda d: d.forget_many(None), "got None .NoneType.; expected many ids"),
        (lambda d: d.save(1), "the path is 1 .int.; expected a str or a Path"),
        (lambda _: Deduplicator.open(None), "the path is None"),
        (lambda d: d.is_duplicate(None), "the text is None"),
        (lambda d: d.duplicates_of(b"text"), "the text is b'text'"),
        (lambda d: d.duplicates_of(id=5), "the id is 5"),
        (lambda d: d.duplicates_of(TEXT, threshold="high"), "threshold is 'high' .str.; use a num"),
        (lambda d: list(d.all_duplicates(threshold="high")), "threshold is 'high'"),
        (lambda d: d.merge("memory"), "expected a Deduplicator"),
        (lambda d: copy.copy(d), "save.path. copies its documents"),
        (lambda d: pickle.dumps(d), "save.path. copies its documents"),
        (lambda _: Deduplicator(threshold="high"), "threshold is 'high'"),
        (lambda _: Deduplicator(retention_documents=5_000.5), "expected an int, or None"),
        (lambda _: Deduplicator(shingle=3), "shingle is 3; write it as a str"),
        (lambda _: Deduplicator(scheme="word:3"), "scheme is 'word:3'; expected a Scheme"),
    ],
)
def test_a_wrong_type_is_reported_with_the_cure_and_changes_nothing(call, said):
    stories = Deduplicator()
    stories.add("a", TEXT)
    with pytest.raises(TypeError, match=said):
        call(stories)
    assert list(stories) == ["a"]
    stories.add("z", TEXT)  # and it works on


@cases(
    ("scheme", "said"),
    [
        (Normalisation(html="yes"), "scheme.normalisation.html: Expected `bool`, got `str`"),
        (Normalisation(mask="url"), "scheme.normalisation.mask: Expected `array`, got `str`"),
        (Normalisation(fold=("nope",)), "'nope' is no fold; use marks, "),
        (Normalisation(unicode="NFX"), "'NFX' is no Unicode form; use NFKC, NFC, none"),
        (None, "scheme.normalisation: Expected `object`, got `null`"),
    ],
)
def test_a_wrong_value_in_a_scheme_is_reported_before_a_directory_is_made(scheme, said, tmp_path):
    for call in (partial(Deduplicator, tmp_path / "d"), partial(unique, [TEXT])):
        with pytest.raises((TypeError, ValueError), match=said):
            list(call(scheme=Scheme(normalisation=scheme)))
    assert not [*tmp_path.iterdir()]


def test_lists_in_a_scheme_are_as_good_as_tuples(tmp_path):
    """YAML and JSON have lists."""
    scheme = Scheme(normalisation=Normalisation(mask=["number", ["x+", "x"]], fold=["marks"]))
    with Deduplicator(tmp_path / "d", scheme=scheme) as stories:
        stories.add("a", "Café xxx number 17")
    with Deduplicator.open(tmp_path / "d") as stories:
        assert stories.is_duplicate("Cafe x number 18")


@pytest.mark.parametrize("path", ["", "a\0b"])
def test_a_path_that_names_no_directory_is_refused(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for call in (Deduplicator, Deduplicator.open, Deduplicator().save):
        with pytest.raises(ValueError, match="name a directory, such as 'memory'"):
            call(path)
    assert not [*tmp_path.iterdir()]


def test_an_id_that_no_file_could_hold_is_reported():
    stories = Deduplicator()
    for call in (stories.add, stories.update):
        with pytest.raises(ValueError, match="is no UTF-8 text; name it otherwise"):
            call("half \ud83d", TEXT)
    assert len(stories) == 0


def test_every_exported_name_is_there():
    assert all(getattr(streamfilter, name) for name in streamfilter.__all__)
