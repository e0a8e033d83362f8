"""An old version of streamfilter from this repository's own history, beside the present one."""

import io
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SAME_HASHES = "ae285f7bb536135730292715e0469d8bd0012096"
"""It hashes and writes as we do."""
SETTINGS_LIBRARY = '''
"""As much of pydantic-settings as the old version uses: it read its sources itself."""
from pydantic import BaseModel as BaseSettings, ConfigDict as SettingsConfigDict
PydanticBaseSettingsSource = object
'''


def old_version(directory: Path, commit: str) -> dict[str, str]:
    """Unpack the version of *commit* into *directory*; return the environment that runs it."""
    done = _archive(commit)
    if done.returncode and _is_shallow():
        _git("fetch", "--quiet", "--depth=1", "origin", commit)
        done = _archive(commit)
    if done.returncode:
        _missing(commit, done.stderr.decode(errors="replace").strip())
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        unpack(archive, directory)
    # Not installed any more, perhaps: the old version brings what it took from it.
    (directory / "pydantic_settings.py").write_text(SETTINGS_LIBRARY)
    # Safe path: else `-m` finds the present version in the working directory first.
    environment = {"PYTHONPATH": str(directory), "PYTHONSAFEPATH": "1"}
    _refuse_the_present_one(directory, environment)
    return environment


def unpack(archive: tarfile.TarFile, directory: Path) -> None:
    """Unpack an archive of our own, as data where this Python knows of filters (from 3.11.4 on)."""
    if hasattr(tarfile, "data_filter"):
        archive.extraction_filter = tarfile.data_filter
    archive.extractall(directory)


def _git(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, timeout=120)


def _archive(commit: str) -> subprocess.CompletedProcess[bytes]:
    return _git("archive", "--format=tar", commit, "streamfilter")


def _is_shallow() -> bool:
    return _git("rev-parse", "--is-shallow-repository").stdout.strip() == b"true"


def _missing(commit: str, why: str) -> None:
    told = f"an upgrade needs commit {commit[:7]} of the history: git fetch --unshallow ({why})"
    if os.environ.get("CI", "").lower() in {"1", "true"}:
        pytest.fail(f"CI must have it. {told}")
    pytest.skip(told)


def _refuse_the_present_one(directory: Path, environment: dict[str, str]) -> None:
    code = "import streamfilter; print(streamfilter.__file__)"
    found = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        check=True,
        timeout=120,
    )
    assert Path(found.stdout.decode().strip()).is_relative_to(directory)
