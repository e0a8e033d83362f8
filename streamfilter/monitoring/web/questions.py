"""Answers questions over HTTP with the commands that answer them in a terminal.

``GET /explain`` is the page's "why was it withheld?". ``POST /query`` is "have you seen this?", for
programs with a token. The command is a process of its own. So a question takes nothing from the
filter's loop, and its time, its processor time, its memory and the length of its answer are
bounded. One question of each kind is answered at a time, and one that needs no token is followed
by a rest. It changes nothing, and leaves no file, also if it is killed.
"""

from __future__ import annotations

import atexit
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from shlex import quote
from time import monotonic
from typing import Any
from urllib.parse import parse_qs, parse_qsl

from msgspec import Struct, field

from streamfilter.monitoring.web.token_file import TokenFile
from streamfilter.process.cures import CURES
from streamfilter.process.terminal_escapes import visible
from streamfilter.stops import ExitCode

SECONDS_MAX = 8.0  # longest question; the server gives up a request after ten seconds
PROCESSOR_SECONDS_MAX = 10  # the kernel ends it then, also if this process was killed meanwhile
MEMORY_BYTES_MAX = 1 << 29  # 200 MB is usual, with 110 in use; large records take more
ANSWER_BYTES_MAX = 200_000
ID_CHARACTERS_MAX = 2_000
BODY_BYTES_MAX = 1 << 20  # of a text or record that is asked about; 16 may be in memory at once
NICE = 10  # the filter's loop goes first where there is one core
NAMES = ("scope", "field", "threshold", "limit")
"""Options of `query` that a request may have, as in ``/query?threshold=0.7&limit=5``."""
TEXT = "text/plain"
CHARSETS = ("", "utf-8", "utf8", "us-ascii")
RESTS = 3  # times as long as it took: so questions without a token leave most of a core to others
BUSY = "another question is being answered, or was just now; ask again in some seconds"

Reply = tuple[int, dict[str, Any]]  # a status code, and the answer or an ``error``


class _Turn(Struct):
    """Who asks now, and when the next one may."""

    rests: float
    lock: threading.Lock = field(default_factory=threading.Lock)
    free_from: float = 0.0


class Questions(Struct, frozen=True):
    """Runs `explain --id` and `query` with the configuration of this process."""

    options: Sequence[str] = ()
    """The options of the configuration; empty: this process has none, and refuses all questions."""
    tokens: TokenFile | None = None
    """Who may ask for near-duplicates; None: no program may."""
    _turns: dict[str, _Turn] = field(
        default_factory=lambda: {"explain": _Turn(RESTS), "query": _Turn(0)}
    )
    """One for each verb: those who ask without a token must not take a program's place."""

    @classmethod
    def of(
        cls, files: Sequence[Path], overrides: Sequence[str], tokens: TokenFile | None = None
    ) -> Questions:
        """Ask with the configuration *files* and *overrides* of `run`."""
        given = [f"--config={path}" for path in files] + [f"--set={each}" for each in overrides]
        return cls(given or ["--set=http.port=0"], tokens)  # all may be in the environment

    def explained(self, query: str) -> Reply:
        """Return the answer to *query* (``id=…``): why the document was withheld, in words."""
        try:
            ids = parse_qs(query, errors="strict", max_num_fields=1).get("id", [])
        except ValueError:  # among them bytes that are no UTF-8
            ids = []
        id_ = ids[0] if ids else ""
        if not id_ or len(id_) > ID_CHARACTERS_MAX or "\0" in id_:
            wanted = f"ask with ?id=…, an id of at most {ID_CHARACTERS_MAX:,} characters"
            return HTTPStatus.BAD_REQUEST, {"error": wanted}
        if not self.options:
            return HTTPStatus.NOT_FOUND, {"error": "this process has no configuration to ask with"}
        ended = self._ended("explain", f"--id={id_}")
        if isinstance(ended, str):
            return HTTPStatus.SERVICE_UNAVAILABLE, {"error": ended}
        code, output = ended
        text = visible(output.decode(errors="replace")).strip()
        if len(output) == ANSWER_BYTES_MAX:
            return HTTPStatus.OK, {"answer": f"{text} …"}
        if _died(code):
            again = CURES.completed(f"`streamfilter explain --id={quote(id_)}`").strip("`")
            text = f"it was not found within {_bounds()}; this command looks further:\n{again}"
        return HTTPStatus.OK, {"error" if code else "answer": text}

    def queried(self, query: str, content_type: str, body: bytes) -> Reply:
        """Return the near-duplicates of *body*, which is a text, or the value of a record.

        *query* has the `NAMES` that are given. The token was looked at before *body* was read.
        """
        given = _options_in(query)
        if given is None:
            names = ", ".join(NAMES)
            return HTTPStatus.BAD_REQUEST, {"error": f"behind ? there may be {names}, in UTF-8"}
        kind, _, parameters = content_type.lower().partition(";")
        charset = parameters.partition("charset=")[2].strip(' "')
        if charset not in CHARSETS:  # UTF-16 can be read as UTF-8, as another text
            wrong = f"the body's charset is {charset:.40}; send UTF-8"
            return HTTPStatus.BAD_REQUEST, {"error": wrong}
        asked = "@-" if kind.strip() == TEXT else "--record=-"
        ended = self._ended("query", "--output=json", *given, asked, body=body)
        if isinstance(ended, str):
            return HTTPStatus.SERVICE_UNAVAILABLE, {"error": ended}
        code, output = ended
        if len(output) == ANSWER_BYTES_MAX:  # it may have ended well, with the rest in the pipe
            return HTTPStatus.BAD_REQUEST, {"error": "the answer is too long; ask for a limit=5"}
        if not code:
            found: dict[str, Any] = json.loads(output)
            return HTTPStatus.OK, found
        if _died(code):
            why = f"there was no answer within {_bounds()}"
            return HTTPStatus.SERVICE_UNAVAILABLE, {"error": why}
        text = visible(output.decode(errors="replace")).strip()
        if code != ExitCode.USAGE:
            return HTTPStatus.SERVICE_UNAVAILABLE, {"error": text}
        # The help of a command line is of no use to a program.
        return HTTPStatus.BAD_REQUEST, {"error": text.rpartition("\nError: ")[2]}

    def _ended(self, verb: str, *arguments: str, body: bytes = b"") -> tuple[int, bytes] | str:
        """Run a command, one of each verb; return how it ended, or why it was not started."""
        turn, began = self._turns[verb], monotonic()
        if began < turn.free_from or not turn.lock.acquire(blocking=False):
            return BUSY
        try:
            command = [sys.executable, "-m", "streamfilter", verb, *self.options, *arguments]
            return _ended(command, body)
        except OSError as error:
            return f"cannot ask: {error.strerror}"
        finally:
            ended = monotonic()
            turn.free_from = ended + turn.rests * (ended - began)
            turn.lock.release()


