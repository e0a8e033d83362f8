"""A worker: reads and sketches what comes in at standard input until that ends. It holds nothing.

It opens no file and knows no index. Whoever asks says by which scheme and seed, so one worker
serves all tasks of a process. What goes wrong is answered and never fatal: the one who asked
does it himself, and meets the same trouble if it is the text's.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from functools import lru_cache
from typing import IO

import numpy as np

from streamfilter.documents.reader import reader_of
from streamfilter.similarity.sketch import Drawn, Sketcher
from streamfilter.similarity.sketchers import sketcher_of
from streamfilter.workers import frames

KILLED_FIRST = "500"
"""For the kernel that looks for memory: a worker costs a retry, the process that has it more."""

SCHEMES_MAX = 64
"""Of each scheme and seed the tables are kept; tasks of one process differ by their seeds."""


def main() -> None:
    """Answer until nobody asks any more."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # whoever asks decides what is still wanted
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:
        score.write(KILLED_FIRST)
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever prints does not print into an answer
    with suppress(EOFError, BrokenPipeError):
        serve(sys.stdin.buffer, answers)


def serve(questions: IO[bytes], answers: IO[bytes]) -> None:
    """Answer each question with its sketches, or with the name of what went wrong."""
    while True:
        question = frames.decode_question(frames.read(questions))
        answer: frames.Answer
        try:
            answer = _answered(question)
        except Exception as error:
            answer = type(error).__name__  # its message may quote a text
        frames.write(answers, frames.encode_answer(answer))


def _answered(question: frames.Question) -> frames.Answer:
    sketcher = _sketcher(question.scheme, question.seed)
    if isinstance(question, frames.Texts):
        return sketcher.alone(question.texts)
    rows, ids, texts = _reader(question.recipe).plain(question.values)
    return Drawn(np.array(rows, np.int64), ids, sketcher.alone(texts))


@lru_cache(SCHEMES_MAX)
def _sketcher(scheme: str, seed: bytes) -> Sketcher:
    return sketcher_of(scheme, seed=seed)


_reader = lru_cache(SCHEMES_MAX)(reader_of)


if __name__ == "__main__":
    main()
