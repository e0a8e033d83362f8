"""Ctrl-C, SIGTERM and a closed terminal in work over files: no output appears.

Not even where exceptions are swallowed.
"""

import gc
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from streamfilter.cli import main
from streamfilter.files.engine import Engine
from streamfilter.process.signals import INTERRUPTION, Interruption
from tests.filter.conftest import Desk
from tests.filter.stories import lines_of, stories, write

TIMEOUT_SECONDS = 240
SENT = [(signal.SIGHUP, 129), (signal.SIGINT, 130), (signal.SIGTERM, 143)]


def waiting(desk: Desk, *arguments: str) -> subprocess.Popen[bytes]:
    """Return a run that has read what came through its standard input, and waits for more."""
    run = subprocess.Popen(
        [sys.executable, "-m", "streamfilter", *arguments],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=desk.path,
    )  # fmt: skip
    assert run.stdin is not None
    run.stdin.write(b"\n".join(lines_of(stories(60))) + b"\n")
    run.stdin.flush()
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not (desk.path / "unique.partial").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    return run


@pytest.mark.parametrize(("number", "code"), SENT)
def test_it_leaves_the_outputs_and_can_be_run_again(desk, number, code):
    lines = lines_of(stories(100))
    assert desk.run(write(desk.path / "in", lines)) == 0
    expected = desk.outputs
    desk.unique.write_bytes(b"before\n")
    run = waiting(desk, *desk.arguments("-", state="s"))
    run.send_signal(number)
    # Its input stays open: it must be heard while nothing comes.
    assert run.wait(TIMEOUT_SECONDS) == code
    _, said = run.communicate()
    assert b"stopped; the outputs are as they were" in said
    assert b"Traceback" not in said
    assert desk.unique.read_bytes() == b"before\n"
    assert not list(desk.path.glob("*.partial"))
    assert desk.run(desk.path / "in", state="s", stdin_name="other") == 0
    assert desk.outputs == expected


@pytest.mark.parametrize(("number", "code"), SENT)
@pytest.mark.parametrize("step", [1, 3])
def test_a_signal_in_a_destructor_is_not_swallowed(desk, monkeypatch, number, code, step):
    """What a handler raises there is written to standard error and forgotten: it was published."""

    class Doomed:
        def __del__(self) -> None:
            os.kill(os.getpid(), number)
            time.sleep(0)  # so that the handler runs here

    steps, original = [], Engine._step

    def stepped(engine: Engine, *arguments: object) -> None:
        steps.append(1)
        original(engine, *arguments)
        if len(steps) == step:
            Doomed()

    monkeypatch.setattr(Engine, "_step", stepped)
    source = write(desk.path / "in", lines_of(stories(60)))
    assert desk.run(source, set="batch.documents=20") == code
    assert len(steps) == step
    assert not desk.unique.exists()
    assert not list(desk.path.glob("*.partial"))


def test_a_second_signal_ends_the_process_at_once() -> None:
    script = (
        "import os, signal, sys; from streamfilter.process.signals import INTERRUPTION\n"
        "with INTERRUPTION.listening():\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    print('noted', flush=True)\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "print('still there')"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=180)
    assert (done.returncode, done.stdout) == (-signal.SIGINT, b"noted\n")


def test_a_closed_terminal_is_reported_twice_and_the_work_comes_to_its_end_all_the_same() -> None:
    """The kernel reports it, and then the shell; a second Ctrl-C would end the process at once."""
    with INTERRUPTION.listening():
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGHUP)
        assert INTERRUPTION.is_set()


def test_a_service_notes_every_signal_and_another_thread_can_hear_of_it() -> None:
    wish = Interruption()
    with wish.listening(again=None):
        assert not wish.is_set()
        assert not wish.came()
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGTERM)
            assert wish.wait(0)
            assert wish.came()
    assert not wish.is_set()
    assert not wish.came()


def test_the_handler_of_a_signal_takes_no_lock_that_it_may_have_interrupted() -> None:
    """With the lock of an event it waited for the thread that it ran in, and the command hung."""
    wish = Interruption()
    with wish.listening(again=None):
        locks = [
            each for each in gc.get_referents(*_reached_from(wish)) if hasattr(each, "acquire")
        ]
    assert locks == []


def _reached_from(start: object) -> list[object]:
    found, todo = [start], [start]
    while todo:
        for each in gc.get_referents(todo.pop()):
            mine = type(each).__module__ in ("threading", Interruption.__module__)
            if (mine or each is vars(start)) and not any(each is one for one in found):
                found.append(each)
                todo.append(each)
    return found


@pytest.mark.parametrize("verb", ["pairs", "evaluate"])
def test_other_verbs_over_files_end_the_same_way(desk, monkeypatch, verb, capsys):
    original, asked = INTERRUPTION.obey, []

    def interrupted_at_the_second() -> None:
        asked.append(1)
        if len(asked) == 2:
            os.kill(os.getpid(), signal.SIGINT)
        original()

    monkeypatch.setattr(INTERRUPTION, "obey", interrupted_at_the_second)
    source = write(desk.path / "in", lines_of(stories(2_500)))
    assert main([verb, str(source)]) == 130
    assert capsys.readouterr().out == ""
    assert len(asked) == 2


def test_what_ran_before_has_its_own_handlers_again(desk: Desk) -> None:
    before = [signal.getsignal(number) for number, _ in SENT]
    assert desk.run(write(desk.path / "in", lines_of(stories(10)))) == 0
    assert [signal.getsignal(number) for number, _ in SENT] == before


@contextmanager
def ignored(number: signal.Signals) -> Iterator[None]:
    """Ignore a signal inside the block."""
    before = signal.signal(number, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(number, before)


def test_an_ignored_signal_stays_ignored() -> None:
    with ignored(signal.SIGINT), INTERRUPTION.listening():
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


@pytest.mark.parametrize("again", [signal.SIG_DFL, None, signal.default_int_handler])
def test_what_nohup_started_goes_on_without_a_terminal(again: object) -> None:
    interruption = Interruption()
    with ignored(signal.SIGHUP), interruption.listening(again=again):
        os.kill(os.getpid(), signal.SIGHUP)
        assert not interruption.wait(0)


@pytest.mark.parametrize("again", [None, signal.default_int_handler])
def test_what_goes_on_until_asked_obeys_a_signal_that_was_ignored(again: object) -> None:
    """A script that starts one in the background has ignored Ctrl-C for it, and may forward it."""
    interruption = Interruption()
    with ignored(signal.SIGINT):
        with interruption.listening(again=again):
            os.kill(os.getpid(), signal.SIGINT)
            assert interruption.wait(TIMEOUT_SECONDS)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_a_silent_fifo_is_left_too(desk: Desk, tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    writer = os.open(fifo, os.O_RDWR)  # someone may write, and no one does
    try:
        run = waiting(desk, *desk.arguments(str(fifo)))
        run.send_signal(signal.SIGINT)
        assert run.wait(TIMEOUT_SECONDS) == 130
    finally:
        os.close(writer)
    assert not desk.unique.exists()
