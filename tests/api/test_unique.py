"""`unique` yields what the service forwards, in order, and keeps nothing."""

import doctest
import json
import os
import tempfile
from itertools import islice

import pyarrow as pa
import pytest

import streamfilter.collection.unique
from streamfilter import Scheme, unique
from streamfilter.config.configuration import Config
from streamfilter.files.run import FileRun, filter_files
from streamfilter.stories.stream import stories
from tests.api.test_deduplicator import BASE, FAR, NEAR


def test_the_docstring_is_true():
    result = doctest.testmod(streamfilter.collection.unique)
    assert result.attempted
    assert not result.failed


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 1])
def test_it_yields_what_filter_forwards(tmp_path, workers):
    some = enumerate(islice(stories(7), 5_000))
    rows = [{"id": str(n), "text": story.text} for n, story in some]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    job = FileRun([str(tmp_path / "in.jsonl")], str(tmp_path / "out"), str(tmp_path / "dup"))
    filter_files(Config(), job)
    forwarded = [json.loads(line) for line in (tmp_path / "out").read_text().splitlines()]
    assert 0 < len(forwarded) < len(rows)
    assert list(unique(rows, workers=workers)) == forwarded


def test_rows_come_back_as_they_were_given():
    table = pa.table({"id": [1, 2, 3], "text": [BASE, NEAR, FAR]})
    assert list(unique(table)) == [{"id": 1, "text": BASE}, {"id": 3, "text": FAR}]
    assert list(unique([("x", BASE), ("y", NEAR)])) == [("x", BASE)]
    assert list(unique(iter(["", " ", "", "brief", "brief"]))) == ["", " ", "", "brief", "brief"]
    assert list(unique([BASE, NEAR], threshold=0.95)) == [BASE, NEAR]
    assert list(unique([BASE, NEAR], scheme=Scheme(20, 5))) == [BASE]
    assert list(unique([])) == []


def test_progress_counts_rows_and_an_end_in_the_middle_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    counted = []
    found = unique((f"text number {n} of many" for n in range(9_000)), progress=counted.append)
    next(found)
    assert os.listdir(tmp_path)
    found.close()
    assert not os.listdir(tmp_path)
    list(unique((f"text number {n} of many" for n in range(9_000)), progress=counted.append))
    assert sum(counted) == 9_000


@pytest.mark.parametrize("good", [2, 4_000, 4_001])
def test_rows_before_one_that_raises_are_yielded_first(good):
    def source():
        yield from (f"text number {n} of so many texts" for n in range(good))
        raise ConnectionError("the line is gone")

    def broken():
        yield from (f"text number {n} of so many texts" for n in range(good))
        yield {"text": None}

    for rows, error in ((source(), ConnectionError), (broken(), TypeError)):
        found: list[object] = []
        with pytest.raises(error):
            found.extend(unique(rows, threshold=1))
        assert len(found) == good


def test_mistakes_are_said_before_anything_is_read():
    for call, said in [
        (lambda: unique("text"), "expected many rows, got one str"),
        (lambda: unique({"a": BASE}), "a dict may be one row or many"),
        (lambda: unique(5), "expected rows"),
        (lambda: unique([BASE], threshold=2), "threshold is 2"),
        (lambda: unique([BASE], workers=-1), "use 0 to 64"),
        (lambda: unique([BASE], shingle="word"), "write word:3"),
        (lambda: list(unique([BASE, None])), "row 1 is None"),
        (lambda: list(unique([{"text": None}])), "row 0: .* None .* '' stands for a missing text"),
        (lambda: list(unique([{"text": float("nan")}])), "nan .* '' stands for a missing text"),
        (lambda: list(unique([{"text": b"a"}])), "decode it first"),
        (lambda: list(unique([{"body": BASE}])), "row 0 has no 'text', but body"),
    ]:
        with pytest.raises((TypeError, ValueError, KeyError), match=said):
            call()
