import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path

import pytest

from streamfilter.cli import main
from streamfilter.index.directory.read_only_view import viewed
from streamfilter.index.directory.seed_file import read_seed
from streamfilter.killpoints import VARIABLE
from tests.filter.conftest import Desk
from tests.filter.stories import lines_of, stories, write
from tests.support.session.forge import Forge

COUNT = 300


@pytest.fixture
def source(desk: Desk) -> Path:
    return write(desk.path / "in", [*lines_of(stories(COUNT)), b"{"])


def process(desk: Desk, *arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "streamfilter", *arguments],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=desk.path,
    )


def kill(forge: Forge, desk: Desk, point: str, *arguments: str) -> None:
    """Run the filter until it kills itself at *point*."""
    command = [sys.executable, "-m", "streamfilter", *arguments]
    environment = {**os.environ, VARIABLE: point}
    dead = forge.launch(command, log=desk.path / "log", environment=environment)
    assert dead.wait(180) == -signal.SIGKILL, point


@pytest.mark.parametrize(
    "point", ["batch.decided", "index.applied", "batch.decided:3", "index.applied:5", "close.begun"]
)
@pytest.mark.slow
def test_killed_anywhere_and_run_again_it_gives_the_undisturbed_outputs(forge, desk, source, point):
    assert desk.run(source) == 0
    expected = desk.outputs
    desk.clear()
    arguments = [*desk.arguments(source, state="s"), "--set", "batch.documents=50"]
    kill(forge, desk, point, *arguments)
    assert not desk.unique.exists()
    assert desk.run(source, state="s", set="batch.documents=70") == 0
    assert desk.outputs == expected
    assert not list(desk.path.glob("*.partial"))


def test_run_again_on_its_state_it_gives_the_same_bytes(desk, source, capsys):
    assert desk.run(source, state="s") == 0
    expected = desk.outputs
    for _ in range(2):
        desk.clear()
        assert desk.run(source, state="s") == 0
        assert desk.outputs == expected
    assert f"{COUNT + 1:,} re-read" in capsys.readouterr().err


def test_a_random_seed_is_kept_with_the_state(desk: Desk, source: Path) -> None:
    arguments = ["filter", str(source), "--unique", str(desk.unique), "--duplicates",
                 str(desk.duplicates), "--dead-letter", str(desk.dead), "--state",
                 str(desk.path / "s")]  # fmt: skip
    found = []
    for _ in range(2):
        assert process(desk, *arguments).wait(60) == 0
        found.append(desk.outputs)
    assert found[0] == found[1]


def test_later_runs_know_what_earlier_ones_saw(desk: Desk) -> None:
    lines = lines_of(stories(200))
    assert desk.run(write(desk.path / "whole", lines)) == 0
    unique = set(desk.unique.read_bytes().splitlines())
    first = write(desk.path / "monday", lines[:120])
    second = write(desk.path / "tuesday", lines[120:])
    assert desk.run(first, state="s") == 0
    assert desk.run(second, state="s") == 0
    tuesday = desk.outputs
    assert desk.unique.read_bytes().splitlines() == [line for line in lines[120:] if line in unique]
    assert desk.run(first, state="s") == 0
    assert set(desk.unique.read_bytes().splitlines()) == unique & set(lines[:120])
    assert desk.run(second, state="s") == 0
    assert desk.outputs == tuesday


def test_a_match_of_an_earlier_run_names_its_file_and_line(desk: Desk) -> None:
    line = lines_of(stories(1))[0]
    first = write(desk.path / "monday", [b"", line])
    second = write(desk.path / "tuesday", [line])
    assert desk.run(first, state="s") == 0
    assert desk.run(second, state="s") == 0
    match = desk.records(desk.duplicates)[0]["matches"][0]
    assert (match["topic"], match["partition"], match["offset"]) == (str(first), 0, 2)


def test_lines_added_to_a_file_are_new_and_the_others_keep_their_verdicts(desk: Desk) -> None:
    lines = lines_of(stories(200))
    path = desk.path / "in"
    path.write_bytes(b"\n".join(lines[:130]))  # no line feed at its end
    assert desk.run(path, state="s") == 0
    write(path, lines)
    assert desk.run(path, state="s") == 0
    grown = desk.outputs
    assert desk.run(path) == 0
    assert desk.outputs == grown


