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


LOCKS = sorted((ROOT / "tests").glob("*.lock"))


def locked() -> dict[str, str]:
    """Return each locked requirement's name with its whole entry."""
    text = "".join(lock.read_text(encoding="utf-8") for lock in LOCKS)
    entries = re.findall(r"^([a-z0-9-]+)==((?:.*\\\n)*.*)", text, re.MULTILINE)
    return dict(entries)


def test_everything_that_is_installed_before_the_tests_is_locked():
    steps = [step for step in command_of("Test it").split(" && ") if "pip install" in step]
    *locks, project = steps
    assert [step.partition("--require-hashes -r ")[2] for step in locks] == [
        str(lock.relative_to(ROOT)) for lock in LOCKS
    ]
    assert "--no-deps -e ." in project


def test_every_dependency_is_locked_with_hashes():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["test"]]
    names = {re.split(r"[\[<>=!~ ;]", requirement)[0] for requirement in wanted}
    assert names <= locked().keys()
    assert all("--hash=sha256:" in entry for entry in locked().values())


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_a_lock_names_no_registry(lock):
    text = lock.read_text(encoding="utf-8")
    assert not re.search(r"https?://|--index-url|--find-links", text)
