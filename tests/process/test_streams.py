"""Closed standard streams, and readers that have gone: no other exit code, no other data."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from streamfilter.demo.running_filter import Child
from streamfilter.process.limits import THREADS_MIN
from tests.filter.stories import lines_of, stories, write
from tests.kafka.story import records, texts, verdicts
from tests.support.filter_process import FilterProcess
from tests.support.stage import Stage

pytestmark = pytest.mark.slow  # each test starts the program, most of them more than once

SEED = 20_261_201
STREAMFILTER = ("-m", "streamfilter")
WAYS = ["0closed,1closed,2closed", "2closed", "2gone", "1gone,2gone"]
WITHOUT_ANY = "0closed,1closed,2gone"


def broken(how: str, *command: str, **options: str) -> list[str]:
    return [sys.executable, "-m", "tests.process.streams", how, *command]


def code_of(how: str, *command: str) -> int:
    return subprocess.run(broken(how, *STREAMFILTER, *command), timeout=120).returncode


@pytest.mark.parametrize("how", WAYS)
def test_filter_writes_the_same_and_ends_the_same(tmp_path: Path, how: str) -> None:
    source = write(tmp_path / "in", lines_of(stories(60)))
    unique, again = tmp_path / "unique", tmp_path / "again"
    command = ["filter", str(source), "--unique", str(unique), "--duplicates", str(again)]
    command += ["--state", str(tmp_path / "state")]
    assert code_of(how, *command) == 0
    kept = unique.read_bytes().splitlines()
    withheld = again.read_bytes().splitlines()
    assert len(kept) + len(withheld) == 60
    assert all(json.loads(line) for line in (*kept, *withheld))
    assert code_of("2closed", "check", "--index", "--state", str(tmp_path / "state")) == 0


def test_filter_refuses_to_write_records_where_no_one_can_read_them(tmp_path: Path) -> None:
    source = write(tmp_path / "in", lines_of(stories(10)))
    for how, code in (("1closed", 64), ("1gone", 141)):
        arguments = ["filter", str(source), "--unique", "-", "--duplicates", str(tmp_path / "d")]
        assert code_of(how, *arguments) == code
        assert not (tmp_path / "d").exists()
    assert (
        code_of("0closed", "filter", "-", "--unique", os.devnull, "--duplicates", os.devnull) == 64
    )


@pytest.mark.parametrize("how", WAYS[:3])
@pytest.mark.parametrize(("setting", "code"), [("log.level=info", 0), ("log.level=loud", 78)])
def test_a_small_verb_ends_the_same(how: str, setting: str, code: int) -> None:
    assert code_of(how, "check", "--set", setting) == code


def test_an_answer_is_given_in_a_locale_that_lacks_some_of_its_characters() -> None:
    """It ended with 70 and a traceback: the settings' reasons have an ellipsis."""
    environment = {**os.environ, "PYTHONIOENCODING": "latin-1", "PYTHONUTF8": "0"}
    command = [sys.executable, *STREAMFILTER, "init", "--reference"]
    done = subprocess.run(command, env=environment, capture_output=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"\\u2026" in done.stdout


def test_a_refusal_that_no_one_reads_is_one_all_the_same() -> None:
    assert {code_of(how, "run", "--bogus") for how in WAYS} == {64}


class Mute(FilterProcess):
    """`streamfilter run` that no one listens to."""

    def __init__(self, stage: Stage, how: str) -> None:
        config = stage.configuration(log={"level": "debug", "format": "json"})
        self.url = f"http://127.0.0.1:{json.loads(config.read_text())['http']['port']}"
        self.log = config.with_suffix(".log")
        # OpenBLAS starts a thread for each processor: this test is to be the same everywhere.
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
        command = broken(how, *STREAMFILTER, "run", "--config", str(config))
        self.child = Child(command, log=self.log, environment=environment)
        stage.processes.append(self)


def test_run_works_and_ends_the_same(embedded_stage) -> None:
    stage: Stage = embedded_stage()
    stage.produce(records(texts(random.Random(SEED), 60)))
    process = Mute(stage, WITHOUT_ANY)
    stage.drain(process)
    opened = {n: os.readlink(f"/proc/{process.child.pid}/fd/{n}") for n in (0, 1)}
    assert opened == {0: os.devnull, 1: os.devnull}  # and no table of the index
    threads = len(os.listdir(f"/proc/{process.child.pid}/task"))
    assert process.terminate() == 0
    assert len(verdicts(stage)) == 60
    assert threads * 1.3 <= THREADS_MIN
