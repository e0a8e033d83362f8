"""Questions over HTTP: the answers are those of the commands, within bounds."""

import json
import subprocess
import sys
import tempfile
import threading
import time
from urllib.parse import quote

import pytest

from streamfilter import Deduplicator
from streamfilter.monitoring.metrics import Metrics
from streamfilter.monitoring.web import http, questions
from streamfilter.monitoring.web.http import Server
from streamfilter.monitoring.web.pages import Pages
from streamfilter.monitoring.web.questions import Questions
from streamfilter.process.health import Health
from tests.http.test_server import ask
from tests.support.machine.processes import state_of


@pytest.fixture
def no_hurry(monkeypatch):
    """A machine that is busy with other things: a command may take longer than a person waits."""
    monkeypatch.setattr(questions, "SECONDS_MAX", 300.0)
    monkeypatch.setattr(http, "REQUEST_SECONDS_MAX", 300.0)
    monkeypatch.setattr(questions, "RESTS", 0)


HOSTILE = "--against=\"'><script>alert(1)</script> $(touch pwned) `id` \u202e \n %00"
WORDS = "the old mill by the river was sold to a young family from the city"


@pytest.mark.slow
@pytest.mark.usefixtures("no_hurry")
def test_the_answer_is_that_of_the_command_and_ids_are_only_ids(tmp_path):
    with Deduplicator(tmp_path / "memory", threshold=0.8) as stories:
        for each in ("a", HOSTILE):
            stories.add(each, f"{WORDS} on monday")
    asker = Questions([f"--state={tmp_path / 'memory'}"])
    health = Health()
    pages = Pages(health, Metrics(health), questions=asker)
    with Server("127.0.0.1", 0, pages=pages) as server:
        code, _, body = ask(server, "/explain?id=" + quote(HOSTILE))
        assert code == 200
        assert "candidates  1" in json.loads(body)["answer"]
        assert "verdict     exact_duplicate" in json.loads(body)["answer"]
        code, _, body = ask(server, "/explain?id=" + quote("\u202e unknown"))
        assert "cure:" in json.loads(body)["error"]
        assert "\u202e" not in json.loads(body)["error"]
        foreign = {"Sec-Fetch-Site": "cross-site"}
        assert ask(server, "/explain?id=a", **foreign)[0] == 403


@pytest.mark.parametrize(
    "query", ["", "id=", "ids=a", "id=%00", "id=%ff", "id=a&id=b", "id=" + "x" * 2_001, "id"]
)
def test_what_is_no_id_starts_no_command(query, monkeypatch):
    monkeypatch.setattr(questions, "_ended", None)
    assert Questions(["--config=x"]).explained(query)[0] == 400
    assert Questions().explained("id=a")[0] == 404  # a process without a configuration


def test_a_question_is_bounded_in_memory_and_a_killed_one_leaves_no_file(monkeypatch, tmp_path):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    greedy = "import os, time; time.sleep(.5); x = bytearray(1 << 30); print('it fits')"
    monkeypatch.setattr(questions, "SECONDS_MAX", 60.0)
    code, output = questions._ended([sys.executable, "-c", greedy])
    assert (code, b"MemoryError" in output) == (1, True)
    kept = 'touch "$TMPDIR/view"; cat /proc/$$/oom_score_adj; exec sleep 60'
    monkeypatch.setattr(questions, "SECONDS_MAX", 6.0)
    assert questions._ended(["sh", "-c", f"sleep .5; {kept}"]) == (-9, b"1000\n")
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(questions, "_ended", lambda *_: (70, b"Traceback"))
    assert "512 MiB; this command" in Questions.of([], []).explained("id=a")[1]["error"]


