"""Row 38: an index of every released format is read for what it is, and others are refused.

`formats/N.tar.gz` is a directory that the release of layout N wrote: its first batches, the last
ones only in its log, as a kill leaves it. `python -m tests.index.test_formats` writes the present
layout's; it is not to be written again, for that would test nothing. That of layout 3 was killed
in a merge: the list names runs of two levels, and there are pages of a run that it does not name.
"""

import tarfile
import tempfile
from pathlib import Path
from typing import Any

import pytest

from streamfilter.index.bands.run_rows import DIRECTORY, RECENT, decode_directory, run_range
from streamfilter.index.directory.lock_and_marker import LAYOUT, MARKER_NAME
from streamfilter.index.directory.opening import open_index
from streamfilter.index.directory.read_only_view import viewed
from streamfilter.index.errors import IndexDamaged, IndexMismatch
from streamfilter.similarity.columns import Widths
from tests.index.conftest import SMALL
from tests.index.damage.test_crash import CAP, batch, opened
from tests.index.plain_index import PlainIndex
from tests.index.samples import SLOTS, as_a_kill_leaves_it, identity
from tests.support.old_version import unpack
from tests.support.values import replace

FORMATS = Path(__file__).parent / "formats"
BATCHES = 6  # of an index of layout 2
WRITTEN = {2: BATCHES, 3: 15}


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A directory of the present layout."""
    return unpacked(LAYOUT, tmp_path)


def unpacked(number: int, path: Path) -> Path:
    with tarfile.open(FORMATS / f"{number}.tar.gz") as stored:
        unpack(stored, path)
    (path / "state").chmod(0o700)
    return path / "state"


def test_there_is_a_directory_of_every_layout() -> None:
    names = {file.name for file in FORMATS.iterdir()}
    assert names == {f"{number}.tar.gz" for number in range(1, LAYOUT + 1)}


def test_the_directory_of_layout_3_was_killed_while_it_merged_runs(state: Path) -> None:
    view: Any
    with viewed(state) as view:  # the owner would go on at once
        rows = dict(view._store.items("bands-0"))
    listed = {run.number: run.level for run in decode_directory(rows[DIRECTORY]).runs}
    assert set(listed.values()) == {0, 1}
    assert any(name.startswith(RECENT) for name in rows)
    ranges = [run_range(n, n) for n in range(1, 20) if n not in listed]
    assert any(begin <= name < end for name in rows for begin, end in ranges)


@pytest.mark.parametrize("layout", [2, 3])
def test_a_directory_of_a_known_layout_is_read_to_the_byte_and_worked_with(tmp_path, layout):
    state = unpacked(layout, tmp_path)
    model = PlainIndex(Widths(SLOTS), bucket_cap=CAP)
    for number in range(WRITTEN[layout]):
        model.apply(batch(number))
    for _ in range(2):
        index = opened(state)
        assert list(index.dump()) == list(model.dump())
        index.apply(batch(index.progress.next_batch))
        model.apply(batch(model.progress.next_batch))
        index.close()
    assert f'"format": {LAYOUT}' in (state / MARKER_NAME).read_text()  # older versions refuse it


@pytest.mark.parametrize("number", ["0", "1", "99", "-1"])
def test_another_format_is_refused_by_its_number_and_left_as_it_is(state, number):
    marker = state / MARKER_NAME
    whole = marker.read_text()
    marker.write_text(whole.replace(f'"format": {LAYOUT}', f'"format": {number}'))
    assert marker.read_text() != whole
    with pytest.raises(IndexMismatch, match=f"format: it has {number}, this version {LAYOUT}"):
        open_index(state, identity(), bucket_cap=CAP, memory=SMALL)
    marker.write_text(whole)  # the version that wrote it finds it whole
    opened(state).close()


def test_a_directory_of_format_1_whose_full_buckets_turned_documents_away_is_refused(tmp_path):
    with pytest.raises(IndexMismatch, match=r"format: it has 1, this version(.|\n)*1. rebuild"):
        opened(unpacked(1, tmp_path))


@pytest.mark.parametrize("number", ['"1"', "null", "1.5", "[]"])
def test_a_format_that_is_no_number_is_damage(state: Path, number: str) -> None:
    marker = state / MARKER_NAME
    marker.write_text(marker.read_text().replace(f'"format": {LAYOUT}', f'"format": {number}'))
    with pytest.raises(IndexDamaged):
        open_index(state, identity(), bucket_cap=CAP, memory=SMALL)


def _write() -> None:
    """Write a directory of the present layout, without the notes that name this machine."""
    memory = replace(SMALL, fan=2)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory)
        for end in (WRITTEN[LAYOUT] - 6, WRITTEN[LAYOUT]):  # closed once, for tables
            index = open_index(path / "first", identity(), bucket_cap=CAP, memory=memory)
            for number in range(index.progress.next_batch, end):
                index.apply(batch(number))
            if end == WRITTEN[LAYOUT]:
                as_a_kill_leaves_it(path / "first", path / "state")
            index.close()
        for note in (*(path / "state" / "rocksdb").glob("LOG*"), path / "state" / "lock"):
            note.unlink()
        with tarfile.open(FORMATS / f"{LAYOUT}.tar.gz", "w:gz") as stored:
            stored.add(path / "state", "state", filter=_anonymous)


def _anonymous(info: tarfile.TarInfo) -> tarfile.TarInfo:
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    return info


if __name__ == "__main__":
    _write()