@pytest.mark.parametrize("change", ["edited", "shorter"])
def test_a_file_that_changed_under_its_index_is_refused(desk, change, capsys):
    lines = lines_of(stories(50))
    path = write(desk.path / "in", lines)
    assert desk.run(path, state="s") == 0
    before = desk.outputs
    write(
        path, lines[:-1] if change == "shorter" else [*lines[:20], lines[0], *lines[21:], lines[1]]
    )
    assert desk.run(path, state="s") == 78
    assert "is not what it was" in capsys.readouterr().err
    assert desk.outputs == before


def test_the_digest_of_an_earlier_version_is_compared_with_its_own_kind(desk: Desk, capsys) -> None:
    lines = lines_of(stories(60))
    path, table = write(desk.path / "in", lines[:40]), desk.path / "s" / "sources.json"
    assert desk.run(path, state="s") == 0
    known = json.loads(table.read_text())
    assert known["sources"][0]["digest"].startswith("xxh3:")
    old = blake2b(b"".join(line + b"\n" for line in lines[:40]), digest_size=16).hexdigest()
    known["sources"][0]["digest"] = old
    table.write_text(json.dumps(known))
    write(path, lines)
    assert desk.run(path, state="s") == 0
    write(path, [lines[1], *lines[1:]])
    assert desk.run(path, state="s") == 78
    assert "is not what it was" in capsys.readouterr().err


@pytest.mark.slow
def test_other_data_on_standard_input_has_another_name(desk: Desk) -> None:
    lines = lines_of(stories(30))
    for name, chunk, code in (("monday", lines[:20], 0), ("monday", lines[20:], 78),
                              ("tuesday", lines[20:], 0)):  # fmt: skip
        run = process(desk, *desk.arguments("-", state="s", stdin_name=name))
        run.communicate(gzip.compress(b"\n".join(chunk)), timeout=180)
        assert run.returncode == code
    assert desk.run(write(desk.path / "in", lines), state="t") == 0


def test_an_index_of_another_scheme_is_refused(desk, source, capsys):
    assert desk.run(source, state="s") == 0
    before = desk.outputs
    assert desk.run(source, state="s", shingle="char:5") == 78
    assert "shingling" in capsys.readouterr().err
    assert desk.outputs == before


def test_two_runs_do_not_share_a_state_or_an_output(desk: Desk, source: Path) -> None:
    first = process(desk, *desk.arguments("-", state="s"))
    deadline = time.monotonic() + 180
    while not (desk.path / "unique.partial").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert desk.run(source, state="s", unique=desk.path / "other") == 75
    assert desk.run(source) == 75
    first.communicate(b"", timeout=180)
    assert first.returncode == 0
    assert desk.run(source) == 0


def test_a_state_without_its_table_of_sources_is_refused(desk: Desk, source: Path) -> None:
    assert desk.run(source, state="s") == 0
    table = desk.path / "s" / "sources.json"
    content = table.read_bytes()
    table.write_bytes(content[:-5])
    assert desk.run(source, state="s") == 78
    table.unlink()
    assert desk.run(source, state="s") == 78
    table.write_bytes(content)
    assert desk.run(source, state="s") == 0


@pytest.mark.slow
def test_a_state_forgets_what_is_beyond_its_limit_and_the_limit_may_change_at_any_run(desk, capsys):
    """Of 6,000 texts the last 1,000 are remembered; what is gone does not come back."""
    texts = [f"a story of its own, number {n} {n * n} {n + 7} {3 * n}" for n in range(7_000)]

    def told(name: str, numbers: Sequence[int], limit: str) -> list[str]:
        lines = [json.dumps({"id": f"{name}-{n}", "text": texts[n]}).encode() for n in numbers]
        source = write(desk.path / name, lines)
        arguments = desk.arguments(source, state="s", set=f"index.documents_max={limit}")
        assert main([*arguments, "--set", "batch.documents=100"]) == 0
        return [json.loads(line)["id"] for line in desk.duplicates.read_bytes().splitlines()]

    again = [0, 1, 1_000, 5_999, 5_500]
    assert told("a", [*range(6_000), *again], "1000") == ["a-5999", "a-5500"]
    with viewed(desk.path / "s" / "index", seed=read_seed(desk.seed)) as view:
        assert view.progress.horizon == 5_005
        assert view.windows[0].number > 0
        stored = sum(len(part) for part in view.scan())
        assert stored == len(view)
    assert told("b", [0, 1, 5_600, 5], "null") == ["b-0", "b-1", "b-5600"]
    assert told("c", [*range(6_000, 6_400), 0, 5], "null") == ["c-0", "c-5"]
    capsys.readouterr()
    assert told("b", [0, 1, 5_600, 5], "1000") == ["b-0", "b-1", "b-5600"]
    assert "forgotten" not in capsys.readouterr().err
    told("a", [*range(6_000), *again], "1000")
    assert "lines that are forgotten" in capsys.readouterr().err


