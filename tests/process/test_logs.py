"""One line an event, repeats counted, in a form that programs or people read."""

import io
import json
import logging
import subprocess
import sys

import pytest

from streamfilter import cli
from streamfilter.process import logs


@pytest.fixture
def stream():
    root = logging.getLogger()
    before = root.handlers[:], root.level
    yield io.StringIO()
    root.handlers[:], root.level = before


def lines(stream: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_each_line_is_one_json_object_whatever_it_says(stream):
    logs.configure("info", "json", stream=stream)
    logging.getLogger("streamfilter.x").warning("a\nb \x1b[31m %d%%", 5, extra={"partition": 3})
    try:
        raise ValueError("broken\nin two")
    except ValueError:
        logging.getLogger("y").exception("failed")
    first, second = lines(stream)
    assert first["message"] == "a\nb \x1b[31m 5%"
    assert (first["level"], first["logger"], first["partition"]) == ("warning", "streamfilter.x", 3)
    assert "ValueError: broken" in str(second["exception"])


def test_the_level_holds_back_what_is_less(stream):
    logs.configure("warning", "json", stream=stream)
    logging.getLogger("x").info("not this")
    logging.getLogger("x").error("this")
    assert [line["message"] for line in lines(stream)] == ["this"]


def test_auto_writes_json_where_no_one_watches(stream):
    logs.configure("info", "auto", stream=stream)
    logging.getLogger("x").info("hello")
    assert lines(stream)[0]["message"] == "hello"


def test_auto_writes_text_on_a_terminal(stream, monkeypatch):
    monkeypatch.setattr(stream, "isatty", lambda: True)
    logs.configure("info", "auto", stream=stream)
    logging.getLogger("streamfilter.kafka").info("hello", extra={"n": 1})
    assert stream.getvalue().endswith("info kafka: hello n=1\n")


class Lines:
    """A filter of repetitions with a clock that is turned by hand."""

    def __init__(self) -> None:
        self.now = 0.0
        self.filter = logs.Repeats(clock=lambda: self.now)

    def log(self, message: str, *arguments: object, **fields: object) -> logging.LogRecord | None:
        """Return the line's record if it is written."""
        record = logging.LogRecord("x", 30, "", 0, message, arguments, None)
        vars(record).update(fields)
        return record if self.filter.filter(record) else None

    def written(self, number: int, message: str, *arguments: object) -> int:
        return sum(self.log(message, *arguments) is not None for _ in range(number))


@pytest.fixture
def repeats():
    return Lines()


def test_a_line_that_repeats_is_written_a_few_times_then_counted(repeats):
    assert repeats.written(100, "broker %d is down", 3) == logs.REPEATS
    repeats.now = logs.REPEAT_SECONDS
    again = repeats.log("broker %d is down", 3)
    assert again.suppressed == 100 - logs.REPEATS
    assert not hasattr(repeats.log("broker %d is down", 3), "suppressed")


def test_different_lines_of_one_template_are_all_written(repeats):
    """Twenty partitions were damaged, and the log reported five."""
    assert all(repeats.log("partition %d is damaged", number) for number in range(20))
    assert all(repeats.log("is damaged", partition=number) for number in range(20))


def test_lines_that_differ_in_their_exception_are_all_written(repeats):
    for number in range(20):
        error = ValueError(f"cause {number}")
        assert repeats.log("an exception in a callback", exc_info=(ValueError, error, None))


def test_a_template_that_counts_up_does_not_flood_and_is_counted(repeats):
    written = [repeats.log("attempt %d", number) for number in range(1_000)]
    assert sum(line is not None for line in written) == logs.ALIKE
    repeats.now = logs.REPEAT_SECONDS
    assert repeats.log("attempt %d", 1_000).suppressed == 1_000 - logs.ALIKE


def test_arguments_that_do_not_fit_their_template_disturb_no_one(repeats):
    assert repeats.log("%d", "no number") is not None


def test_different_lines_do_not_silence_each_other_and_memory_is_bounded(repeats):
    for number in range(3 * logs.REPEATS_REMEMBERED_MAX):
        assert repeats.log(f"line {number}")
    assert len(repeats.filter._equal) <= logs.REPEATS_REMEMBERED_MAX
    assert len(repeats.filter._alike) <= logs.REPEATS_REMEMBERED_MAX


def test_a_secret_is_masked_in_every_dress():
    masker = logs.Masker()
    secret = 'pa"ss\\wörd'
    masker.learn([secret, "no"])
    for dressed in (secret, json.dumps(secret), repr({"p": secret}), f"x{secret}x"):
        assert logs.MASK in masker.mask(dressed), dressed
    assert masker.mask("no harm") == "no harm"


def test_a_closed_standard_error_stops_no_one(stream, capsys):
    logs.configure("info", "json", stream=stream)
    stream.close()
    logging.getLogger("x").error("into the void")
    assert capsys.readouterr().err == ""
    assert sys.stderr is not None


def test_a_secret_that_is_cut_is_masked_first(stream):
    secret = "hunter2-S3NT1NEL"
    logs.configure("info", "json", stream=stream, secrets=[secret])
    logging.getLogger("x").info("%s%s", "." * (logs.MESSAGE_CHARACTERS_MAX - 5), secret)
    assert "hunte" not in stream.getvalue()


STRAYS = """
import sys, threading
from streamfilter.process import logs
logs.configure("info", "json", secrets=["hunter2-S3NT1NEL"])
def fail():
    raise ValueError("password hunter2-S3NT1NEL")
thread = threading.Thread(target=fail, name="the-stray")
thread.start()
thread.join()
class Doomed:
    def __del__(self):
        fail()
Doomed()
"""


def test_what_rises_in_a_thread_or_a_destructor_is_logged_and_masked():
    done = subprocess.run(
        [sys.executable, "-c", STRAYS], capture_output=True, text=True, timeout=60
    )
    told = [json.loads(line) for line in done.stderr.splitlines()]
    assert [each["logger"] for each in told] == ["streamfilter.stray"] * 2
    assert "the-stray" in told[0]["message"]
    assert "destructor" in told[1]["message"]
    assert all("ValueError: password ********" in each["exception"] for each in told)
    assert "hunter2" not in done.stderr + done.stdout


def test_a_bug_is_reported_without_the_secret_in_it(monkeypatch, capsys, stream):
    logs.configure("info", "json", stream=stream, secrets=["hunter2-S3NT1NEL"])
    monkeypatch.setattr(cli.group, "main", lambda **_: int("hunter2-S3NT1NEL"))
    assert cli.main([]) == 70
    assert "this is a bug" in stream.getvalue()
    assert "hunter2" not in stream.getvalue()
