"""The workers of a crew: each used by one thread at a time, replaced when it fails.

If a worker does not answer, another worker gets the part once more. If that fails too, the caller
does the part itself. So a worker that is killed, stuck or out of memory costs time and a line of
log, but never a text.
"""

import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from streamfilter.similarity.kernel import choice as signing
from streamfilter.workers import frames
from streamfilter.workers.frames import Drawn, Part

COMMAND = (sys.executable, "-P", "-m", "streamfilter.workers.worker")


class Mishap(Exception):
    """A worker returned no sketches: it did not start, died, or did not answer in time."""


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
                command,
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


MISHAPS_MAX = 8  # then workers are given up: something on this system keeps killing them
GOOD = 100
"""After so many answers, one mishap is forgiven. A single answer is not enough: beside a healthy
worker, one that always fails would be replaced for ever, at .3 s a batch."""

logger = logging.getLogger("streamfilter.workers")


class Workforce:
    """Up to *size* workers, started as they are needed."""

    def __init__(self, size: int, command: Sequence[str], *, patience: float) -> None:
        self._command, self._patience = command or COMMAND, patience
        self._threads = ThreadPoolExecutor(size, thread_name_prefix="workers")
        self._lock = threading.Lock()
        self._alive: set[Handle] = set()
        self._idle: list[Handle] = []
        self._closed = False
        self._mishaps = self._answers = 0

    def begin(self, question: Part) -> Callable[[], Drawn | None]:
        """Send *question*; return a function that waits for the answer, None if there is none."""
        try:
            return self._threads.submit(self._part, question).result
        except RuntimeError:  # the system gave no thread, or it was closed meanwhile
            return lambda: None

    @property
    def given_up(self) -> bool:
        """Return True if workers failed so often that they are not used any more."""
        return self._mishaps >= MISHAPS_MAX

    @property
    def pids(self) -> list[int]:
        with self._lock:
            return [each.pid for each in self._alive]

    def close(self) -> None:
        """End all workers; open questions stay unanswered."""
        with self._lock:
            self._closed, alive = True, list(self._alive)
        for each in alive:
            each.kill()
        self._threads.shutdown()
        for each in alive:
            each.close()

    def _part(self, question: Part) -> Drawn | None:
        """Return a worker's answer, None after two mishaps."""
        for _ in range(2):
            if self._closed:
                break
            try:
                return self._asked(question)
            except Mishap as mishap:
                self._note(mishap, len(question.values))
        return None

    def _note(self, mishap: Mishap, texts: int) -> None:
        with self._lock:
            self._mishaps += 1
            last = self._mishaps == MISHAPS_MAX
            idle = self._idle.copy() if last else []
            self._idle = [] if last else self._idle
        if not self._closed:
            logger.warning("a worker failed: %s; its %d texts are sketched again", mishap, texts)
            if last:
                logger.error("workers failed %d times: going on without", MISHAPS_MAX)
        for each in idle:
            self._dismiss(each)

    def _asked(self, question: Part) -> Drawn:
        """Send the question to a worker; a worker that fails is not used again. Raises `Mishap`."""
        worker = self._taken()
        try:
            answer = worker.ask(question)
        except BaseException:
            self._dismiss(worker)
            raise
        with self._lock:
            self._answered()
            kept = not self.given_up
            if kept:
                self._idle.append(worker)
        if not kept:
            self._dismiss(worker)
        return answer

    def _answered(self) -> None:
        self._answers += 1
        if self._answers >= GOOD and self._mishaps and not self.given_up:
            self._answers, self._mishaps = 0, self._mishaps - 1

    def _dismiss(self, worker: Handle) -> None:
        with self._lock:
            self._alive.discard(worker)
        worker.close()

    def _taken(self) -> Handle:
        with self._lock:
            if self._idle:
                return self._idle.pop()
        started = Handle(self._command, patience=self._patience)
        with self._lock:
            self._alive.add(started)
            closed = self._closed
        if closed:
            started.kill()
        return started
