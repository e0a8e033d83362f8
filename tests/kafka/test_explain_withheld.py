"""`explain --id` of a withheld document: its verdicts come from the duplicates topic."""

import json
from collections.abc import Callable

import pytest

from streamfilter import cli
from streamfilter.config.loading import load_config
from streamfilter.kafka import topic_reader
from streamfilter.kafka.topic_reader import TopicReader
from tests.kafka.story import record
from tests.support.stage import Stage

A, B = (" ".join(f"{letter}{n}" for n in range(40)) for letter in "ab")
NEAR = A.replace("a39", "x")
PASTS = 40
"""Copies of another text: the records between two verdicts on one id."""


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `explain` read fewer records at a time than lie between the two verdicts."""
    monkeypatch.setattr(topic_reader, "BLOCK_FIRST", 10)


def worked(stage: Stage, mode: str) -> Stage:
    """Let a service withhold document d1 twice, once long ago, and forward d0 and d2."""
    copies = [record(n, B) for n in range(3, PASTS)]
    stage.produce([record(0, A), record(1, NEAR), record(2, B), *copies, record(1, B)])
    stage.output = {"mode": mode}  # type: ignore[attr-defined]
    stage.run(output={"mode": mode})
    return stage


def explained(stage: Stage, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    config = stage.configuration(output=stage.output)  # type: ignore[attr-defined]
    code = cli.main(["explain", "--config", str(config), *arguments])
    said = capsys.readouterr()
    return code, said.out or said.err


def test_the_newest_verdict_is_found_first_and_since_shows_all(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    worked(stage, "divert")
    code, answer = explained(stage, capsys, "--id", "d1", "-o", "json")
    newest = json.loads(answer)
    assert (code, newest["count"], newest["looked_at"] < PASTS) == (0, 1, True)
    code, answer = explained(stage, capsys, "--id", "d1", "--since", "1970-01-02T00:00:00Z",
                           "-o", "json")  # fmt: skip
    found = json.loads(answer)
    assert found["withheld"][0] == newest["withheld"][0]
    assert [(each["verdict"], each["match"]["id"]) for each in found["withheld"]] == [
        ("exact_duplicate", "d2"), ("near_duplicate", "d0")
    ]  # fmt: skip
    near = found["withheld"][1]
    assert near["match"]["similarity"] == pytest.approx(37 / 39)
    assert near["source"] == {"topic": stage.input, "partition": 0, "offset": 1}
    assert near["withheld_at"]["topic"] == stage.duplicates
    code, answer = explained(stage, capsys, "--id", "d1")
    assert "exact_duplicate: its text is the same as that of d2" in answer
    assert f"{stage.input}/0 at {PASTS}" in answer


@pytest.mark.slow
def test_in_shadow_mode_a_verdict_is_found_among_the_forwarded(
    embedded_stage: Callable[..., Stage], capsys: pytest.CaptureFixture[str]
) -> None:
    stage = worked(embedded_stage(), "shadow")
    code, answer = explained(stage, capsys, "--id", "d1", "-o", "json")
    (found,) = json.loads(answer)["withheld"]
    assert (code, found["verdict"]) == (0, "exact_duplicate")
    assert found["withheld_at"]["topic"] == stage.unique


@pytest.mark.slow
def test_an_id_of_the_index_is_explained_from_it_and_an_unknown_one_says_how_far_it_looked(
    embedded_stage: Callable[..., Stage], capsys: pytest.CaptureFixture[str]
) -> None:
    stage = worked(embedded_stage(), "divert")
    assert "verdict     unique" in explained(stage, capsys, "--id", "d0")[1]
    places = ("--set", "input.id=null")
    assert "so an id is a place" in explained(stage, capsys, "--id", "nothing", *places)[1]
    code, answer = explained(stage, capsys, "--id", "nothing")
    assert code == 64
    assert "records of " in answer
    assert "back to 20" in answer
    code, answer = explained(stage, capsys, "--id", "d1", "--since", "yesterday")
    assert (code, "is no time" in answer) == (64, True)
    assert explained(stage, capsys, "text", "--since", "1h")[0] == 64
    assert_asked_for_alone(stage)


def assert_asked_for_alone(stage: Stage) -> None:
    """The client waits for as many as it is asked for, or for its whole timeout."""
    asked = []

    class Client:
        def __getattr__(self, name: str) -> object:
            return getattr(client, name)

        def consume(self, count: int, seconds: float) -> object:
            asked.append(count)
            return client.consume(count, seconds)

    with TopicReader(load_config([stage.configuration()]), stage.input) as reader:
        client, reader._client = reader._client, Client()  # type: ignore[assignment]
        found = reader.at(0, 5)
    assert found is not None
    assert (found.source.offset, {*asked}) == (5, {1})
