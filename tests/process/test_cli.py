"""The process's edge: which exception ends in which exit code, and what the operator reads."""

import json
import os
import re
import subprocess
import sys
import types
from pathlib import Path

import click
import click.shell_completion
import pytest

import streamfilter
from streamfilter import cli, stops
from streamfilter.similarity.kernel.choice import choice, chosen
from tests.support.cases import cases


@pytest.fixture
def verb(monkeypatch):
    """Return a function that makes `run` raise, or return, what a test wants."""

    def install(outcome: object) -> None:
        @click.command("run")
        def command() -> object:
            if isinstance(outcome, BaseException):
                raise outcome
            return outcome

        module = types.ModuleType("streamfilter.commands.run")
        module.command = command
        module.__spec__ = types.SimpleNamespace(name=module.__name__)
        monkeypatch.setitem(sys.modules, module.__name__, module)

    return install


@pytest.mark.parametrize(
    ("outcome", "code"),
    [
        (None, 0),
        (0, 0),
        (stops.ExitCode.CONFIG, 78),
        (stops.BrokenInput("line 3"), 65),
        (stops.Temporary("no broker"), 75),
        (stops.Fenced("another took over"), 76),
        (stops.SchemeMismatch("other bands"), 78),
        (stops.ConfigError([stops.Problem("a.b", "wrong", "right")]), 78),
        (click.UsageError("what?"), 64),
        (KeyboardInterrupt(), 130),
        (ZeroDivisionError("a bug"), 70),
        (MemoryError(), 70),
    ],
)
def test_every_end_has_its_exit_code(verb, outcome, code, capsys):
    verb(outcome)
    assert cli.main(["run"]) == code
    if isinstance(outcome, stops.Stop):
        assert str(outcome) in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["bogus"], ["check", "--bogus"], ["check", "-o", "xml"], []])
def test_a_wrong_command_line_is_a_usage_error(arguments, capsys):
    assert cli.main(arguments) == stops.ExitCode.USAGE == 64
    assert "Usage:" in capsys.readouterr().err


def test_help_and_version_end_well_and_teach(capsys):
    assert cli.main(["--help"]) == 0
    told = capsys.readouterr().out
    assert "streamfilter check --config" in told
    assert "78 configuration" in told
    assert cli.main(["check", "--help"]) == 0


@pytest.mark.parametrize("setting", ["auto", "off"])
def test_version_and_check_say_what_signs_texts_and_why(setting, capsys, alone):
    with chosen(setting) as found:
        assert cli.main(["--version"]) == 0
        name, signing = capsys.readouterr().out.splitlines()
        assert name == f"streamfilter, version {streamfilter.__version__}"
        assert signing == f"signing: {found}"
        assert (found.why == "batch.kernel is off") is (setting == "off")
        other = {"auto": "off", "off": "auto"}[setting]
        assert cli.main(["check", "--set", f"batch.kernel={other}"]) == 0
        assert f"signing: {choice()}\n" in capsys.readouterr().out
        assert choice() != found, "the configuration decides"
        assert cli.main(["check", "-o", "json", "--set", f"batch.kernel={setting}"]) == 0
        told = json.loads(capsys.readouterr().out)["signing"]
        assert told == {"kernel": found.kernel is not None, "why": found.why}


@pytest.mark.parametrize("verb", cli.VERBS)
def test_the_help_of_a_verb_ends_with_an_example(verb, capsys):
    assert cli.main([verb, "--help"]) == 0
    *_, after = re.split("Examples?:\n", capsys.readouterr().out)
    assert f"streamfilter {verb}" in after


def test_a_verb_that_cannot_be_imported_does_not_break_the_others(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "streamfilter.commands.filter", None)
    assert cli.main(["check", "--help"]) == 0
    assert cli.main(["--help"]) == 0
    assert "filter " in capsys.readouterr().out


def test_the_help_lists_every_verb_under_the_task_it_is_for(capsys):
    assert cli.main(["--help"]) == 0
    listed = capsys.readouterr().out.partition("Run:\n")[2].partition("Examples:")[0]
    assert re.findall(r"^  (\w+) ", listed, re.MULTILINE) == list(cli.VERBS)
    assert re.findall(r"^(\w.*):$", listed, re.MULTILINE) == list(cli.TASKS)[1:]
    assert len(cli.VERBS) <= 23  # one for each task of an operator; an option would hide it
    files = (Path(cli.__file__).parent / "commands").glob("*.py")
    has_command = re.compile(r"^@click.command", re.MULTILINE)
    assert {path.stem for path in files if has_command.search(path.read_text())} == {*cli.VERBS}


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_help_and_version_import_no_verb_and_no_large_library(option):
    script = (
        f"import sys, streamfilter.cli as c; c.main(['{option}']); "
        "print([m for m in ('confluent_kafka', 'rocksdict', 'numpy', 'pydantic', 'msgspec')"
        " if m in sys.modules])"
    )
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=180)
    assert told.stdout.splitlines()[-1] == b"[]", told.stderr


@pytest.mark.parametrize(("former", "instead"), cli.FORMER.items())
def test_a_former_verb_names_the_one_to_type_instead(former, instead, capsys):
    assert cli.main([former, "--state", "x"]) == 64
    assert f": streamfilter {instead}\n" in capsys.readouterr().err
    assert instead.split()[0] in cli.VERBS
    assert former not in completed("")


