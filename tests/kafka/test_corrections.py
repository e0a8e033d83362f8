"""`release` and `replay` on a real broker: each record is sent on once, whatever happens."""

import json
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from deploy.local.real import RealKafka
from streamfilter import cli
from streamfilter.assembly import reader_for
from streamfilter.config.loading import load_config
from streamfilter.kafka.output_reader import read_run
from streamfilter.killpoints import VARIABLE
from streamfilter.model import Record
from streamfilter.quality.judge import evaluate
from streamfilter.quality.run import Truth
from tests.kafka.story import TIMESTAMP, record
from tests.support.session.forge import Forge
from tests.support.stage import Stage
from tests.support.topics import Input, header, produce

A = " ".join(f"a{n}" for n in range(40))
FORGED = ("__streamfilter.verdict", b"theirs")
RELEASED = "__streamfilter.released"
KILLS = ("begun", "outputs", "produced", "flushed", "committed")
COPIES = 5


def story(number: int, text: str = A, **more: Any) -> Input:
    """Return a record with a header of our names."""
    given = record(number, text, **more)
    return Input(given.value, given.key, given.partition, (*given.headers, FORGED), given.timestamp)


@pytest.fixture
def worked(kafka: RealKafka, forge: Forge, tmp_path: Path) -> Iterator[Stage]:
    """A service that withheld d1 to d5 as copies of d0.

    It forwarded two records whose producer wrote the header of a released record.
    """
    stage = Stage(kafka.bootstrap, tmp_path, partitions=2, launch=forge.launch)
    stage.sections = {"output": {"duplicates_mode": "reference"}}  # type: ignore[attr-defined]
    stage.produce([story(n, partition=n % 2) for n in range(COPIES + 1)])
    places = [{"topic": each, "partition": 1, "offset": 0} for each in (stage.duplicates, "others")]
    named = [(RELEASED, json.dumps({"from": each}).encode()) for each in places]
    stage.produce([Input(story(90 + n, f"another {n} " * 9).value, headers=(each,))
                   for n, each in enumerate(named)])  # fmt: skip
    stage.run(**stage.sections)  # type: ignore[attr-defined]
    yield stage
    stage.close()


def config(stage: Stage) -> str:
    return str(stage.configuration(**stage.sections))  # type: ignore[attr-defined]


def ask(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any]]:
    code = cli.main([*arguments, "-o", "json"])
    said = capsys.readouterr()
    return code, json.loads(said.out) if said.out else {"err": said.err}


def since(number: int) -> str:
    """Return the time of that record, as an operator writes it."""
    return datetime.fromtimestamp((TIMESTAMP + number) / 1_000, UTC).isoformat()


def released(stage: Stage) -> list[Record]:
    return [
        each for each in stage.outputs()["unique"] if "verdict" in (header(each, RELEASED) or "")
    ]


def evaluated(stage: Stage) -> tuple[int, int]:
    """Return how many records `evaluate --topics` finds lost, and how many too many."""
    loaded = load_config([Path(config(stage))])
    report = evaluate(read_run(loaded, reader_for(loaded)), Truth([]), recall_from=0.8,
                      precision_from=0.8)  # fmt: skip
    return report.missing, report.extra


