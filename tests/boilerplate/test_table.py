"""A table drops its shingles, and only them, under every seed; a file that is none is refused."""

import random
import zlib
from pathlib import Path

import numpy as np
import pytest

from streamfilter.similarity.scheme import Normalisation, Scheme, Shingling, scheme_of
from streamfilter.similarity.sketch import Sketcher, Sketches
from streamfilter.similarity.text.boilerplate import (
    FEW,
    MAGIC,
    Sample,
    Table,
    TableError,
    TokenSet,
    known,
    left_of,
    parse,
    read_table,
)
from tests.boilerplate.pages import VOCABULARY
from tests.support.values import replace

SAMPLE = Sample(100, 10, 0, (1, 97, 2))
SIZE = 3


def table_of(*passages: str, size: int = SIZE) -> Table:
    rows = [
        tuple(run.encode() for run in runs) for each in passages for runs in shingles(each, size)
    ]
    return known(Table.of(rows, Normalisation(), Shingling(size=size), SAMPLE))


def shingles(text: str, size: int = SIZE) -> list[tuple[str, ...]]:
    found = text.split()
    return [tuple(found[i : i + size]) for i in range(len(found) - size + 1)]


def sketcher(table: Table | None, seed: int = 1, **how: int) -> Sketcher:
    digest = "" if table is None else table.digest
    shingling = Shingling(size=SIZE, **how)
    scheme = Scheme(16, 6, shingling=shingling, normalisation=Normalisation(boilerplate=digest))
    return Sketcher(scheme, seed=bytes([seed] * 16))


def law(text: str, table: frozenset[tuple[str, ...]]) -> set[tuple[str, ...]]:
    """Return the set that a text is judged by, in plain Python."""
    found = set(shingles(text))
    return found - table or found


@pytest.mark.parametrize("how", [{}, {"token_bytes": 4}])
@pytest.mark.parametrize("seed", [1, 2])
def test_the_columns_equal_the_law(seed: int, how: dict[str, int]) -> None:
    rng = random.Random(seed)
    few = [*VOCABULARY[:9], "strasse", "café"]
    passages = [" ".join(rng.choices(few, k=rng.randint(3, 12))) for _ in range(20)]
    common = frozenset(run for each in passages for run in shingles(each))
    texts = [" ".join(rng.choices([*passages, *few], k=rng.randint(0, 8))) for _ in range(300)] + [
        "",
        passages[0],
        few[0],
    ]
    made = sketcher(table_of(*passages), seed, **how)
    plain = sketcher(None, seed, **how)
    found = made.sketch(texts)
    for text, size, dropped in zip(
        texts, found.contents.set_sizes.tolist(), found.dropped.tolist(), strict=True
    ):
        wanted = law(text, common)
        words = {token for run in wanted for token in plain.tokens(" ".join(run)).tolist()}
        assert set(made.tokens(text).tolist()) == words, text
        assert size == len(wanted)
        hits = sum(run in common for run in shingles(text))
        assert dropped == (-hits if hits == len(shingles(text)) else hits)


def test_a_text_of_boilerplate_alone_keeps_it_and_is_like_no_other_text() -> None:
    footer, other = "all rights reserved by the mill", "contact the mill by post or mail"
    made = sketcher(table_of(footer, other))
    sets = [set(made.tokens(each).tolist()) for each in (footer, f"a story of {footer}", other)]
    assert sets[0]
    assert not sets[0] & sets[1], "an article shares nothing with its site's empty page"
    assert not sets[0] & sets[2]
    assert sets[0] == set(made.tokens(footer.upper()).tolist())


def test_the_whole_text_is_still_compared_by_its_fingerprint() -> None:
    made = sketcher(table_of("all rights reserved by the mill"))
    texts = ["the river rose again today all rights reserved by the mill",
             "the river rose again today"]  # fmt: skip
    one, other = made.sketch(texts).contents.fingerprints
    assert bytes(one) != bytes(other)


