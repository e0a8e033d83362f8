"""The operator's tasks, in the order of a group's life: each command as deploy/README.md has it.

What a person typed is in tests/README.md.
"""

import gzip
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deploy.local.real import RealKafka
from streamfilter import cli
from tests.kafka.story import Settings, records, texts
from tests.support.filter_process import FilterProcess
from tests.support.session.forge import Forge
from tests.support.stage import Stage
from tests.support.texts import commands

PAGES = ("Fill the index", "Backup and restore", "Pairs in an index",
         "Take over with other settings", "Begin anew")  # fmt: skip
PLAIN: Settings = {"batch": {"documents": 10}, "kafka": {"session_timeout": "6s"}}
STORIES = texts(random.Random(360), 100)


class Desk:
    """A shell in the directory of a group, and what was typed there."""

    def __init__(self, stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
        self.stage, self._capsys = stage, capsys
        self.typed: set[str] = set()
        self.words = {"F": "old.yaml", "TARGET": "backups", "DIR": "state", "news": stage.group,
                      "news2": f"{stage.group}2", "news.unique": stage.unique}  # fmt: skip

    def configure(self, name: str, **sections: Any) -> None:
        self.stage.configuration(**{**PLAIN, **sections}).rename(name)

    def _words(self, command: str) -> list[str]:
        self.typed.add(command)
        return [self.words.get(word, word) for word in command.split()[1:]]

    def types(self, command: str, *more: str) -> str:
        """Return what is printed."""
        self._capsys.readouterr()
        code = cli.main([*self._words(command), *more])
        said = self._capsys.readouterr()
        assert code == 0, said.err
        return said.out + said.err

    def starts(self, command: str) -> FilterProcess:
        """Start `run`, and return when it has judged what is there."""
        _, _, name, *more = self._words(command)
        config = Path(name).resolve()
        port = json.loads(config.read_text())["http"]["port"]
        process = FilterProcess(
            config,
            port=port,
            log=config.with_name(f"{len(self.typed)}.log"),
            arguments=more,
            launch=self.stage.launch,
        )
        self.stage.processes.append(process)
        self.stage.drain(process)
        return process


@pytest.fixture
def desk(
    kafka: RealKafka, forge: Forge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Iterator[Desk]:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    stage = Stage(kafka.bootstrap, tmp_path, launch=forge.launch)
    yield Desk(stage, capsys)
    stage.close()


@pytest.mark.slow(60)
def test_each_command_of_the_pages_does_what_the_page_says(desk: Desk) -> None:
    stage = desk.stage
    desk.configure("old.yaml")
    with gzip.open("archive.jsonl.gz", "wt") as file:
        file.writelines(json.dumps({"id": f"old{n}", "text": text}) + "\n"
                        for n, text in enumerate(STORIES[:20]))  # fmt: skip
    seed = "streamfilter seed --config F archive.jsonl.gz"
    assert "nothing was written" in desk.types(seed, "--dry-run")
    assert "20 records = " in desk.types(seed)

    stage.produce(records(STORIES[10:60], first=10))
    old = desk.starts("streamfilter run --config F")
    secret = ("--config", "old.yaml")  # for index.seed_file
    assert "documents: 1 pair" in desk.types(
        "streamfilter pairs --state DIR --threshold 0.7", *secret
    )
    assert "ok: " in desk.types("streamfilter check --connect --config F")
    desk.types("streamfilter backup --config F --to TARGET")
    assert "whole" in desk.types("streamfilter check --index --config F")
    desk.words["DIR"] = "restored"
    desk.types("streamfilter restore --from TARGET --state DIR")

    other = {"input": {"take_over": stage.group}, "similarity": {"threshold": 0.6}}
    kafka = {**PLAIN["kafka"], "group": desk.words["news2"]}
    desk.configure("new.yaml", state="new", kafka=kafka, **other)
    fill = "streamfilter seed --config new.yaml --topic news.unique"
    assert "ok: " in desk.types("streamfilter check --config new.yaml --connect")
    assert "added" in desk.types(fill)
    assert f"{stage.group} works" in desk.types("streamfilter run --config new.yaml --dry-run")
    assert old.terminate() == 0
    stage.produce(records(STORIES[60:80], first=60))
    new = desk.starts("streamfilter run --config new.yaml")
    assert f"took over from the group {stage.group} at" in new.log.read_text()
    assert "added" in desk.types("streamfilter seed --config old.yaml --topic news.unique")
    assert new.terminate() == 0
    stage.produce(records(STORIES[80:], first=80))
    back = desk.starts("streamfilter run --config old.yaml --take-over news2")
    assert f"took over from the group {desk.words['news2']} at" in back.log.read_text()
    assert back.terminate() == 0
    assert sum(map(len, stage.outputs().values())) == 90, "each record once"

    desk.types("streamfilter reset --config new.yaml --yes")
    assert "--yes does it" in desk.types("streamfilter reset --config F")
    desk.types("streamfilter reset --config F --yes")
    assert not Path("state", "index.json").exists()
    desk.types("streamfilter seed --config F --index DIR")
    assert desk.typed >= {each for page in PAGES for each in commands(page)}
