"""A backup of every released format is restored, and the index is worked with.

`formats/N.tar.gz` is a target that the version with manifests of version N wrote: a `Deduplicator`
of 20 texts. None of them is to be written again, for that would test nothing.
"""

import tarfile
from pathlib import Path

import pytest

from streamfilter import Deduplicator
from streamfilter.backup.download import restorable
from streamfilter.backup.manifest import VERSION
from streamfilter.backup.targets import store_at
from streamfilter.cli import main
from tests.support.old_version import unpack

FORMATS = Path(__file__).parent / "formats"


def test_there_is_a_backup_of_every_format() -> None:
    names = {file.name for file in FORMATS.iterdir()}
    assert names == {f"{number}.tar.gz" for number in range(1, VERSION + 1)}


@pytest.mark.parametrize("number", range(1, VERSION + 1))
def test_a_backup_of_a_released_format_is_restored_and_written_on(number, tmp_path):
    with tarfile.open(FORMATS / f"{number}.tar.gz") as stored:
        unpack(stored, tmp_path)
    target, state = tmp_path / "target", tmp_path / "state"
    assert main(["restore", "--from", str(target), "--state", str(state)]) == 0
    with Deduplicator.open(state) as stories:
        assert list(stories) == [f"d{n}" for n in range(20)]
        text = "story number 3 of the old mill by the river that was sold to family 21"
        (found,) = [each for each in stories.add("new", text) if each.id == "d3"]
        assert found.same_text
    # The next backup goes beside it, in the present format, and is the one that is found.
    assert main(["check", "--index", "--state", str(state)]) == 0
    assert main(["backup", "--state", str(state), "--to", str(target)]) == 0
    assert [each.documents for each in restorable(store_at(target))] == [21]
