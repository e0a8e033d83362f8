"""``check`` as people and programs call it."""

import json
import re
import socket

import pytest

from streamfilter import cli
from streamfilter.config.loading import load_config
from streamfilter.engine.ports import Retriable
from streamfilter.index.directory.identity import Identity
from streamfilter.index.directory.opening import open_index
from streamfilter.index.format import FORMAT
from streamfilter.kafka.brokers import rights, topic_creation, topics
from streamfilter.preflight import report
from streamfilter.preflight.disk import check_disk
from streamfilter.process.cures import Cures
from tests.support import small_runs

pytestmark = pytest.mark.usefixtures("alone")


def test_a_right_configuration_is_answered_with_what_it_will_do(capsys):
    assert cli.main(["check"]) == 0
    told = capsys.readouterr().out
    signing, answer = told.splitlines()
    assert signing.startswith("signing: ")
    assert answer.startswith("ok: documents → documents.unique")
    assert "16 bands x 6 rows" in told


def test_all_problems_come_in_one_run_each_with_key_and_cure(capsys):
    mistakes = (
        "similarity.bands=20",
        "similarity.rows=8",
        "batch.bytes=much",
        "kafka.producer.no.such.property=1",
        "kafka.consumer.fetch.min.bytes=many",
        "index.seed_file=absent",
    )
    code = cli.main(["check", *(f"--set={mistake}" for mistake in mistakes)])
    told = capsys.readouterr().out
    assert code == 78
    for key in ("similarity.bands", "batch.bytes", "index.seed_file"):
        assert f"\n{key}: " in f"\n{told}"
    assert "no.such.property" in told
    assert "fetch.min.bytes" in told
    assert "16 x 6 finds .992" in told


@pytest.mark.parametrize("setting", ["agree_on", "also_same"])
def test_a_list_of_fields_that_overlap_is_a_problem_and_no_bug(setting, capsys):
    assert cli.main(["check", "--set", f"verify.{setting}=[/text/url]"]) == 78
    told = capsys.readouterr().out
    assert f"verify.{setting}: /text/url is within /text" in told
    assert told.endswith("1 problem found\n")


def test_json_tells_the_same_to_programs_and_masks_secrets(capsys):
    arguments = ["check", "-o", "json", "--set", "kafka.common.sasl.password=hunter2-S3NT1NEL"]
    assert cli.main(arguments) == 0
    out, err = capsys.readouterr()
    assert "hunter2" not in out + err
    told = json.loads(out)
    assert told["ok"] is True
    assert told["scheme"]["bands"] == 16
    assert told["settings"]["batch"]["bytes"] == "8Mi"
    assert cli.main([*arguments, "--set", "log.level=loud"]) == 78
    told = json.loads(capsys.readouterr().out)
    assert [problem["key"] for problem in told["problems"]] == ["log.level"]


def test_no_broker_is_asked_for_a_file_that_cannot_be_read(tmp_path, capsys):
    broken = tmp_path / "broken.yaml"
    broken.write_text("input: {topic")
    for path in (tmp_path / "missing.yaml", broken):
        arguments = ["check", "--config", str(path), "--connect", "--apply", "-o", "json"]
        assert cli.main(arguments) == 78
        answer = json.loads(capsys.readouterr().out)
        assert answer["problems"][0]["key"] == str(path)
        assert not answer["connected"], "the default's broker would be waited for a minute"


def test_nothing_is_created_by_checking(tmp_path, capsys):
    assert cli.main(["check"]) == 0
    assert list(tmp_path.iterdir()) == []


def test_a_state_path_that_is_a_link_or_a_file_is_a_problem(tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to(tmp_path)
    for name in ("file", "link", "file/below"):
        config = load_config((), {}, [f"index.path={tmp_path / name}"])
        problems = check_disk(config, config.scheme())
        assert [problem.key for problem in problems] == ["index.path"], name


@pytest.mark.parametrize("scope", ["topic", "partition"])
def test_run_does_not_follow_a_state_path_that_is_a_link(tmp_path, capsys, scope):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    settings = [f"index.path={tmp_path / 'link'}", f"index.scope={scope}", "http.port=0"]
    assert cli.main(["run", *(word for each in settings for word in ("--set", each))]) == 78
    assert "link is a symbolic link" in capsys.readouterr().err
    assert list((tmp_path / "elsewhere").iterdir()) == []


def identity_of(*settings: str) -> Identity:
    built = load_config((), {}, settings).scheme()
    return Identity(
        index_id="ab" * 16,
        format=FORMAT,
        scheme_fingerprint=built.fingerprint,
        scheme=built.as_json(),
        seed=bytes(range(16)),
        created=0,
        unicode_version="14.0.0",
    )


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("index.bucket_cap=16", "index.bucket_cap: it has 8, wanted is 16"),
        ("input.tombstones=forget", "ids: it has none to find documents by"),
        ("input.known_id=update", "ids: it has none to find documents by"),
    ],
)
def test_what_a_start_refuses_of_an_index_is_a_problem_of_the_check(
    tmp_path, capsys, setting, words
):
    """The check was ok, and `run` ended with 78."""
    open_index(tmp_path / "kept", identity_of()).close()
    command = ["check", f"--set=index.path={tmp_path / 'kept'}"]
    assert cli.main(command) == 0
    assert cli.main([*command, f"--set={setting}"]) == 78
    said = capsys.readouterr().out
    assert words in said
    assert "ways out" in said


