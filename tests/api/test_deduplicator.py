"""`Deduplicator`: what a user of the library may rely on, in memory and on disk alike."""

import random
import subprocess
import sys
import warnings

import pytest

from streamfilter import Deduplicator, Duplicate, Pair
from streamfilter.collection.deduplicator import BUCKET_CAP
from streamfilter.collection.identity import new_scheme
from streamfilter.collection.rows import check_scope
from streamfilter.index.errors import IndexLocked, IndexMismatch
from streamfilter.similarity.scheme import Normalisation, Scheme, Shingling
from streamfilter.similarity.sketch import Sketcher
from tests.support.values import replace

BASE = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen"
NEAR = BASE + " fifteen"
FAR = "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron"


@pytest.fixture(params=["memory", "directory"])
def make(request, tmp_path):
    made = []

    def maker(**options):
        path = tmp_path / f"state-{len(made)}" if request.param == "directory" else None
        made.append(Deduplicator(path, **options))
        return made[-1]

    yield maker
    for each in made:
        each.close()


def test_many_are_forgotten_at_once_and_those_that_were_known_are_counted(make):
    texts = make()
    texts.add_many((f"d{n}", f"text {n}") for n in range(1_200))
    gone = [f"d{n}" for n in range(1_100)]
    assert texts.forget_many(iter([*gone, "d3", "unknown", "d1100", "d1100"])) == 1_101
    assert (len(texts), "d1100" in texts, "d1101" in texts) == (99, False, True)
    assert texts.forget_many(gone) == texts.forget_many([]) == 0


def test_the_earlier_documents_that_are_like_a_new_one_are_returned(make):
    texts = make()
    assert texts.add("a", BASE) == []
    (near,) = texts.add("b", NEAR)
    assert (near.id, near.same_text) == ("a", False)
    assert near.similarity == pytest.approx(12 / 13)
    assert texts.add("c", FAR) == []
    same, other = texts.add("d", BASE.upper())
    assert same == Duplicate("a", 1.0, True)
    assert other.id == "b"
    assert (len(texts), list(texts), "b" in texts, "z" in texts) == (4, list("abcd"), True, False)


def test_asking_remembers_nothing(make):
    texts = make()
    texts.add("a", BASE)
    assert texts.is_duplicate(NEAR)
    assert not texts.is_duplicate(FAR)
    assert not texts.is_duplicate(FAR)
    assert len(texts) == 1


def test_each_pair_comes_once_and_an_id_is_not_its_own_duplicate(make):
    texts = make()
    texts.add_many([("a", BASE), ("x", FAR), ("b", NEAR), ("c", BASE)])
    pairs = list(texts.all_duplicates())
    assert {(pair.id, pair.other) for pair in pairs} == {("b", "a"), ("c", "a"), ("c", "b")}
    assert Pair("c", "a", 1.0, True) in pairs
    assert [each.id for each in texts.duplicates_of(id="b")] == ["a", "c"]
    assert texts.duplicates_of(id="b", threshold=0.99) == []


def test_documents_match_only_within_their_scope(make):
    texts = make()
    texts.add("a", BASE, scope="north")
    assert texts.add("b", NEAR, scope="south") == texts.add("c", NEAR) == []
    found = texts.add_many([("d", BASE), ("e", "brief")], scope="north")
    assert [[each.id for each in row] for row in found] == [["a"], []]
    assert texts.is_duplicate("brief", scope="north")
    assert not texts.is_duplicate("brief")
    assert [each.id for each in texts.duplicates_of(BASE, scope="south")] == ["b"]
    assert [each.id for each in texts.duplicates_of(BASE)] == ["c"]
    assert [each.id for each in texts.duplicates_of(BASE, scope=" ")] == ["c"], "blank is none"
    assert texts.duplicates_of(BASE, scope="west") == []
    assert [each.id for each in texts.duplicates_of(id="a")] == ["d"]
    assert {(pair.id, pair.other) for pair in texts.all_duplicates()} == {("d", "a")}
    assert [each.id for each in texts.update("a", BASE, scope="south")] == ["b"]
    with pytest.raises(ValueError, match="'a' is known already"):
        texts.add("a", FAR, scope="west")
    with pytest.raises(ValueError, match="leave out scope"):
        texts.duplicates_of(id="a", scope="south")
    with pytest.raises(ValueError, match="no UTF-8 text"):
        texts.add("z", FAR, scope="\ud800")
    with pytest.raises(TypeError, match="the scope is 7"):
        texts.add("z", FAR, scope=7)
    assert texts.forget("a")
    assert "z" not in texts