def completed(*words: str) -> list[str]:
    """Return what a shell shows for the last of the *words*."""
    shell = click.shell_completion.BashComplete(cli.group, {}, "streamfilter", "_X")
    return [each.value for each in shell.get_completions(list(words[:-1]), words[-1])]


def test_a_shell_completes_verbs_options_and_the_keys_of_set():
    assert completed("pa") == ["pairs"]
    assert "--accept-positions" in completed("run", "--a")
    assert completed("run", "--set", "similarity.th") == ["similarity.threshold="]
    assert completed("run", "-s", "similarity.shingle.k") == ["similarity.shingle.kind="]
    assert "kafka.common=" in completed("check", "--set", "")


@cases(
    "words",
    ["filter in", "filter --unique o", "pairs in", "evaluate in", "evaluate --pairs t", "peek in",
     "plan --sample s", "run --config c", "check --index --state s", "check -c c"],
)  # fmt: skip
def test_where_a_file_is_named_the_shell_goes_on_with_files(words):
    shell = click.shell_completion.BashComplete(cli.group, {}, "streamfilter", "_X")
    *before, begun = words.split()
    (found,) = shell.get_completions(before, begun)
    assert found.type in ("file", "dir")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("streamfilter run --set similarity.th", "compopt -o nospace\nsimilarity.threshold=\n"),
        ("streamfilter run --accept-p", "--accept-positions\n"),
        ("streamfilter filter in", "compopt -o default\n\n"),
    ],
)
def test_bash_itself_puts_no_space_behind_a_setting_and_completes_files(words, said, tmp_path):
    program = tmp_path / "streamfilter"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m streamfilter "$@"\n')
    program.chmod(0o755)
    script = (
        'eval "$(_STREAMFILTER_COMPLETE=bash_source streamfilter)"\n'
        'compopt() { echo compopt "$@"; }\n'
        f"COMP_WORDS=({words}) COMP_CWORD={len(words.split()) - 1}\n"
        '_streamfilter_completion streamfilter; echo "${COMPREPLY[*]}"'
    )
    path = f"{tmp_path}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "--norc", "-c", script],
        env={**os.environ, "PATH": path}, capture_output=True, text=True, timeout=180,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == (said, "")


def test_the_line_that_turns_completion_on_ends_well():
    command = [sys.executable, "-c", "import sys, streamfilter.cli as c; sys.exit(c.main())"]
    environment = {**os.environ, "_STREAMFILTER_COMPLETE": "bash_source"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr
    assert "_STREAMFILTER_COMPLETE=bash_complete" in done.stdout


def test_a_reader_that_goes_away_ends_the_process_quietly():
    command = [sys.executable, "-m", "streamfilter", "check", "-o", "json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait(60) == stops.ExitCode.UNREAD


def test_filter_brings_no_library_that_a_filter_of_texts_does_not_need(tmp_path):
    """A whole run, for some are imported by what is called: numpy's masks are 15 ms, TLS 8."""
    texts = ["the same ten words again", "the same ten words again and", "other words than those"]
    lines = [json.dumps({"id": str(row), "text": text}) for row, text in enumerate(texts)]
    (tmp_path / "in.jsonl").write_text("\n".join(lines))
    script = (
        "import sys; from streamfilter.cli import main;"
        "main(['filter', 'in.jsonl', *'--shingle char:5 --threshold .5'.split(), "
        "'--unique', 'once.jsonl', '--duplicates', 'again.jsonl']);"
        "print([m for m in ('rapidfuzz', 'confluent_kafka', 'prometheus_client', 'xml', 'yaml',"
        " 'ssl', 'numpy.ma', 'difflib', 'subprocess', 'multiprocessing', 'streamfilter.backup')"
        " if m in sys.modules])"
    )
    command = [sys.executable, "-c", script]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert ran.stdout.strip() == "[]", ran.stderr
    assert (tmp_path / "again.jsonl").read_text().count("near_duplicate") == 1


def test_a_verb_that_reads_no_file_does_not_load_what_reads_files():
    script = (
        "import sys; from streamfilter.cli import main; "
        "assert main(['check', '--set', 'input.topic=a']) == 0;"
        "print([m for m in sys.modules if m.startswith('streamfilter.files')])"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=180)
    assert ran.stdout.splitlines()[-1] == b"[]", ran.stderr


def test_no_plugin_of_what_is_installed_beside_us_sees_the_configuration(tmp_path):
    """As pydantic finds them: by the metadata of any distribution on the path."""
    metadata = tmp_path / "spy-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: spy\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[pydantic]\nspy = spy:plugin\n")
    (tmp_path / "spy.py").write_text("raise SystemExit('it was asked')")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    environment.pop("PYDANTIC_DISABLE_PLUGINS", None)
    command = [sys.executable, "-m", "streamfilter", "check", "--set", "kafka.password=secret"]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=180)
    assert "it was asked" not in ran.stdout + ran.stderr
    script = "import streamfilter.config.configuration"
    command = [sys.executable, "-c", script]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=180)
    assert "it was asked" in ran.stderr, "the spy is no plugin: this test shows nothing"


def test_a_verb_looks_seldom_for_cycles_and_not_at_all_at_its_end():
    script = (
        "import atexit, gc;"
        "atexit.register(lambda: print(gc.get_threshold()[0], gc.get_freeze_count() > 0));"
        "from streamfilter.cli import main; main(['--version'])"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == f"{cli.COLLECT_EVERY[0]} True"