@pytest.mark.parametrize("task", ["", "0"])
def test_an_index_of_another_scheme_is_refused_with_the_ways_out(tmp_path, capsys, task):
    state = tmp_path / "kept"
    open_index(state / task, identity_of("similarity.shingle.size=5")).close()
    assert cli.main(["check", f"--set=index.path={state}"]) == 78
    told = capsys.readouterr().out
    assert "scheme.shingling.size: it has 5, wanted is 3" in told
    assert "new generation" in told
    assert bytes(range(16)).hex() not in told
    fitting = ["check", f"--set=index.path={state}", "--set=similarity.shingle.size=5"]
    assert cli.main(fitting) == 0


def test_the_bits_of_a_key_are_shown_and_a_filter_that_is_too_small_is_a_warning(
    tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr("streamfilter.assembly.memory_for", small_runs.memory_for)
    outputs = ("--unique", "u", "--duplicates", "d")
    for number in range(4):  # each is one write: a run is full, written, and listed
        with open("in.jsonl", "a") as file:
            texts = (f"{n} red {n * 7} ships sail {n * 13} seas" for n in range(99))
            file.writelines(json.dumps({"id": n, "text": f"{number} {n}"}) + "\n" for n in texts)
        assert cli.main(["filter", "in.jsonl", *outputs, "--state", "state"]) == 0
    asked = ["check", "--set=index.path=state"]
    capsys.readouterr()
    assert cli.main(asked) == 0
    shown = capsys.readouterr().out
    assert re.search(r"state/index: its filter has [\d.]+ bits a key, and lets 0\.\d% of", shown)
    assert cli.main([*asked, "--set=memory.miss_filter=256", "-o", "json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    (warned,) = answer["problems"]
    assert (warned["key"], warned["warning"]) == ("memory.miss_filter", True)
    assert "set it to 32Mi" in warned["cure"]
    assert answer["filters"][0]["passing"] > 0.05


def test_checking_calls_no_broker_unless_it_is_asked_to(capfd):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        host, port = listener.getsockname()
        assert cli.main(["check", f"--set=kafka.common.bootstrap.servers={host}:{port}"]) == 0
        listener.setblocking(False)
        with pytest.raises(BlockingIOError):
            listener.accept()
    assert capfd.readouterr().err == ""


def test_a_refused_value_is_quoted_without_the_secret_in_it(capsys):
    arguments = ["check", "--set", "kafka.common.sasl.password=hunter2-S3NT1NEL"]
    mistake = "kafka.consumer.fetch.min.bytes=hunter2-S3NT1NEL"
    for form in ("text", "json"):
        assert cli.main([*arguments, "--set", mistake, "-o", form]) == 78
        out, err = capsys.readouterr()
        assert "fetch.min.bytes" in out
        assert "hunter2" not in out + err


def test_apply_waits_until_brokers_tell_of_what_it_has_just_made(monkeypatch, capsys):
    """Seen on a real broker: it reported one of three, and the cure was the command itself."""
    outputs = [f"documents.{name}" for name in ("unique", "duplicates", "dead-letter")]
    known = {"documents": topics.Topic(1, {})}
    made = {name: topics.Topic(1, {}) for name in outputs}
    partly = known | dict(list(made.items())[:1])
    looks = [known, partly, Retriable("documents.unique has no partitions yet"), known | made]

    def describe(*_: object, **__: object) -> dict[str, topics.Topic]:
        found = looks.pop(0)
        if isinstance(found, Retriable):
            raise found
        return found

    created: list[str] = []
    monkeypatch.setattr(topics, "describe", describe)
    monkeypatch.setattr(
        topic_creation, "create_topic", lambda _, topic: created.append(topic.topic)
    )
    monkeypatch.setattr(topics.time, "sleep", lambda _: None)
    monkeypatch.setattr(rights, "check_rights", lambda *_, **__: ([], []))
    monkeypatch.setattr(report, "check_records", lambda _: [])
    code, told = cli.main(["check", "--connect", "--apply"]), capsys.readouterr().out
    assert code == 0, told
    assert told.startswith(
        "created documents.dead-letter, documents.duplicates, documents.unique\n"
    )
    assert sorted(created) == sorted(outputs)
    assert looks == []


@pytest.mark.parametrize("verb", ["check", "run", "peek", "demo --feed", "forget"])
def test_a_configuration_that_lies_here_and_is_not_named_is_said_to_be_unread(
    tmp_path, capsys, monkeypatch, verb
):
    given = ["--set", "similarity.threshold=9"]  # it stops where it reads its settings
    said = "streamfilter.yaml in this directory is not read"
    assert cli.main([*verb.split(), *given]) == 78
    assert said not in capsys.readouterr().err
    (tmp_path / "streamfilter.yaml").write_text("{}")
    assert cli.main([*verb.split(), *given]) == 78
    assert said in capsys.readouterr().err
    assert cli.main([*verb.split(), *given, "--config", "streamfilter.yaml"]) == 78
    monkeypatch.setenv("STREAMFILTER_CONFIG", "streamfilter.yaml")
    assert cli.main([*verb.split(), *given]) == 78
    assert said not in capsys.readouterr().err


def test_a_command_in_a_cure_names_the_files_once(tmp_path):
    cures = Cures()
    assert cures.completed("`streamfilter check --connect`") == "`streamfilter check --connect`"
    cures.remember([tmp_path / "a b.yaml", tmp_path / "c.yaml"])
    given = f"--config '{tmp_path}/a b.yaml' --config {tmp_path}/c.yaml"
    once = f"then `streamfilter run {given} --accept-positions`"
    assert cures.completed("then `streamfilter run --accept-positions`") == once
    assert cures.completed(once) == once
    assert cures.completed("`streamfilter peek FILE`, streamfilter run") == (
        f"`streamfilter peek {given} FILE`, streamfilter run"
    )