@pytest.mark.slow
def test_a_run_that_is_repeated_after_what_it_met_was_dropped_says_so(desk, capsys):
    """Its own lines are remembered longer than the lines before them."""
    lines = [json.dumps({"id": n, "text": f"story {n} {n * n} {n + 7}"}) for n in range(6_500)]

    def told(name: str, begin: int, end: int) -> int:
        source = write(desk.path / name, [line.encode() for line in lines[begin:end]])
        arguments = desk.arguments(source, state="s", set="index.documents_max=1000")
        assert main(arguments) == 0
        return len(desk.duplicates.read_bytes().splitlines())

    assert [told("a", 0, 4_000), told("b", 3_990, 4_000), told("b", 3_990, 4_000)] == [0, 10, 10]
    assert "judged before" not in capsys.readouterr().err
    told("c", 4_000, 6_500)
    assert "judged before" not in capsys.readouterr().err
    assert told("b", 3_990, 4_000) == 0
    assert "b was judged before, and it or what it met" in capsys.readouterr().err


@pytest.mark.slow(8)
def test_killed_anywhere_a_run_that_forgets_gives_the_undisturbed_outputs(forge, desk):
    """Windows are gone by then, and with them what the first lines met; whatever the batches."""
    texts = [f"a story of its own, number {n} {n * n} {n + 7} {3 * n}" for n in range(3_600)]
    again = [texts[n - 900 if n % 7 == 0 else n - 1_100] for n in range(1_100, 3_600, 5)]
    lines = [*texts, *again, *texts[3_300:], *again[:300]]
    documents = [{"id": f"d{n}", "text": text} for n, text in enumerate(lines)]
    before = write(desk.path / "before", lines_of(documents[:1_500]))
    source = write(desk.path / "source", lines_of(documents))

    def run(source: Path, state: str, batch: int, *more: str) -> list[str]:
        settings = ("index.documents_max=1000", f"batch.documents={batch}", *more)
        sets = [part for each in settings for part in ("--set", each)]
        return [*desk.arguments(source, state=state), *sets]

    outputs = []
    for state, batch in (("calm", 4_000), ("small", 70)):
        assert main(run(before, state, batch)) == 0
        assert main(run(source, state, batch)) == 0
        outputs.append(desk.outputs)
    assert outputs[0] == outputs[1]
    for point, *limit in (
        ("batch.decided:6",), ("index.applied:25", "index.retention=30d"), ("close.begun",)
    ):  # fmt: skip
        shutil.rmtree(desk.path / "s", ignore_errors=True)
        assert main(run(before, "s", 4_000, *limit)) == 0
        desk.clear()
        for _ in range(2):
            kill(forge, desk, point, *run(source, "s", 100, *limit))
            assert not desk.unique.exists(), point
        assert main(run(source, "s", 333, *limit)) == 0
        assert desk.outputs == outputs[0], point
        assert not (desk.path / "s" / "unfinished").exists(), point


@pytest.mark.slow
def test_an_unfinished_run_is_begun_again_by_its_inputs_and_by_no_others(forge, desk, source):
    def run(*sources: Path) -> list[str]:
        arguments = desk.arguments(sources[0], state="s")
        return [*arguments, *map(str, sources[1:]), "--set", "index.documents_max=1000"]

    def judged() -> int:
        with viewed(desk.path / "s" / "index", seed=read_seed(desk.seed)) as view:
            return view.progress.next_ordinal

    other = write(desk.path / "other", lines_of([{"id": "x", "text": "a story of another kind"}]))
    for cures in (run(other), run(source), run(source, other)):
        shutil.rmtree(desk.path / "s", ignore_errors=True)
        kill(forge, desk, "close.begun", *run(source))
        whole = judged()
        assert (desk.path / "s" / "unfinished" / "run.json").exists()
        assert main(cures) == 0
        assert judged() == whole + (str(other) in cures)
        assert not (desk.path / "s" / "unfinished").exists()
