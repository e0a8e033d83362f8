"""A worker: reads and sketches the questions on standard input until that ends. It has no state.

It opens no file and no index. Each question names its scheme and seed, so one worker serves all
tasks of a process. An exception is returned as the answer and never ends the worker. The owner then
does that part itself, and gets the same exception if the text causes it.
"""

import os
import signal
import sys
from contextlib import suppress
from functools import lru_cache
from typing import IO

import numpy as np

from streamfilter.documents.reader import reader_of
from streamfilter.documents.sketching import sketched
from streamfilter.similarity.sketch import Sketcher
from streamfilter.workers import frames

KILLED_FIRST = "500"
"""The worker's `oom_score_adj`. If memory is short, the kernel should kill a worker first: that
costs a retry, but the owner's death costs more."""

SCHEMES_MAX = 64  # sketchers that are cached, one for each scheme and seed of a task


def main() -> None:
    """Answer questions until standard input ends."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # the owner decides when the worker ends
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:
        score.write(KILLED_FIRST)
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # so that a print does not end up in an answer
    with suppress(EOFError, BrokenPipeError):
        serve(sys.stdin.buffer, answers)


def serve(questions: IO[bytes], answers: IO[bytes]) -> None:
    while True:
        question = frames.decode_part(frames.read(questions))
        answer: frames.Answer
        try:
            sketcher = _sketcher(question.scheme, question.seed)
            if question.recipe:
                rows, ids, documents = _reader(question.recipe).plain(question.values)
            else:
                documents = frames.as_documents(question.values, len(sketcher.scheme.pointers))
                rows, ids = [*range(len(documents))], []
            answer = frames.Drawn(np.array(rows, np.int64), ids, sketched(sketcher, documents))
        except Exception as error:
            answer = type(error).__name__  # its message may quote a text
        frames.write(answers, frames.encode_answer(answer))


_sketcher = lru_cache(SCHEMES_MAX)(Sketcher.of_recipe)
_reader = lru_cache(SCHEMES_MAX)(reader_of)


if __name__ == "__main__":
    main()
