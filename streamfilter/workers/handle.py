"""The handle of a worker process: starts it, asks it, and ends it."""

import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress

from streamfilter.similarity.kernel import choice as signing
from streamfilter.workers import frames
from streamfilter.workers.frames import Drawn, Mishap, Part

COMMAND = (sys.executable, "-P", "-m", "streamfilter.workers.worker")


class Handle:
    """A worker process. One thread at a time sends a whole question, then reads the whole answer.

    So neither end ever waits for the other to read, and the pipes cannot deadlock. The process is
    started with `exec` and inherits neither memory nor files: the parent may have an open index.
    """

    def __init__(self, command: Sequence[str], *, patience: float) -> None:
        """Start it; wait *patience* seconds for an answer. The system may refuse: `Mishap`."""
        self._patience = patience
        # The secret seed goes through the pipe: other users can see arguments and environments.
        environment = {**signing.environment(), "PYTHONPATH": os.pathsep.join(sys.path)}
        environment["OPENBLAS_NUM_THREADS"] = "1"  # otherwise it starts a thread for every core
        try:
            self._process = subprocess.Popen(
                command or COMMAND,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=environment,
                start_new_session=True,  # Ctrl-C is for the owner, which may still want an answer
            )
        except OSError as error:
            raise Mishap(f"the system gave no process: {error.strerror}") from error
        self.pid = self._process.pid

    def ask(self, question: Part) -> Drawn:
        """Return the answer to *question*; after a `Mishap` do not use it again."""
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
            frames.write(process.stdin, frames.encode_part(question))
            answer = frames.decode_answer(frames.read(process.stdout))
        except (OSError, EOFError) as error:
            raise Mishap(self._end()) from error
        except Exception as error:  # not a message of ours, so the writer is not a worker
            raise Mishap(f"it answered nonsense ({type(error).__name__}); {self._end()}") from error
        finally:
            impatience.cancel()
        if isinstance(answer, str):
            raise Mishap(f"it met {answer}")
        if not question.answered_by(answer):
            raise Mishap("it answered something else")
        return answer

    def kill(self) -> None:
        """Kill it: a thread that waits for its answer gets a `Mishap`."""
        self._process.kill()

    def _end(self) -> str:
        self.close()
        code = self._process.returncode
        return f"it was killed by signal {-code}" if code < 0 else f"it ended with {code}"

    def close(self) -> None:
        """Kill it and free its pipes: it holds no data that could be lost."""
        self._process.kill()
        self._process.wait()
        for file in (self._process.stdin, self._process.stdout):
            with suppress(OSError):  # closing flushes what was not sent yet
                if file is not None:
                    file.close()
