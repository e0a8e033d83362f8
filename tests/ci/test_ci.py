"""CI and the README say the same: one command, and CI runs that very line."""

import os
import re
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
RUN = ROOT / ".ci" / "run"


def command_of(section: str) -> str:
    """Return the one line of the one code block of a README section."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    found = re.search(rf"^## {section}\n(.*?)(?=^## |\Z)", readme, re.MULTILINE | re.DOTALL)
    assert found, f"README.md has no section {section!r}"
    blocks = re.findall(r"^```\w*\n(.*?)^```", found[1], re.MULTILINE | re.DOTALL)
    assert len(blocks) == 1, f"{section!r} must have one code block, not {len(blocks)}"
    (line,) = blocks[0].strip().splitlines()
    return line


def test_ci_runs_the_very_line_of_the_readme():
    assert command_of("Test it") in RUN.read_text(encoding="utf-8").splitlines()


def test_the_hooks_before_a_commit_are_the_checks_of_ci():
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    (repository,) = hooks["repos"]
    assert repository["repo"] == "local"
    steps = command_of("Test it").split(" && ")
    checks = [step for step in steps if "ruff" in step]
    assert len(checks) == 2
    # mypy is a test there: tests/ci/test_types.py.
    assert [hook["entry"] for hook in repository["hooks"]] == [*checks, ".venv/bin/mypy"]
    assert {hook["language"] for hook in repository["hooks"]} == {"system"}
    assert not any(hook["pass_filenames"] for hook in repository["hooks"])


def test_ci_is_executable_stops_at_the_first_error_and_reads_no_input():
    text = RUN.read_text(encoding="utf-8")
    assert os.access(RUN, os.X_OK)
    assert "set -euo pipefail" in text
    assert "exec </dev/null" in text


def test_ci_makes_a_missing_broker_a_failure():
    assert "export CI=true" in RUN.read_text(encoding="utf-8")


@pytest.fixture
def locked() -> dict[str, str]:
    """Return each locked requirement's name with its whole entry."""
    text = (ROOT / "tests" / "requirements.lock").read_text(encoding="utf-8")
    entries = re.findall(r"^([a-z0-9-]+)==((?:.*\\\n)*.*)", text, re.MULTILINE)
    return dict(entries)


def test_every_dependency_is_locked_with_hashes(locked):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["test"]]
    names = {re.split(r"[\[<>=!~ ;]", requirement)[0] for requirement in wanted}
    assert names <= locked.keys()
    assert all("--hash=sha256:" in entry for entry in locked.values())


def test_the_lock_names_no_registry():
    text = (ROOT / "tests" / "requirements.lock").read_text(encoding="utf-8")
    assert not re.search(r"https?://|--index-url|--find-links", text)
