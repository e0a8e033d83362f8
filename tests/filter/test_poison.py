"""A text that breaks the sketcher is a dead letter in `filter` as it is in `run`: one path."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from streamfilter.documents.reader import Reader
from streamfilter.model import Document, ErrorCode, Malformed, Record, Source
from streamfilter.similarity.scheme import Scheme
from streamfilter.similarity.sketch import Sketcher, Sketches
from streamfilter.workers.preparing import Preparing, Read
from tests.filter.conftest import Desk
from tests.filter.stories import write

POISON = "a text that no sketcher survives"
TEXTS = ["the first of a few harmless lines of news", POISON, "the last of a few harmless lines"]
LINES = [json.dumps({"id": f"d{i}", "text": text}).encode() for i, text in enumerate(TEXTS)]


@pytest.fixture(autouse=True)
def fragile(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Sketcher.sketch

    def sketch(
        self: Sketcher, texts: Sequence[str], values: Sequence[Sequence[str | None]] = ()
    ) -> Sketches:
        if POISON in texts:
            raise ZeroDivisionError("a bug of ours")
        return whole(self, texts, values)

    monkeypatch.setattr(Sketcher, "sketch", sketch)


@pytest.fixture
def source(desk: Desk) -> Path:
    return write(desk.path / "in", LINES)


def test_a_text_that_breaks_the_sketcher_is_set_aside_and_its_neighbours_are_judged(desk, source):
    assert desk.run(source, state="memory") == 0
    outputs = desk.outputs
    assert outputs[0].splitlines() == [LINES[0], LINES[2]]
    (letter,) = desk.records(desk.dead)
    assert letter["error"]["code"] == "internal"
    assert letter["error"]["stage"] == "sketch"
    assert letter["source"]["offset"] == 2
    assert letter["payload"].encode() == LINES[1]
    # Read again it is what it was, and takes no ordinal from its neighbours.
    desk.clear()
    assert desk.run(source, state="memory") == 0
    assert desk.outputs == outputs


def test_without_a_place_for_it_the_run_ends_and_names_the_line(desk, source, capsys):
    assert desk.run(source, dead_letter=False) == 65
    told = capsys.readouterr().err
    assert "line 2: internal: the text cannot be sketched" in told
    assert POISON not in told


def test_an_input_is_known_by_its_number_or_by_each_record_s_own_partition() -> None:
    preparing = Preparing(Reader(), Sketcher(Scheme(16, 6), seed=bytes(16)))
    records = [Record(Source("in", 4, 7 + row), None, line) for row, line in enumerate(LINES)]

    def partitions(number: int | None) -> list[int]:
        readings = [Document(f"d{row}", text) for row, text in enumerate(TEXTS)]
        prepared = preparing.sketch(Read(records, [*readings]), partition=number)
        assert prepared.ids == {0: "d0", 2: "d2"}
        broken = prepared.others[1]
        assert isinstance(broken, Malformed)
        assert broken.code is ErrorCode.INTERNAL
        return prepared.batch.partitions.tolist()

    assert partitions(None) == [4, 4]
    assert partitions(1) == [1, 1]