def test_a_scope_is_hashed_as_by_the_service():
    """So the verdicts of a scope are those of `index.scope_field`."""
    scheme, seed = new_scheme(), bytes(range(16))
    stored = Sketcher(replace(scheme, digests=("scope /tenant",)), seed=seed)
    theirs = stored.sketch([BASE, "brief"], [('"north"',)] * 2)
    ours = Sketcher(scheme, seed=seed).sketch([BASE, "brief"], scope=check_scope("north"))
    assert (ours.keys == theirs.keys).all()
    assert (ours.contents.fingerprints == theirs.contents.fingerprints).all()
    assert (ours.contents.samples.tokens == theirs.contents.samples.tokens).all()


def test_an_update_replaces_the_text_and_a_forgotten_document_is_never_met(make):
    texts = make()
    texts.add_many([("a", BASE), ("b", NEAR), ("c", FAR)])
    assert texts.update("a", FAR)[0].id == "c"
    assert texts.duplicates_of(id="b") == []
    assert texts.forget("c")
    assert not texts.forget("c")
    assert texts.duplicates_of(FAR) == [Duplicate("a", 1.0, True)]
    with pytest.raises(KeyError):
        texts.duplicates_of(id="c")
    assert texts.add("c", BASE)[0].id == "b"
    assert len(texts) == 3


def test_short_texts_match_by_equality_and_empty_ones_never(make):
    texts = make()
    texts.add_many([("a", "hello"), ("b", "  "), ("c", "\u200b\n"), ("d", "HELLO "), ("e", "bye")])
    assert [(pair.id, pair.other) for pair in texts.all_duplicates()] == [("d", "a")]
    assert not texts.is_duplicate("")
    assert texts.forget("b")
    assert "c" in texts


def test_mistakes_are_said_with_the_cure(make, tmp_path):
    texts = make()
    texts.add("a", BASE)
    for call, words in [
        (lambda: texts.add("a", FAR), "use update"),
        (lambda: texts.add_many([("x", FAR), ("x", BASE)]), "comes twice"),
        (lambda: texts.duplicates_of(), "give a text"),
        (lambda: texts.duplicates_of(FAR, threshold=1.5), "such as 0.8"),
        (lambda: Deduplicator(threshold=0), "such as 0.8"),
        (lambda: Deduplicator(shingle="word"), "write word:3"),
        (lambda: Deduplicator(shingle="verse:3"), "no kind of shingle"),
        (lambda: texts.merge(Deduplicator()), "add the texts instead"),
    ]:
        with pytest.raises(ValueError, match=words):
            call()
    assert list(texts) == ["a"]
    with pytest.raises(FileNotFoundError, match="makes one"):
        Deduplicator.open(tmp_path / "none")


def test_a_directory_knows_everything_after_a_kill(tmp_path):
    script = (
        "import os, sys; from streamfilter import Deduplicator\n"
        "texts = Deduplicator(sys.argv[1], threshold=0.7, shingle='char:5')\n"
        "texts.add('a', sys.argv[2]); texts.add('b', sys.argv[3]); texts.forget('b')\n"
        "os._exit(9)"
    )
    path = tmp_path / "state"
    command = [sys.executable, "-c", script, str(path), BASE, NEAR]
    assert subprocess.run(command, check=False).returncode == 9
    with Deduplicator.open(path) as texts:
        assert (list(texts), texts.threshold) == (["a"], 0.7)
        assert texts.is_duplicate(NEAR)
        with pytest.raises(IndexLocked):
            Deduplicator(path)
    with pytest.raises(IndexMismatch, match=r"shingling\.size") as refused:
        Deduplicator(path, shingle="char:4", threshold=0.7)
    assert "another Deduplicator(path)" in str(refused.value)
    assert "changelog" not in str(refused.value)  # that is a service's way out
    with Deduplicator(path, shingle="char:5", threshold=0.99) as texts:
        assert not texts.is_duplicate(NEAR)  # another threshold holds from then on


def test_a_threshold_that_the_bands_do_not_serve_is_warned_of_with_what_they_find(tmp_path):
    with Deduplicator(tmp_path / "state", threshold=0.8) as texts:
        texts.add("a", BASE)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Deduplicator(tmp_path / "state", threshold=0.9).close()  # stricter: they find all
        Deduplicator(threshold=0.5).close()  # new: made for it
        Deduplicator(tmp_path / "state").close()
    with pytest.warns(UserWarning, match=r"16 x 6\) find 0\.22 of the pairs at threshold 0\.5"):
        texts = Deduplicator(tmp_path / "state", threshold=0.5)
    assert texts.threshold == 0.5
    texts.close()


