"""Keys and ids of records are others' text: written so that they mean themselves, shown quoted."""

import json
import shlex

import pytest
from confluent_kafka import Producer

from streamfilter import cli
from streamfilter.config.loading import load_config
from streamfilter.config.starter import StarterFile
from streamfilter.kafka.embedded import EmbeddedBroker
from streamfilter.process.terminal_escapes import inline, visible
from tests.support.cases import cases
from tests.support.machine.terminal import in_terminal

WORDS = "the old mill by the river was sold to a young family from the city on monday"
ESC = "\x1b[2J\x1b]0;owned\x07"
HOSTILE = [
    "${DATABASE_PASSWORD}", "$${x}", "$$${x}", "${file:/etc/passwd}", "${X:-$(touch x)}",
    ESC, "a\x9b2Jb", "\u202egnp", "new\nline", "tab\there", '"quoted"', "back\\slash", "\x7f",
    "\ud83d", "\u2028", "it's", "{a: b}", " #", "\U0001f600", "- x", "&anchor",
]  # fmt: skip

pytestmark = pytest.mark.usefixtures("alone")


@pytest.fixture(scope="module")
def broker():
    with EmbeddedBroker() as embedded:
        embedded.create_topics({"hostile": 1})
        producer = Producer({"bootstrap.servers": embedded.bootstrap})
        for number in range(20):
            record = {"${DATABASE_PASSWORD}": f"{WORDS} {number}", f"{ESC}id": f"a{number}"}
            producer.produce("hostile", json.dumps(record).encode(), f"{ESC}{number}")
        producer.flush(30)
        yield embedded.bootstrap


@cases("key", HOSTILE)
def test_a_pointer_of_any_characters_is_written_so_that_it_is_read_as_itself(tmp_path, key):
    pointer = f"/{key}"
    file = tmp_path / "one.yaml"
    file.write_text(StarterFile(text=pointer, id=f"/id{key}").text_of_file(), encoding="utf-8")
    found = load_config([file], {"DATABASE_PASSWORD": "hunter2", "x": "y"}).input
    assert (found.text, found.id) == ((pointer,), f"/id{key}")
    assert visible(file.read_text(encoding="utf-8")) == file.read_text(encoding="utf-8")


def test_init_writes_and_shows_no_variable_and_no_escape_of_a_record(broker, tmp_path, capfd):
    assert cli.main(["init", "--broker", broker, "--topic", "hostile"]) == 0
    said = capfd.readouterr().err
    assert "\x1b" not in said
    assert "\\u001b[2J" in said
    secret = {"DATABASE_PASSWORD": "hunter2"}
    found = load_config([tmp_path / "streamfilter.yaml"], secret).input
    assert found.text == ("/${DATABASE_PASSWORD}",)


def test_a_terminal_that_is_asked_is_not_repainted(broker, tmp_path):
    typed = f"{broker}\nhostile\n\n\n"
    seen = in_terminal(["init"], typed=typed, directory=tmp_path)
    assert seen.code == 0, seen.plain
    assert ESC not in seen.raw
    assert load_config([tmp_path / "streamfilter.yaml"], {}).input.text == (
        "/${DATABASE_PASSWORD}",
    )


def test_what_peek_advises_is_one_word_of_a_shell_and_means_the_pointer(broker, capfd):
    topic = ["--set", "input.topic=hostile", "--set", f"kafka.common.bootstrap.servers={broker}"]
    assert cli.main(["peek", *topic]) == 65
    said = capfd.readouterr().out
    assert "\x1b" not in said
    (advice,) = [line for line in said.splitlines() if line.startswith("most words are at")]
    words = shlex.split(advice[advice.index("--set") :])
    config = load_config(overrides=[words[1]], environment={"DATABASE_PASSWORD": "hunter2"})
    assert config.input.text == ("/${DATABASE_PASSWORD}",)


@pytest.fixture
def state(tmp_path, capfd):
    """An index of two documents whose ids are hostile, and the file it came from."""
    ids = [f"{ESC}one\nverdict     unique: forged", f"{ESC}two"]
    lines = [json.dumps({"id": id_, "text": f"{WORDS} {ESC}"}) for id_ in ids]
    (tmp_path / "in.jsonl").write_text("\n".join(lines) + "\n")
    outputs = ["--unique", "once.jsonl", "--duplicates", "again.jsonl", "--state", "memory"]
    assert cli.main(["filter", "in.jsonl", *outputs]) == 0
    capfd.readouterr()
    return ids


def test_query_explain_and_pairs_show_ids_and_texts_on_their_line(state, capfd):
    for verb in (["query", "--state", "memory", WORDS], ["pairs", "in.jsonl"],
                 ["pairs", "in.jsonl", "--clusters"], ["pairs", "in.jsonl", "-o", "json"],
                 ["explain", "--state", "memory", f"{WORDS} {ESC}", "--against", state[0]],
                 ["explain", "--state", "memory", WORDS, "-o", "json"]):  # fmt: skip
        assert cli.main(verb) == 0
        said = capfd.readouterr()
        assert "\x1b" not in said.out + said.err, verb
        assert not any(
            line.startswith("verdict     unique: forged") for line in said.out.split("\n")
        )
    assert cli.main(["pairs", "in.jsonl", "-o", "json"]) == 0
    (pair,) = json.loads(capfd.readouterr().out)["pairs"]
    assert [pair["other"], pair["id"]] == state  # escaped, and the same when it is parsed


def test_evaluate_shows_ids_of_errors_on_their_line(tmp_path, capfd):
    ids = [f"{ESC}one\nrecall  1.0 forged", f"{ESC}two"]
    words = [f"w{n}" for n in range(60)]
    texts = [" ".join(words), " ".join([*words[:55], "a", "b", "c"])]
    rows = [{"id": i, "text": t} for i, t in zip(ids, texts, strict=True)]
    (tmp_path / "in.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    blind = ["--set", "similarity.bands=1", "--set", "similarity.rows=64"]
    blind += ["--set", "similarity.recall=0.0000003"]
    assert cli.main(["evaluate", "in.jsonl", *blind]) == 0
    said = capfd.readouterr().out
    assert "two" in said  # a pair that never met is shown by its ids
    assert "\x1b" not in said
    assert not any(line.startswith("recall  1.0 forged") for line in said.split("\n"))


def test_a_refusal_quotes_what_it_was_given_without_controls(capfd):
    assert cli.main(["peek", f"{ESC}.jsonl"]) in (64, 65, 78)
    assert cli.main(["query", "--state", f"no{ESC}", "text"]) == 78
    assert cli.main(["filter", f"--{ESC}"]) == 64
    assert "\x1b" not in capfd.readouterr().err


def test_what_is_harmless_is_shown_as_it_is():
    harmless = "Grüße, \u0646\u0627\u0645\u0647\u200c\u0647\u0627 \U0001f468\u200d\U0001f469\tx\n"
    assert visible(harmless) == harmless
    assert inline("a\nb\tc") == "a\\nb\\tc"
