"""The benchmarks by name, and a run of several of them with the machine and the versions."""

import importlib
import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from msgspec.structs import replace

from streamfilter.bench.machine import machine, versions
from streamfilter.bench.result import BenchResult, Options

BENCHMARKS = {"sketch": "streamfilter.bench.sketching", "filter": "streamfilter.bench.filtering"}
"""The benchmarks of the command ``bench``, by name.

The first line of a module's docstring is its question; ``run(options) -> BenchResult`` answers it.
A module is imported when its turn comes."""

ONE_THREAD = ("RAYON_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")

SCHEMA = 1  # version of the JSON


def results(
    names: Sequence[str], options: Options, benchmarks: Mapping[str, str] = BENCHMARKS
) -> Iterator[BenchResult]:
    """Run the benchmarks *names* of the catalogue *benchmarks*; yield each result as it comes."""
    # The libraries read these when they start their first thread.
    os.environ.update(dict.fromkeys(ONE_THREAD, "1"))
    for name in names:
        options.say(name)
        module = importlib.import_module(benchmarks[name])
        question = (module.__doc__ or "").splitlines()[0]
        yield replace(module.run(options), name=name, question=question)


def as_json(answers: Sequence[BenchResult], options: Options) -> dict[str, Any]:
    """Return a whole run as plain values."""
    settings = {
        name: getattr(options, name)
        for name in options.__struct_fields__
        if name not in ("say", "rivals")
    }
    return {
        "schema": SCHEMA,
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "passed": all(answer.passed for answer in answers),
        "machine": machine(),
        "versions": versions(),
        "settings": settings
        | {"text": options.text and options.text.name, "rivals": [*options.rivals.programs]},
        "benchmarks": {answer.name: answer.as_json() for answer in answers},
    }
