"""The README is the product's face: its commands, its map and its names are held to the code."""

import re
from pathlib import Path

import pytest

from streamfilter.metrics_reference import table

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
FILES = sorted(p for p in (ROOT / "streamfilter").rglob("*.py") if p.name != "__init__.py")


def section(title: str) -> str:
    found = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", README, re.M | re.S)
    assert found, f"no section {title}"
    return found.group(1)


@pytest.mark.parametrize("title", ["Try it", "Test it"])
def test_the_first_code_block_of_a_command_section_is_one_line(title):
    block = re.search(r"^```\n(.*?)^```", section(title), re.M | re.S)
    assert block
    assert len(block.group(1).splitlines()) == 1


def test_the_file_map_names_every_file_and_no_other():
    named, folder = set(), ""
    for line in section("File map").splitlines():
        if found := re.match(r"\*\*`(streamfilter/[\w/]*)`\*\*", line):
            folder = found.group(1)
        elif found := re.match(r"- `(\w+\.py)` \S", line):
            named.add(folder + found.group(1))
    assert named == {str(path.relative_to(ROOT)) for path in FILES}


def test_the_table_of_metrics_is_the_catalogue():
    assert table() in section("Metrics")


def test_nothing_is_left_to_be_filled_in():
    assert "@@" not in README
    assert "TODO" not in README


@pytest.mark.parametrize("path", sorted(set(re.findall(r"\((tests/bench_runs/[\w.]+)\)", README))))
def test_every_picture_and_run_that_is_shown_is_there(path):
    assert (ROOT / path).is_file()
