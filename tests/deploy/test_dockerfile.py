"""The image: what the linter says, and what an operator relies on."""

import re
import sys
import tomllib
from pathlib import Path

from tests.deploy.tools import accepted

ROOT = Path(__file__).parents[2]
DOCKERFILE = ROOT / "deploy" / "Dockerfile"
TEXT = DOCKERFILE.read_text()
BUILD, FINAL = re.split(r"(?m)^(?=FROM )", TEXT)[1:]
HADOLINT = Path(sys.executable).parent / "hadolint"


def lint(path: Path) -> str:
    return accepted([str(HADOLINT), "--failure-threshold", "style", str(path)])


def test_the_linter_has_nothing_to_say():
    assert lint(DOCKERFILE) == ""


def test_it_does_not_run_as_root_and_says_so_by_number():
    users = re.findall(r"^USER (\S+)$", FINAL, re.M)
    assert users == ["10001:10001"]
    after = FINAL.partition("USER ")[2]
    assert "RUN " not in after
    assert "COPY " not in after


def test_it_ships_nothing_that_only_builds():
    assert "AS build" in BUILD
    assert "gcc libc6-dev" in BUILD
    assert not re.search("gcc|apt-get", FINAL)
    assert re.findall(r"^(?:COPY|ADD) .*", FINAL, re.M) == [
        "COPY --from=build /opt/streamfilter /opt/streamfilter"
    ]


def test_it_leaves_out_what_only_who_builds_numpy_needs_and_runs_without_it():
    (left_out,) = re.findall(r"^RUN find (?:.*\\\n)*.*", BUILD, re.M)
    for each in ("-name tests", "-name '*.a'", "numpy/f2py"):
        assert each in left_out
    assert left_out.endswith("/streamfilter demo --seconds 3 > /dev/null")


def test_everything_it_installs_is_pinned_by_hash():
    """What builds the wheel, too: an isolated build takes what is newest today."""
    assert re.findall(r"pip install (?:.*\\\n)*.*", BUILD) == [
        "pip install --compile --require-hashes \\\n        -r requirements.lock -r build.lock",
        "pip install --compile --no-deps --no-build-isolation . \\\n"
        "    && /opt/streamfilter/bin/python -P -m streamfilter.similarity.kernel.library \\\n"
        "    && /opt/streamfilter/bin/streamfilter --version \\\n"
        "    && /opt/streamfilter/bin/pip uninstall -q -y setuptools pip",
    ]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"]
    shipped = ("records", "avro", "html", "patterns", "otel")
    for lock, wanted in {
        "requirements.lock": [
            *project["project"]["dependencies"],
            *(each for name in shipped for each in extras[name]),
        ],
        "build.lock": project["build-system"]["requires"],
    }.items():
        text = (ROOT / "deploy" / lock).read_text()
        entries = dict(re.findall(r"^([a-z0-9-]+)==((?:.*\\\n)*.*)", text, re.M))
        assert {re.split(r"[\[<>=!~ ;]", each)[0] for each in wanted} <= entries.keys()
        assert all("--hash=sha256:" in entry for entry in entries.values())


def test_no_start_compiles_anything():
    """Nothing writes bytecode in a container: what the image lacks is compiled at every start."""
    assert "PYTHONDONTWRITEBYTECODE=1" in FINAL
    assert all("--compile" in line for line in re.findall(r".*pip install.*", BUILD))
    left_out = re.search(r"compileall -q -x '/\((.*)\)/'", FINAL)[1].split("|")
    assert {"site-packages", "dist-packages", "lib2to3", "test"} <= set(left_out)
    assert """python -c 'import sysconfig; print(sysconfig.get_path("stdlib"))'""" in FINAL


def test_both_stages_have_one_base_and_it_may_be_another():
    """Such as a digest, or a Debian where no image can be pulled (tests/containers)."""
    assert re.findall(r"^ARG (\w+)=\S+$", TEXT, re.M) == ["PYTHON"]
    assert re.findall(r"^FROM (\S+)", TEXT, re.M) == ["${PYTHON}", "${PYTHON}"]


def test_it_is_healthy_while_it_lives_and_stops_by_sigterm():
    assert "/livez" in re.search(r"HEALTHCHECK.*\n.*", FINAL)[0]
    assert "STOPSIGNAL SIGTERM" in FINAL
    assert 'ENTRYPOINT ["streamfilter"]' in FINAL  # no shell between the signal and us


def test_what_is_copied_is_not_ignored():
    ignored = (DOCKERFILE.parent / "Dockerfile.dockerignore").read_text().split()
    for source in re.findall(r"^COPY ((?!--)[^\n]+) \S+$", BUILD, re.M):
        for each in source.split():
            assert f"!{each}" in ignored
            assert (ROOT / each).exists()
