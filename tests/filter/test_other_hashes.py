"""An index of before `scheme.algorithm` 2 has other hashes, and cannot be gone on with.

The marker beside this file is what 79445e8, the commit before, wrote for three documents.
"""

from pathlib import Path

import pytest

from streamfilter.cli import main
from streamfilter.index.directory.lock_and_marker import LAYOUT, MARKER_NAME
from streamfilter.index.format import FORMAT
from tests.filter.conftest import Desk
from tests.filter.stories import lines_of, stories, write

MARKER = Path(__file__).parent / "index-of-algorithm-1.json"
CONFIG = 78


@pytest.mark.parametrize(
    ("written_format", "told_as"),
    [
        (1, f"format: it has 1, this version {LAYOUT}"),
        (FORMAT, "scheme.algorithm: it has 1, wanted is 3"),
    ],
)
def test_an_index_of_other_hashes_is_refused_by_name_with_the_ways_out(
    desk: Desk, capsys: pytest.CaptureFixture[str], written_format: int, told_as: str
) -> None:
    source = write(desk.path / "in", lines_of(stories(10)))
    assert desk.run(source, state="s") == 0
    desk.clear()
    marker = desk.path / "s" / "index" / MARKER_NAME
    written = MARKER.read_bytes().replace(b'"format": 1', b'"format": %d' % written_format)
    marker.write_bytes(written)
    assert desk.run(source, state="s") == CONFIG
    printed = capsys.readouterr().err
    assert told_as in printed
    assert "does not fit the configuration" in printed
    for way in (
        "if format or scheme.algorithm differs: to the version",
        "1. new memory",
        "--state",
        "2. reset",
    ):
        assert way in printed
    assert "changelog" not in printed  # a run over files has none
    assert not desk.unique.exists()
    assert marker.read_bytes() == written


@pytest.mark.parametrize(
    ("threshold", "found", "recall"), [(0.9, "0.999", 0.99), (0.5, "0.222", 0.222)]
)
def test_another_threshold_alone_says_what_the_keys_find_there_and_how_to_keep_them(
    desk: Desk, capsys: pytest.CaptureFixture[str], threshold: float, found: str, recall: float
) -> None:
    source = write(desk.path / "in", lines_of(stories(10)))
    assert desk.run(source, state="s") == 0
    assert desk.run(source, state="s", threshold=threshold) == CONFIG
    printed = capsys.readouterr().err
    assert "its keys, 16 x 6, find of the pairs" in printed
    assert f"{found} at {threshold}" in printed
    assert "similarity.bands: 16 and similarity.rows: 6 keep it" in printed
    kept = ["similarity.bands=16", "similarity.rows=6", f"similarity.recall={recall}"]
    kept = [f"--set={each}" for each in kept]
    for said in (True, False):  # a changed policy is said once
        assert main([*desk.arguments(source, state="s", threshold=threshold), *kept]) == 0
        change = f"threshold: 0.8 -> {threshold}; its keys, 16 x 6, find {found} of the pairs at"
        assert (f"{change} {threshold}" in capsys.readouterr().err) == said