def test_a_question_of_a_process_with_lower_limits_and_priority_keeps_them():
    asked = "import os, resource, time; time.sleep(.5); print(os.nice(0))"
    asked += "; print(resource.getrlimit(resource.RLIMIT_DATA)[1])"
    asker = (
        "import os, resource, sys; from streamfilter.monitoring.web import questions; "
        "questions.SECONDS_MAX = 60; "
        "os.nice(15 - os.nice(0)); resource.setrlimit(resource.RLIMIT_DATA, (1 << 28, 1 << 28)); "
        f"print(questions._ended([sys.executable, '-c', {asked!r}]))"
    )
    done = subprocess.run([sys.executable, "-c", asker], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == str((0, f"15\n{1 << 28}\n".encode()))


def test_a_question_ends_with_the_process_that_asks_also_if_it_can_start_no_thread(
    tmp_path, monkeypatch
):
    named = tmp_path / "pid"
    asker = (
        "import pathlib, subprocess, threading, time\n"
        "from streamfilter.monitoring.web import questions\n"
        "begin = subprocess.Popen.__init__\n"
        "def slowly(*given, **named): begin(*given, **named); time.sleep(.5)\n"
        "subprocess.Popen.__init__ = slowly\n"  # the process ends while it starts the command
        "questions.SECONDS_MAX = 600\n"
        f"asked = ['sh', '-c', 'echo $$ > {named}.new; mv {named}.new {named}; exec sleep 600']; "
        "threading.Thread(target=questions._ended, args=[asked], daemon=True).start()\n"
        f"while not pathlib.Path({str(named)!r}).exists(): time.sleep(.01)"
    )
    subprocess.run([sys.executable, "-c", asker], check=True, timeout=60)
    deadline = time.monotonic() + 60
    while state_of(int(named.read_text())) not in ("", "Z"):
        assert time.monotonic() < deadline, "it goes on"
        time.sleep(0.01)

    monkeypatch.setattr(threading.Timer, "start", lambda self: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        questions._ended(["sh", "-c", f"sleep 2; touch {tmp_path / 'went-on'}"])
    assert not (tmp_path / "went-on").exists()


def test_a_question_is_bounded_in_time_length_and_number(monkeypatch):
    monkeypatch.setattr(questions, "RESTS", 0)
    asker = Questions.of([], [])
    monkeypatch.setattr(questions, "SECONDS_MAX", 0.3)
    assert len(questions._ended(["yes"])[1]) == questions.ANSWER_BYTES_MAX
    assert questions._ended(["sh", "-c", "exec sleep 60"]) == (-9, b"")
    for output, expected in {
        b"x" * questions.ANSWER_BYTES_MAX: {"answer": "x" * questions.ANSWER_BYTES_MAX + " …"},
        b"so far": {
            "error": "it was not found within 0.3 s and 512 MiB; this command looks further:\n"
            "streamfilter explain --id='a b'"
        },
    }.items():
        monkeypatch.setattr(questions, "_ended", lambda *_, output=output: (-9, output))
        assert asker.explained("id=a%20b") == (200, expected)

    asked, proceed = threading.Event(), threading.Event()

    def slow(command, body):
        asked.set()
        proceed.wait(60)
        return 0, b"done"

    monkeypatch.setattr(questions, "_ended", slow)
    first = threading.Thread(target=asker.explained, args=["id=a"])
    first.start()
    assert asked.wait(60)
    assert asker.explained("id=a")[0] == 503
    proceed.set()
    first.join()
    assert asker.explained("id=a") == (200, {"answer": "done"})


def test_questions_without_a_token_rest_three_times_as_long_as_they_took(monkeypatch):
    now = [100.0]

    def takes_two_seconds(command, body):
        now[0] += 2
        return 0, b"{}"

    monkeypatch.setattr(questions, "monotonic", lambda: now[0])
    monkeypatch.setattr(questions, "_ended", takes_two_seconds)
    asker = Questions(["--config=x"])
    assert asker.explained("id=a")[0] == 200
    for wait, code in ((0, 503), (5.9, 503), (0.1, 200), (0, 503)):
        now[0] += wait
        assert asker.explained("id=a")[0] == code
    assert [asker.queried("", "text/plain", b"x")[0] for _ in range(2)] == [200, 200]
