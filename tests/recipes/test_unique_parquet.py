"""The tutorial runs as a reader runs it, and its answers are those of the commands."""

import re
import subprocess
import sys

import pyarrow.parquet as pq
import pytest

from streamfilter.cli import main
from tests.support.texts import ROOT

TUTORIAL = ROOT / "tests/recipes/unique_parquet.py"


@pytest.mark.slow(10)
def test_the_tutorial_makes_a_unique_file_and_two_pictures(tmp_path, monkeypatch):
    own = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}  # nothing of this user and machine
    ran = subprocess.run(
        [sys.executable, TUTORIAL], cwd=tmp_path, env=own, capture_output=True, text=True
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    for picture in ("similarities.png", "s-curve.png"):
        assert (tmp_path / picture).read_bytes().startswith(b"\x89PNG")
    monkeypatch.chdir(tmp_path)
    filtered = ["--unique", "filtered.parquet", "--duplicates", "again.jsonl"]
    assert main(["filter", "pages.parquet", *filtered]) == 0
    pages, kept = pq.read_table("pages.parquet"), pq.read_table("unique.parquet")
    assert kept.equals(pq.read_table("filtered.parquet"))
    assert 0 < len(kept) < len(pages)
    assert f"{len(pages):,} rows, {len(kept):,} of them unique" in ran.stdout
    assert main(["pairs", "pages.parquet", "--threshold", "0.5", "-o", "pairs.parquet"]) == 0
    found = re.search(r"([\d,]+) pairs from 0.5 on", ran.stdout)
    assert found
    # The object has hashes of its own: at the threshold each search may miss one pair in a hundred.
    wanted = len(pq.read_table("pairs.parquet"))
    assert int(found[1].replace(",", "")) == pytest.approx(wanted, rel=0.01)
    assert "\nrecall  " in ran.stdout
    # Without an id it is a place, as `filter` writes it: not one in a copy that is removed.
    missed = re.search(r"never became candidates.*\n  (.*)-0-(\d+)  and  ", ran.stdout)
    assert missed
    assert missed[1] == "pages.parquet"
    assert int(missed[2]) < len(pages)
