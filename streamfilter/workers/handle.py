"""One worker as its owner sees it: started, asked, and ended when it does not answer."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress

from streamfilter.workers import frames

COMMAND = (sys.executable, "-P", "-m", "streamfilter.workers.worker")


class Mishap(Exception):
    """A worker gave no sketches: it could not be started, died, or did not answer in time."""


class Handle:
    """A worker process. One thread at a time asks it, sends all and then reads all.

    So neither end ever waits for the other to read: pipes cannot lock up. It is begun anew with
    `exec`, and inherits neither memory nor files: an open index may be where it comes from.
    """

    def __init__(self, command: Sequence[str], *, patience: float) -> None:
        """Start it.

        Args:
            command: what to run.
            patience: seconds after which an answer is not waited for any more.

        Raises:
            Mishap: the system gives no process.
        """
        self._patience = patience
        # The seed goes through the pipe: arguments and environments are seen by others.
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        environment["OPENBLAS_NUM_THREADS"] = "1"  # it would start a thread for every core
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=environment,
                start_new_session=True,  # Ctrl-C is for the owner, who may still want an answer
            )
        except OSError as error:
            raise Mishap(f"the system gave no process: {error.strerror}") from error

    @property
    def pid(self) -> int:
        """Return the number of its process."""
        return self._process.pid

    def ask(self, question: frames.Question) -> frames.Answer:
        """Return the answer to *question*.

        Raises:
            Mishap: it died, was killed or answered something else; it is no use any more.
        """
        process = self._process
        assert process.stdin is not None, "a pipe"
        assert process.stdout is not None, "a pipe"
        impatience = threading.Timer(self._patience, process.kill)
        impatience.daemon = True
        try:
            impatience.start()
        except RuntimeError as error:
            self.close()
            raise Mishap("the system gave no thread") from error
        try:
            frames.write(process.stdin, frames.encode_question(question))
            answer = frames.decode_answer(frames.read(process.stdout))
        except (OSError, EOFError) as error:
            raise Mishap(self._end()) from error
        except Exception as error:  # no value of ours: whatever wrote it is no worker
            raise Mishap(f"it answered nonsense ({type(error).__name__}); {self._end()}") from error
        finally:
            impatience.cancel()
        if isinstance(answer, str):
            raise Mishap(f"it met {answer}")
        if not question.answered_by(answer):
            raise Mishap("it answered something else")
        return answer

    def kill(self) -> None:
        """Let it end: whoever waits for its answer hears so."""
        self._process.kill()

    def _end(self) -> str:
        """End it, and say how it ended."""
        self.close()
        code = self._process.returncode
        return f"it was killed by signal {-code}" if code < 0 else f"it ended with {code}"

    def close(self) -> None:
        """End it: it holds nothing that could be lost."""
        self._process.kill()
        self._process.wait()
        for file in (self._process.stdin, self._process.stdout):
            with suppress(OSError):  # what was not sent yet
                if file is not None:
                    file.close()
