"""From a clone to the first topic of one's own: the README's commands, typed as they stand there.

What a person did by hand is in tests/README.md; this walks the same steps.
"""

import email.message
import inspect
import json
import re
import secrets
import shlex
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from deploy.local.node import free_ports
from deploy.local.real import RealKafka
from streamfilter import cli
from tests.support.filter_process import FilterProcess
from tests.support.texts import commands, section
from tests.support.topics import Input, create_topics, header, produce, read_committed

TOPIC = f"pages-{secrets.token_hex(4)}"
WORDS_MIN = 30  # a word more is then no other text
COPY = "\n\nPrinted for you."


pytestmark = pytest.mark.usefixtures("alone")


def typed(kafka: RealKafka) -> list[list[str]]:
    """Return the README's commands for a topic of one's own, for this one."""
    block = re.findall(r"^```\n(.*?)^```", section("Try it"), re.M | re.S)[1]
    lines = [line for line in block.splitlines() if line.startswith("streamfilter ")]
    mine = {"localhost:9092": kafka.bootstrap, "news": TOPIC}
    return [[mine.get(word, word) for word in shlex.split(line)[1:]] for line in lines]


def pages() -> list[str]:
    """Return texts that no one wrote for this, a near copy behind each."""
    told = [inspect.getdoc(each) or "" for each in vars(email.message.Message).values()]
    texts = sorted({text for text in told if len(text.split()) >= WORDS_MIN})
    return [text + more for text in texts for more in ("", COPY)]


def typed_of_operators(typed: list[str], command: str, *more: str, **words: str) -> int:
    """Run a *command* of the operator's page, and add it to those that were *typed*."""
    typed.append(command)
    return cli.main([*(words.get(word, word) for word in command.split()[1:]), *more])


def asks_why_both_came_out(correct, unique, capsys):
    first, second = (json.loads(each.value)["page"]["page_id"] for each in unique[:2])
    against = "streamfilter explain --config F --id ID --against ORIGINAL"
    assert correct(against, ID=second, ORIGINAL=first) == 0
    assert f"\nagainst     {first}: they share" in capsys.readouterr().out
    assert correct("streamfilter plan --threshold T", T="0.7") == 0


def test_the_commands_of_the_readme_filter_a_topic_of_ones_own(
    kafka, tmp_path, capsys, monkeypatch
):
    texts = pages()
    assert len(texts) > 8, "the standard library tells less than it did"
    values = [
        json.dumps({"page": {"page_id": f"p{number}", "content": text}}).encode()
        for number, text in enumerate(texts)
    ]
    create_topics(kafka.bootstrap, {TOPIC: 1})
    produce(kafka.bootstrap, TOPIC, [Input(value) for value in [*values, b"{not json"]])
    init, check, run = typed(kafka)

    assert cli.main(init) == 0
    said = capsys.readouterr().err
    assert "text at /page/content" in said
    assert "id at /page/page_id" in said
    for line in said.split("next: ")[1].splitlines():
        assert line.split()[1] in (check[0], run[0]), line

    assert cli.main(check) == 0
    outputs = [f"{TOPIC}.{name}" for name in ("dead-letter", "duplicates", "unique")]
    answer = capsys.readouterr().out  # a warning names the broken records among the latest
    assert f"created {', '.join(outputs)}\n" in answer
    assert "\nok: " in answer

    (port,) = free_ports(1)
    monkeypatch.setenv("STREAMFILTER_HTTP__PORT", str(port))
    assert run[:2] == ["run", "--config"]
    log = tmp_path / "run.log"
    process = FilterProcess(Path(run[2]), port=port, log=log, arguments=run[3:])
    try:
        status = process.wait_for(
            lambda seen: sum(seen.get("verdicts", {}).values()) == len(values) + 1, what="the end"
        )
        assert status["verdicts"]["near_duplicate"] >= len(values) / 2
        assert status["latest"][0]["text"].endswith(COPY.strip())  # for the page's first look
        assert process.terminate() == 0
    finally:
        process.kill()
    letters, withheld, unique = (read_committed(kafka.bootstrap, each) for each in outputs)
    assert sorted(each.value or b"" for each in [*withheld, *unique]) == sorted(values)
    assert set(values[1::2]) <= {each.value for each in withheld}
    assert all(header(each, "__streamfilter.match.id") for each in withheld)
    assert len(letters) == 1
    wrong = header(withheld[0], "__streamfilter.id") or ""

    corrected: list[str] = []
    correct = partial(typed_of_operators, corrected, F=run[2], ID=wrong)
    assert correct("streamfilter replay --config F --yes") == 1
    assert "it would fail again: invalid_json; stays" in capsys.readouterr().out
    mended = ["--set", "input.format=text", "--set", "input.id=null"]
    assert correct("streamfilter replay --config F", *mended) == 0
    assert correct("streamfilter replay --config F --yes", *mended) == 0
    assert [each.value for each in read_committed(kafka.bootstrap, TOPIC)][-1] == b"{not json"
    (tmp_path / "no pairs").touch()
    evaluate = ["evaluate", "--topics", "--config", run[2], "--pairs", str(tmp_path / "no pairs")]
    capsys.readouterr()
    assert cli.main(evaluate) == 1
    said = capsys.readouterr().err
    assert f"1 records of {TOPIC} are not judged yet" in said
    assert "no longer holds" not in said
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    (gone,) = admin.delete_records([TopicPartition(TOPIC, 0, 2)]).values()
    assert gone.result().low_watermark == 2
    assert cli.main(evaluate) == 1
    assert f"{TOPIC} no longer holds all that was judged" in capsys.readouterr().err

    assert correct("streamfilter explain --config F --id ID") == 0
    assert correct("streamfilter release --config F --id ID") == 0
    assert correct("streamfilter release --config F --id ID --yes") == 0
    asks_why_both_came_out(correct, unique, capsys)
    last = read_committed(kafka.bootstrap, outputs[2])[-1]
    assert last.value == withheld[0].value
    assert [name for name, _ in last.headers] == ["__streamfilter.released"]
    assert {*corrected} == {*commands("Dead letters and wrong verdicts")}
