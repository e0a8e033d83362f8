"""What is released: a version that the texts know, and files that install by themselves."""

import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import streamfilter
from deploy.local.node import free_ports
from tests.ci.test_additions import LEFT_OUT
from tests.support.texts import ROOT, section

VERSION = streamfilter.__version__
LOCK, DOCKERFILE = ROOT / "deploy/requirements.lock", ROOT / "deploy/Dockerfile"


def run(*command: str | Path, directory: Path) -> str:
    """Return what a command prints that knows nothing of this environment."""
    ran = subprocess.run(
        [str(each) for each in command],
        cwd=directory,
        env={"PATH": "/usr/bin:/bin", "HOME": str(directory), **pip_settings()},
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout + ran.stderr


def pip_settings() -> dict[str, str]:
    """Return where pip may ask, and what it keeps: the one thing that is the machine's."""
    asked = [sys.executable, "-m", "pip", "config", "list"]
    found = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    pairs = re.findall(r"^[\w:.-]*\.([\w-]+)='(.*)'$", found, re.M)
    kept = {f"PIP_{name.upper().replace('-', '_')}": value for name, value in pairs}
    cache = subprocess.run(
        [sys.executable, "-m", "pip", "cache", "dir"], capture_output=True, text=True
    )
    return kept | ({"PIP_CACHE_DIR": cache.stdout.strip()} if cache.returncode == 0 else {})


def check_description(wheel: Path) -> None:
    """The README is whole on the page of a package index, without links that are dead there."""
    with zipfile.ZipFile(wheel) as archive:
        text = archive.read(f"streamfilter-{VERSION}.dist-info/METADATA").decode()
    fields, _, description = text.partition("\n\n")
    assert "Description-Content-Type: text/markdown" in fields
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert re.findall("^#.*", description, re.M) == re.findall("^#.*", readme, re.M)
    dead = re.compile(r"\]\((?!https?:)")
    assert dead.search(readme), "nothing to mend"
    assert not dead.search(description)
    assert not re.search(r"<(?:img|a)\b", description)


@pytest.mark.slow(60)
def test_what_is_built_installs_into_an_empty_environment_and_passes_the_demo(tmp_path):
    tree, dist, empty = tmp_path / "tree", tmp_path / "dist", tmp_path / "empty"
    shutil.copytree(ROOT, tree, ignore=LEFT_OUT)
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", dist, tree, directory=tmp_path)
    sdist, wheel = sorted(dist.iterdir(), key=lambda path: path.suffix)
    assert sdist.name == f"streamfilter-{VERSION}.tar.gz"
    assert wheel.name == f"streamfilter-{VERSION}-py3-none-any.whl"
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {
        "README.md",
        "pyproject.toml",
        "setup.py",
        "streamfilter/monitoring/page/index.html",
    } <= names
    check_description(wheel)
    pins = re.findall(r"^[\w.-]+==[^\\\n]+", LOCK.read_text(), re.M)
    (tmp_path / "pins").write_text("\n".join(pins))
    # By our pip, without bytecode: a pip of its own and compiling all of it are 10 s of a core.
    run(sys.executable, "-m", "venv", "--without-pip", empty, directory=tmp_path)
    pip = [sys.executable, "-m", "pip", "--python", empty / "bin/python"]
    install = ["install", "-q", "--no-compile", "-c", "pins", wheel]
    run(*pip, *install, directory=tmp_path)
    # As the image does it: in the folder of the sources, which are not what is shipped.
    (compiling,) = re.findall(r"/opt/streamfilter/(bin/python) (.+) \\\n", DOCKERFILE.read_text())
    run(empty / compiling[0], *compiling[1].split(), directory=tree)
    printed = run(empty / "bin/streamfilter", "--version", directory=tmp_path)
    assert printed.splitlines()[0].endswith(VERSION)
    assert f"signing: C kernel ({empty}" in printed, "no start compiles it"
    demo = [empty / "bin/streamfilter", "demo", "--stories", "150", "--rate", "300"]
    page = f"127.0.0.1:{free_ports(1)[0]}"  # the usual port may be another test's
    printed = run(*demo, "--http", page, directory=tmp_path)
    assert "every record is in exactly one place" in printed
    assert re.search(r"recall +1\.0000", printed), printed


def test_the_newest_change_is_of_this_version():
    assert re.findall(r"^### (\S+)", section("Changes"), re.M)[0] == VERSION


def test_the_image_is_tagged_with_this_version():
    for path in (ROOT / "deploy/README.md", DOCKERFILE):
        assert set(re.findall(r"-t streamfilter:(\S+)", path.read_text())) == {VERSION}
    kustomization = (ROOT / "deploy/kubernetes/base/kustomization.yaml").read_text()
    assert f"newTag: {VERSION}}}" in kustomization


def test_what_is_stable_names_what_holds_it():
    lines = [line for line in section("What is stable").splitlines() if line.startswith("| ")]
    rows = [line.split("|")[:4] for line in lines[1:]]
    assert len(rows) >= 9
    for _, what, _, held in rows:
        assert re.search(r"\]\(\.\./(tests|config)/", held), what
