"""One search by libFuzzer, by way of Atheris, in a process of its own: it never returns.

Inputs that reach new code of ours are kept in the corpus and changed further. The process ends
with 0 when its share of processor time is used, or its memory: Atheris loses some hundred bytes
an input, which are not ours. A broken promise ends it at once, with the input that broke it in a
file. One input's memory and time are bounded, so that a blow-up is a finding too.

Several targets, as ``NAME=INPUTS``, are searched one after another, each in a fork of this process:
the imports take longer than the search. What a fork prints is in ``CORPUS/NAME.log``.
"""

import argparse
import importlib
import math
import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import atheris

from tests.fuzz.pieces import Target

INPUT_BYTES_MAX = 5_000
SECONDS_AN_INPUT = 60  # of the clock, and the search may be the last in the line for a processor
MEGABYTES_MAX = 2_000
MEGABYTES_ENOUGH = 1_000  # then the next process goes on
LOOK_EVERY = 64  # inputs
FOLLOWED = ["streamfilter", "json", "yaml"]
"""Packages whose branches guide the search."""
MODULES = ("received", "stored", "written")
"""Where the targets are; a module is imported, and followed, only if no earlier one has them."""


def find(*names: str) -> list[Target]:
    """Return the targets with these *names*, their code made to report where it goes."""
    targets: dict[str, Target] = {}
    for module in MODULES:
        if not set(names) <= targets.keys():
            with atheris.instrument_imports(include=FOLLOWED):
                targets |= importlib.import_module(f"tests.fuzz.{module}").TARGETS
    if unknown := set(names) - targets.keys():
        raise SystemExit(f"no targets {unknown}")
    return [targets[name] for name in names]


def bounded(check: Callable[[bytes], object], seconds: float) -> Callable[[bytes], object]:
    """Return *check*, which asks libFuzzer to end after *seconds* of processor time."""
    checked = 0

    def check_and_look(data: bytes) -> None:
        nonlocal checked
        check(data)
        checked += 1
        if checked % LOOK_EVERY == 0 and (time.process_time() >= seconds or _full()):
            os.kill(os.getpid(), signal.SIGUSR1)  # libFuzzer's own: end in good order, with 0

    return check_and_look


def _full() -> bool:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >= MEGABYTES_ENOUGH * 1024


def search(target: Target, *, corpus: Path, seconds: float, inputs: int, seed: int) -> None:
    """Search from *corpus* on, which holds more afterwards; findings go beside it.

    With *inputs* the same seed tries the same ones on every machine, -1 leaves it to *seconds*.
    """
    corpus.mkdir(exist_ok=True)
    for number, each in enumerate(target.seeds):
        (corpus / f"seed-{number}").write_bytes(each)
    options: dict[str, object] = {
        "seed": seed, "runs": inputs, "max_len": INPUT_BYTES_MAX, "timeout": SECONDS_AN_INPUT,
        "rss_limit_mb": MEGABYTES_MAX, "print_final_stats": 1, "artifact_prefix": f"{corpus}-",
    }  # fmt: skip
    if target.words:
        words = corpus.with_name("words")
        words.write_text("".join(f'"{_escaped(word)}"\n' for word in target.words))
        options["dict"] = words
    atheris.Setup(
        [sys.argv[0], *(f"-{name}={value}" for name, value in options.items()), str(corpus)],
        bounded(target.check, seconds),
    )
    atheris.Fuzz()


def search_in_forks(inputs: dict[str, int], place: Path, seed: int) -> int:
    """Search each target for its number of *inputs*; return how many forks failed."""
    failed = 0
    for name, target in zip(inputs, find(*inputs), strict=True):
        if (pid := os.fork()) == 0:
            log = os.open(place / f"{name}.log", os.O_WRONLY | os.O_CREAT, 0o644)
            for stream in (1, 2):
                os.dup2(log, stream)
            search(target, corpus=place / name, seconds=math.inf, inputs=inputs[name], seed=seed)
        failed += os.waitpid(pid, 0)[1] != 0
    return failed


def _escaped(word: bytes) -> str:
    return "".join(f"\\x{byte:02x}" for byte in word)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.search", description=__doc__)
    parser.add_argument("target", nargs="+")
    parser.add_argument("--corpus", type=Path)
    parser.add_argument("--seconds", type=float, default=math.inf)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--input", type=Path)
    asked = parser.parse_args()
    if "=" in asked.target[0]:
        inputs = {name: int(count) for name, count in (each.split("=") for each in asked.target)}
        raise SystemExit(search_in_forks(inputs, asked.corpus, asked.seed))
    (target,) = find(*asked.target)
    if asked.input:
        target.check(asked.input.read_bytes())
    else:
        search(target, corpus=asked.corpus, seconds=asked.seconds, inputs=-1, seed=asked.seed)


if __name__ == "__main__":
    main()