@pytest.mark.slow(50)
def test_released_once_byte_for_byte_however_often_it_is_run_and_killed(
    worked: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    code, said = ask(capsys, "release", "--config", config(worked), "--id", "d1")
    assert (code, said["sent"], said["written"]) == (0, {"exact_duplicate": 1}, False)
    assert said["records"][0]["comparison"]["similarity"] == 1.0
    place = ("--partition", "1", "--offset", "0")
    for chosen, count in (
        (place, 1),
        ((*place, "--topic", worked.input), 1),
        (("--matched", "d0", "--since", since(COPIES - 1)), 2),
    ):
        code, said = ask(capsys, "release", "--config", config(worked), *chosen)
        assert (code, said["sent"]) == (0, {"exact_duplicate": count}), chosen
    assert not released(worked)
    for point in KILLS:
        command = [sys.executable, "-m", "streamfilter", "release", "--config", config(worked),
                   "--matched", "d0", "--yes"]  # fmt: skip
        log, environment = worked.directory / "log", {VARIABLE: f"transaction.{point}"}
        assert worked.launch(command, log=log, environment=environment).wait(120) == -9
        if point == "flushed":
            code, said = ask(capsys, "release", "--config", config(worked), "--matched", "d0")
            assert (code, said.get("before")) == (0, 0), "it waits for what the kill left open"
        assert len(released(worked)) == (COPIES if point == "committed" else 0)
    code, said = ask(capsys, "release", "--config", config(worked), "--matched", "d0", "--yes")
    assert (code, said["sent"], said["before"], said["released_total"]) == (0, {}, COPIES, COPIES)
    found = released(worked)
    assert len(found) == COPIES
    for each in found:
        number = int(json.loads(each.value or b"")["id"][1:])
        given = story(number, partition=number % 2)
        assert (each.key, each.value, each.timestamp) == (given.key, given.value, given.timestamp)
        assert each.headers[:-1] == given.headers
        assert each.source.partition == given.partition
        said = json.loads(header(each, RELEASED) or "")
        assert (said["verdict"], said["match"]["id"]) == ("exact_duplicate", "d0")
    code, said = ask(capsys, "explain", "--config", config(worked), "--id", "d3")
    assert said["withheld"][0]["released"]
    assert evaluated(worked) == (0, 0)
    produce(worked.bootstrap, worked.unique, [Input(found[0].value, headers=found[0].headers)])
    assert evaluated(worked) == (0, 1), "a second copy of one note"
    code, said = ask(capsys, "release", "--config", config(worked), "--id", "d0", "--yes")
    assert (code, "no such record" in said["err"]) == (64, True)


@pytest.mark.slow(30)
def test_dead_letters_go_back_once_after_the_cause_was_mended_and_attempts_are_counted(
    kafka: RealKafka, forge: Forge, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stage = Stage(kafka.bootstrap, tmp_path, launch=forge.launch)
    wrong, right = {"input": {"text": "/body"}}, {"input": {"text": "/text"}}
    broken = Input(b"{broken", b"k", headers=(("h", None),), timestamp=story(0).timestamp)
    given = [story(0), story(1, "an entirely different text of some words"), broken]
    stage.produce(given)
    stage.run(**wrong)
    letters = stage.outputs()["dead_letter"]
    assert len(letters) == 3
    paths = {name: str(stage.configuration(**each))
             for name, each in (("wrong", wrong), ("right", right))}  # fmt: skip
    code, said = ask(capsys, "replay", "--config", paths["wrong"])
    assert (code, said["sent"]) == (1, {})
    assert said["stays"]["missing_text: it would fail again: missing_text"] == 2
    code, said = ask(capsys, "replay", "--config", paths["right"], "--since", since(1))
    assert (code, said["sent"]) == (1, {"missing_text": 1}), "the first letter is older"
    for sent, before in (({"missing_text": 2}, 0), ({}, 2)):
        code, said = ask(capsys, "replay", "--config", paths["right"], "--yes")
        assert (code, said["sent"], said["before"]) == (1, sent, before)
        assert said["stays"] == {"invalid_json: it would fail again: invalid_json": 1}
    stage.run(**wrong)  # the mistake again: they fail again, and are recognised
    code, said = ask(capsys, "replay", "--config", paths["right"], "--code", "missing_text",
                     "--attempts", "1", "--yes")  # fmt: skip
    reason = "missing_text: sent back 1 times already (--attempts)"
    assert (code, said["stays"], said["before"]) == (1, {reason: 2}, 2)
    code, said = ask(
        capsys, "replay", "--config", paths["right"], "--code", "missing_text", "--yes"
    )
    assert (code, said["sent"], said["replayed_total"]) == (0, {"missing_text": 2}, 4)
    stage.run(**right)
    found = stage.outputs()["unique"]
    assert [each.value for each in found] == [each.value for each in given[:2]]
    for each, came in zip(found, given, strict=False):
        assert (each.key, each.timestamp) == (came.key, came.timestamp)
        assert each.headers == (*came.headers, ("__streamfilter.attempts", b"2"))
    stage.close()