def _options_in(query: str) -> list[str] | None:
    """Return the options of `query` in a query string; None: it has others, or is malformed.

    Each value is a part of one argument, so it cannot become an option of its own.
    """
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query),
                          errors="strict", max_num_fields=20)  # fmt: skip
    except ValueError:
        return None
    if any(name not in NAMES or "\0" in value for name, value in pairs):
        return None
    return [f"--{name}={value}" for name, value in pairs]


def _died(code: int) -> bool:
    """Return whether a command was killed, or had too little memory (Python itself ends with 1)."""
    return code < 0 or code in (1, ExitCode.BUG)


def _bounds() -> str:
    return f"{SECONDS_MAX:g} s and {MEMORY_BYTES_MAX >> 20} MiB"


_starting = threading.Lock()
_running = set[subprocess.Popen[bytes]]()


@atexit.register
def _end_all() -> None:
    """End all commands: none outlives a process that stops, and none is started any more."""
    _starting.acquire()
    for each in list(_running):
        each.kill()


def _ended(command: Sequence[str], body: bytes = b"") -> tuple[int, bytes]:
    """Run *command* with *body* as its input; return its exit code, and what it wrote.

    The code is negative if it was killed. Only a command that failed has its standard error in it.
    """
    with (
        tempfile.TemporaryDirectory(prefix="streamfilter-question-") as scratch,
        tempfile.TemporaryFile(dir=scratch) as given,
    ):
        given.write(body)
        given.seek(0)
        with _starting:
            asking = subprocess.Popen(
                command,
                stdin=given,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,  # Ctrl-C is for the filter
                env={**os.environ, "TMPDIR": scratch},  # a killed command removes nothing
            )
            _running.add(asking)
        with asking:
            late = threading.Timer(SECONDS_MAX, asking.kill)
            assert asking.stdout is not None
            assert asking.stderr is not None
            try:
                late.start()
                _bound(asking.pid)
                output = asking.stdout.read(ANSWER_BYTES_MAX)  # ends with the process, or is full
                if len(output) == ANSWER_BYTES_MAX:
                    asking.kill()
                # A command that writes more than a pipe holds waits here until it is late.
                said = asking.stderr.read(ANSWER_BYTES_MAX - len(output))
            finally:
                late.cancel()
                asking.kill()  # does nothing to a process that has ended
                _running.discard(asking)
            code = asking.wait()
            return code, output + said if code else output


def _bound(process: int) -> None:
    """Let the kernel bound *process*, and end it before this one where memory is short."""
    if sys.platform == "linux":
        for limit, most in (
            (resource.RLIMIT_CPU, PROCESSOR_SECONDS_MAX),
            (resource.RLIMIT_DATA, MEMORY_BYTES_MAX),
        ):
            _, hard = resource.prlimit(process, limit)
            most = most if hard == resource.RLIM_INFINITY else min(most, hard)
            resource.prlimit(process, limit, (most, most))
        with suppress(OSError):  # /proc may be hidden
            Path(f"/proc/{process}/oom_score_adj").write_text("1000")
    inherited = os.getpriority(os.PRIO_PROCESS, process)  # only root may lower it
    os.setpriority(os.PRIO_PROCESS, process, max(NICE, inherited))
