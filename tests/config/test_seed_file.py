"""The operator's seed file: read where it is, never somewhere else, and never without end."""

import os
from pathlib import Path

import pytest

from streamfilter.config.loading import load_config
from streamfilter.index.directory.seed_file import FILE_BYTES_MAX, read_seed
from streamfilter.preflight.disk import check_disk
from streamfilter.stops import ConfigError

SECRET = b"thirty-two bytes of a secret seed"


def refused(path: Path) -> str:
    with pytest.raises(ConfigError) as told:
        read_seed(path)
    (problem,) = told.value.problems
    assert problem.key == "index.seed_file"
    config = load_config((), {}, [f"index.seed_file={path}", f"index.path={path.parent / 'x'}"])
    assert [each.got for each in check_disk(config, None)] == [problem.got]
    return problem.got


def test_a_link_out_of_the_directory_is_not_followed(tmp_path: Path) -> None:
    elsewhere, mine = tmp_path / "elsewhere", tmp_path / "mine"
    elsewhere.mkdir()
    mine.mkdir()
    (elsewhere / "seed").write_bytes(SECRET)
    (mine / "seed").symlink_to(elsewhere / "seed")
    (mine / "roundabout").symlink_to("seed")
    for name in ("seed", "roundabout"):
        assert "leads out of its directory" in refused(mine / name)


def test_a_secret_as_kubernetes_mounts_it_is_read(tmp_path: Path) -> None:
    (tmp_path / "..2026_11_22").mkdir()
    (tmp_path / "..2026_11_22" / "seed").write_bytes(SECRET)
    (tmp_path / "..data").symlink_to("..2026_11_22")
    (tmp_path / "seed").symlink_to("..data/seed")
    (tmp_path / "plain").write_bytes(SECRET)
    assert read_seed(tmp_path / "seed") == read_seed(tmp_path / "plain")
    (tmp_path / "volume").symlink_to(tmp_path)  # the directory itself may be a link, as /var/run is
    assert read_seed(tmp_path / "volume" / "seed") == read_seed(tmp_path / "plain")


def test_what_is_no_file_or_has_no_end_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "directory").mkdir()
    (tmp_path / "short").write_bytes(b"x" * 15)
    (tmp_path / "long").write_bytes(bytes(FILE_BYTES_MAX + 1))
    (tmp_path / "loop").symlink_to("loop")
    assert refused(tmp_path / "pipe").endswith("is no file")
    assert refused(tmp_path / "directory").endswith("is no file")
    assert "holds 15 bytes" in refused(tmp_path / "short")
    assert "more than a megabyte" in refused(tmp_path / "long")
    assert "cannot be read" in refused(tmp_path / "absent")
    assert "cannot be read" in refused(tmp_path / "loop")