def test_sketches_travel_with_their_column() -> None:
    made = sketcher(table_of("all rights reserved by the mill"))
    found = made.sketch(["all rights reserved by the mill", "nothing of it is in here", ""])
    assert found.dropped.tolist() == [-4, 0, 0]
    assert found.left == {"all": 2, "enough": 0, "few": 1}
    again = Sketches.from_bytes(found.to_bytes())
    assert again.dropped.tolist() == [-4, 0, 0]
    assert Sketches.joined([again, found.at(np.array([1]))]).dropped.tolist() == [-4, 0, 0, 0]
    assert sketcher(None).sketch(["a b c d"]).to_bytes()[:4] == b"SFK1", "as without a table"


def test_texts_are_counted_by_whether_they_keep_all_enough_or_few_of_their_shingles():
    dropped, left = [0, 3, 3, -2], np.array([2, FEW, FEW - 1, 9])
    assert left_of(dropped, left) == [1, 1, 2]


def test_a_set_of_tokens_is_tested_as_a_set() -> None:
    rng = np.random.default_rng(3)
    for size in (0, 1, 2, 1_000):
        tokens = np.unique(rng.integers(0, 2**64, size, dtype=np.uint64))
        values = np.concatenate((tokens, rng.integers(0, 2**64, 2_000, dtype=np.uint64)))
        values = np.append(values, np.array([0, 2**64 - 1], np.uint64))
        assert (TokenSet(tokens)(values) == np.isin(values, tokens)).all(), size


def test_a_table_is_the_same_file_in_any_order_and_comes_back(tmp_path: Path) -> None:
    one, other = table_of("a b c d", "x y zé"), table_of("x y zé", "a b c d")
    assert one.to_bytes() == other.to_bytes()
    (tmp_path / "t.bin").write_bytes(one.to_bytes())
    again = read_table(tmp_path / "t.bin")
    assert (again.digest, again.words, again.sample) == (one.digest, one.words, SAMPLE)


def test_a_scheme_names_its_table_by_digest_alone() -> None:
    table = table_of("a b c d")
    scheme = sketcher(table).scheme
    assert scheme_of(scheme.as_json()) == scheme
    assert "boilerplate" not in Scheme(20, 5).as_json()
    assert Scheme(20, 5).fingerprint == "dc26e5f2"
    unread = replace(scheme, normalisation=replace(scheme.normalisation, boilerplate="0" * 32))
    with pytest.raises(TableError, match=r"set similarity\.normalise\.boilerplate to it"):
        Sketcher(unread, seed=bytes(16)).sketch(["a b c d"])


GOOD = table_of("a b c d", "x y z").to_bytes()


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "no table"), (b"\x7fELF", "no table"), (GOOD[:-1], "damaged"), (GOOD[:60], "damaged"),
        (GOOD[:50] + bytes([GOOD[50] ^ 1]) + GOOD[51:], "damaged"), (GOOD + b"x", "damaged"),
        (GOOD.replace(b"boilerplate 1", b"boilerplate 9"), "another version"),
    ],
    ids=["empty", "foreign", "cut", "short", "flipped", "longer", "version"],
)  # fmt: skip
def test_what_is_no_table_is_refused(data: bytes, why: str) -> None:
    with pytest.raises(TableError, match=why):
        parse(data)


@pytest.mark.slow
def test_a_table_that_unpacks_to_more_than_any_has_is_refused() -> None:
    with pytest.raises(TableError, match="damaged"):
        parse(MAGIC + bytes(16) + zlib.compress(bytes(65 << 20)))


def test_a_flipped_bit_anywhere_is_noticed() -> None:
    for place in range(len(GOOD)):
        with pytest.raises(TableError):
            parse(GOOD[:place] + bytes([GOOD[place] ^ 4]) + GOOD[place + 1 :])


@pytest.mark.parametrize(
    ("normal", "shingling", "why"),
    [
        (Normalisation(casefold=False), Shingling(), "normalise.casefold true"),
        (Normalisation(html=True), Shingling(), "normalise.html off, and the configuration has tr"),
        (Normalisation(), Shingling(size=4), "shingle.size 3, and the configuration has 4"),
    ],
)
def test_a_table_of_other_settings_is_refused(normal, shingling, why):
    table = table_of("a b c d")
    table.require(Normalisation(boilerplate=table.digest), Shingling(token_bytes=4))
    with pytest.raises(TableError, match=why):
        table.require(normal, shingling)
