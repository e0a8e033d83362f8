"""Answers "why was it withheld?" for the page, with the command that answers it in a terminal.

The command is a process of its own. So a question takes nothing from the filter's loop, and its
time, its processor time, its memory and the length of its answer are bounded. One question is
answered at a time. It changes nothing, and leaves no file, also if it is killed.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from shlex import quote
from urllib.parse import parse_qs

from streamfilter.process.cures import CURES
from streamfilter.process.terminal_escapes import visible
from streamfilter.stops import ExitCode

SECONDS_MAX = 8.0  # longest question; the server gives up a request after ten seconds
PROCESSOR_SECONDS_MAX = 10  # the kernel ends it then, also if this process was killed meanwhile
MEMORY_BYTES_MAX = 1 << 29  # 200 MB is usual, with 110 in use; large records take more
ANSWER_BYTES_MAX = 200_000
ID_CHARACTERS_MAX = 2_000
NICE = 10  # the filter's loop goes first where there is one core


@dataclass(frozen=True, slots=True)
class Explainer:
    """Runs `explain --id` with the configuration of this process."""

    options: Sequence[str] = ()
    """The options of the configuration; empty: this process has none, and refuses the question."""
    _busy: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def of(cls, files: Sequence[Path], overrides: Sequence[str]) -> Explainer:
        """Ask with the configuration *files* and *overrides* of `run`."""
        given = [f"--config={path}" for path in files] + [f"--set={each}" for each in overrides]
        return cls(given or ["--set=http.port=0"])  # all settings may be in the environment

    def asked(self, query: str) -> tuple[int, dict[str, str]]:
        """Return a status code and the answer to *query* (``id=…``): ``answer`` or ``error``."""
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
        if not self._busy.acquire(blocking=False):
            busy = "another question is being answered; ask again in some seconds"
            return HTTPStatus.SERVICE_UNAVAILABLE, {"error": busy}
        try:
            return self._answered(id_)
        finally:
            self._busy.release()

    def _answered(self, id_: str) -> tuple[int, dict[str, str]]:
        command = [sys.executable, "-m", "streamfilter", "explain", *self.options, f"--id={id_}"]
        try:
            code, output = _ended(command)
        except OSError as error:
            return HTTPStatus.SERVICE_UNAVAILABLE, {"error": f"cannot ask: {error.strerror}"}
        text = visible(output.decode(errors="replace")).strip()
        if len(output) == ANSWER_BYTES_MAX:
            return HTTPStatus.OK, {"answer": f"{text} …"}
        if code < 0 or code == ExitCode.BUG:  # killed, or without memory
            again = CURES.completed(f"`streamfilter explain --id={quote(id_)}`").strip("`")
            text = (
                f"it was not found within {SECONDS_MAX:g} s and {MEMORY_BYTES_MAX >> 20} MiB; "
                f"this command looks further:\n{again}"
            )
        return HTTPStatus.OK, {"error" if code else "answer": text}


def _ended(command: Sequence[str]) -> tuple[int, bytes]:
    """Run *command*; return its exit code, negative if it was killed, and what it wrote."""
    with (
        tempfile.TemporaryDirectory(prefix="streamfilter-explain-") as scratch,
        subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C is for the filter
            env={**os.environ, "TMPDIR": scratch},  # a killed command removes nothing
        ) as asking,
    ):
        late = threading.Timer(SECONDS_MAX, asking.kill)
        late.start()
        assert asking.stdout is not None
        try:
            _bound(asking.pid)
            output = asking.stdout.read(ANSWER_BYTES_MAX)  # ends with the process, killed or not
        finally:
            late.cancel()
            asking.kill()  # does nothing to a process that has ended
        return asking.wait(), output


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
