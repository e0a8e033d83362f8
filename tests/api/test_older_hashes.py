"""An index of an older algorithm is refused wherever it is opened: its name, and what changed."""

import json
from pathlib import Path

import pytest

from streamfilter import Deduplicator
from streamfilter.cli import main
from streamfilter.index.directory.lock_and_marker import MARKER_NAME
from streamfilter.index.errors import IndexMismatch
from streamfilter.similarity.scheme import ALGORITHM, CHANGES, scheme_of

TEXT = "the harbour authority said on Tuesday that the crane would come in March"
CONFIG = 78


@pytest.fixture
def older(tmp_path: Path) -> Path:
    """A directory as algorithm 2 left it: its scheme has the settings of today."""
    directory = tmp_path / "state"
    with Deduplicator(directory) as documents:
        documents.add("a", TEXT)
    marker = directory / MARKER_NAME
    fields = json.loads(marker.read_text())
    fields["identity"]["scheme"]["algorithm"] = 2
    marker.write_text(json.dumps(fields))
    return directory


def test_a_deduplicator_refuses_it_and_says_what_changed(older: Path) -> None:
    with pytest.raises(IndexMismatch) as refused:
        Deduplicator(older)
    said = str(refused.value)
    assert f"scheme.algorithm: it has 2, wanted is {ALGORITHM}" in said
    assert "3: combining marks belong to their words" in said
    assert CHANGES[2] not in said
    assert "the version of streamfilter that made it" in said


def test_what_looks_into_an_index_refuses_it_too(older, capsys):
    assert main(["query", TEXT, "--state", str(older)]) == CONFIG
    assert f"scheme.algorithm: it has 2, wanted is {ALGORITHM}" in capsys.readouterr().err


def test_no_sketcher_is_made_of_it_either() -> None:
    with pytest.raises(ValueError, match="makes other tokens"):
        scheme_of('{"algorithm":2,"bands":1,"fields":["/name words"],"rows":8,"slots":8}')


def test_each_algorithm_says_what_it_changed() -> None:
    assert [*CHANGES] == [*range(2, ALGORITHM + 1)]