def test_a_question_below_the_bands_is_warned_of_where_it_was_asked():
    texts = Deduplicator(threshold=0.8)
    texts.add_many([("a", BASE), ("b", NEAR)])
    ask = [
        lambda: texts.duplicates_of(BASE, threshold=0.5),
        lambda: list(texts.all_duplicates(threshold=0.5)),
    ]
    for asked in ask:
        with pytest.warns(UserWarning, match=r"find 0\.22 of the pairs at threshold 0\.5") as told:
            assert asked()
        assert told[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert texts.duplicates_of(BASE, threshold=0.9) is not None
        assert texts.duplicates_of(BASE)


def test_a_copy_goes_its_own_way_and_comes_back(make, tmp_path):
    texts = make()
    texts.add_many([("a", BASE), ("c", "")])
    texts.save(tmp_path / "copy")
    with pytest.raises(FileExistsError):
        texts.save(tmp_path / "copy")
    with Deduplicator.open(tmp_path / "copy") as copy:
        copy.add("b", NEAR)
        copy.add("d", "")
        texts.merge(copy)
    assert sorted(texts) == ["a", "b", "c", "d"]
    assert [(pair.id, pair.other) for pair in texts.all_duplicates()] == [("b", "a")]


def test_any_scheme_can_be_given():
    scheme = Scheme(125, 3, 128, Shingling("char", 4), layout="random")
    texts = Deduplicator(scheme=scheme, threshold=0.6)
    texts.add("a", "what's the flight time from Berlin to Helsinki?")
    found = texts.duplicates_of("what's the flight time from Berlin to Oulu?")
    assert found[0].similarity == pytest.approx(0.714, abs=0.06)  # normalised: a little higher


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_random_calls_agree_with_plain_sets(make, seed):
    """Whatever is added, changed and forgotten: pairs are those of sets of words, no hashing."""
    print(f"seed {seed}")
    rng, texts, plain = random.Random(seed), make(shingle="word:1", threshold=0.6), {}
    words = [f"w{i}" for i in range(30)]

    def similar(one, other):
        left, right = set(one.split()), set(other.split())
        return len(left & right) / len(left | right) >= 0.6

    for _ in range(70):
        id_, text = f"d{rng.randrange(25)}", " ".join(rng.sample(words, rng.randint(12, 20)))
        if rng.random() < 0.3 and plain:  # an edit of a known one, surely found by the bands
            text = rng.choice(list(plain.values())) + f" {rng.choice(words)}"
        if rng.random() < 0.25:
            assert texts.forget(id_) == (plain.pop(id_, None) is not None)
            continue
        found = {each.id for each in texts.update(id_, text)}
        plain[id_] = text
        true = {other for other in plain if other != id_ and similar(text, plain[other])}
        assert found <= true
        sure = {other for other in true if set(plain[other].split()) == set(text.split())}
        assert sure <= found
    assert set(texts) == set(plain)
    for pair in texts.all_duplicates():
        assert similar(plain[pair.id], plain[pair.other])


def remembered(texts, number):
    """Pairs of (id, text): every third is like an earlier one, at any distance."""
    rng, pairs = random.Random(number), []
    for i in range(texts):
        words = pairs[rng.randrange(i)][1].split() if i and i % 3 == 0 else []
        words = words or [f"w{rng.randrange(10_000)}" for _ in range(20)]
        pairs.append((f"d{i}", " ".join([*words[:-1], f"x{rng.randrange(3)}"])))
    return pairs


LEAST = "streamfilter.collection.identity.RETENTION_LEAST"


@pytest.mark.slow
def test_copies_of_one_text_are_found_whatever_the_full_buckets_of_the_past_hold(make):
    texts = make(retention_documents=2_000)
    for start in range(0, 4_000, 1_000):  # enough to fill a bucket, and some that it turns away
        copies = {*range(BUCKET_CAP + 5), *range(980, 1_000)}
        texts.add_many((f"{start + i}", "ok" if i in copies else f"{i}") for i in range(1_000))
    assert len(texts) == 2_000
    assert texts.is_duplicate("ok")


@pytest.mark.slow
@pytest.mark.parametrize("last", [1, 7, 60])
def test_the_last_so_many_are_remembered_and_nothing_else_however_they_were_added(
    make, last, monkeypatch
):
    monkeypatch.setattr(LEAST, 1)
    single, many, ever = make(retention_documents=last), make(retention_documents=last), make()
    count = 3 * last + 20
    pairs = remembered(count, last)
    expected = [
        [each for each in found if int(each.id[1:]) >= number - last + 1]
        for number, found in enumerate(ever.add_many(pairs))
    ]
    assert [single.add(*pair) for pair in pairs] == expected
    assert many.add_many(pairs) == expected
    assert any(expected) or last == 1
    for texts in (single, many):
        assert list(texts) == [f"d{i}" for i in range(count - last, count)]
        assert len(texts) == last
        assert "d0" not in texts
        assert f"d{count - last}" in texts
        assert texts.add("d0", "a text of that name may come again") == []
        assert len(texts) == last
        assert all(
            int(p.other[1:]) > count - last or p.other == "d0" for p in texts.all_duplicates()
        )


@pytest.mark.slow
def test_windows_come_and_go_and_answers_are_those_of_one_that_never_forgot(make, monkeypatch):
    monkeypatch.setattr(LEAST, 1)
    monkeypatch.setattr("streamfilter.collection.identity.WINDOW_DOCUMENTS", 1)
    texts, ever, last = make(retention_documents=100), make(), 100
    pairs = remembered(450, 5)
    for begin in range(0, 450, 10):
        some = pairs[begin : begin + 10]
        assert texts.add_many(some) == [
            [each for each in row if int(each.id[1:]) >= begin + i - last + 1]
            for i, row in enumerate(ever.add_many(some))
        ]
    windows = texts._opened.index.windows
    assert len(windows) in (4, 5)
    assert windows[0].number > 8
    assert texts.forget("d440")
    assert not texts.forget("d340")
    assert texts.update("d380", "another text of an old window") == []
    assert len(texts) == 98  # the update was one more that came


@pytest.mark.slow
def test_a_directory_keeps_its_retention_and_its_size(tmp_path, monkeypatch):
    monkeypatch.setattr(LEAST, 1)
    monkeypatch.setattr("streamfilter.collection.identity.WINDOW_DOCUMENTS", 100)
    sizes = []
    for period in range(12):
        path = tmp_path / "state"
        with Deduplicator(path, retention_documents=1_000 if not period else None) as texts:
            rng = random.Random(period)
            texts.add_many(
                (f"{period} {i}", " ".join(f"w{rng.randrange(9_999)}" for _ in range(30)))
                for i in range(1_000)
            )
            assert len(texts) == 1_000
            assert next(iter(texts)) == f"{period} 0"
        sizes.append(sum(file.stat().st_size for file in (path / "rocksdb").glob("*.sst")))
    assert max(sizes[2:]) <= 1.5 * sizes[2]
    with Deduplicator(path, retention_documents=10) as texts:
        assert len(texts) == 10  # a smaller number holds at once
        texts.add("the last", "of them all")
        assert len(texts) == 10
    with Deduplicator(path, retention_documents=5_000) as texts:  # what was forgotten stays so
        assert len(texts) == 10
        copy = tmp_path / "copy"
        texts.save(copy)
    with Deduplicator.open(copy) as again:
        assert len(again) == 10


@pytest.mark.parametrize("documents", [0, -3, 1_999])
def test_a_retention_of_less_than_the_newest_window_is_refused(make, documents):
    with pytest.raises(ValueError, match=r"is too few.*use 2,000 or more"):
        make(retention_documents=documents)


@pytest.mark.slow
@pytest.mark.parametrize("text", ["two words", BASE])
def test_a_copy_is_found_when_those_of_its_text_that_came_first_are_gone(make, text):
    """A bucket lists 255 documents: those that came later are in its pages."""
    texts = make()
    texts.add_many((f"d{n}", text) for n in range(530))
    texts.forget_many(f"d{n}" for n in range(300))
    assert Duplicate("d529", 1.0, True) in texts.duplicates_of(text)
    assert all(each.same_text for each in texts.duplicates_of(text))
    texts.forget_many(f"d{n}" for n in range(529))
    assert texts.duplicates_of(text) == [Duplicate("d529", 1.0, True)]
    texts.forget("d529")
    assert texts.duplicates_of(text) == []


def test_a_scheme_that_only_prepares_texts_has_the_default_shape():
    html = Scheme(normalisation=Normalisation(html=True))
    assert (html.bands, html.rows) == (new_scheme().bands, new_scheme().rows)
    with Deduplicator(scheme=html) as pages:
        pages.add("a", "<p>One two three four</p>")
        assert pages.is_duplicate("<div>one two <b>three</b> four")
