"""The benchmarks by name, and a run of several of them with everything a reader needs."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import Any

from streamfilter.bench.machine import machine, versions
from streamfilter.bench.result import BenchResult, Options

BENCHMARKS = {
    "sketch": "streamfilter.bench.sketching",
    "index": "streamfilter.bench.indexing",
    "formats": "streamfilter.bench.reading",
    "filter": "streamfilter.bench.filtering",
    "cores": "streamfilter.bench.scaling",
    "kafka": "streamfilter.bench.wire",
    "metrics": "streamfilter.bench.observing",
    "flood": "streamfilter.bench.flooding",
}
"""In the order of the pipeline. Each module asks its question in the first line of its docstring,
and has ``run(options) -> BenchResult``; it is imported when its turn comes, so that one that needs
an extra costs the others nothing."""

OF_RETENTION = {"index": ("retention", "streamfilter.bench.retaining")}
"""What takes the place of a benchmark, when memories that forget are asked about."""

ONE_THREAD = ("RAYON_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")

SCHEMA = 1
"""Version of the JSON."""


def results(names: Sequence[str], options: Options) -> Iterator[BenchResult]:
    """Run the benchmarks *names* and yield each answer as it comes."""
    # The libraries read these when they start their first thread.
    os.environ.update(dict.fromkeys(ONE_THREAD, "1"))
    for name in names:
        asked = OF_RETENTION.get(name) if options.retention else None
        name, path = asked or (name, BENCHMARKS[name])
        options.say(name)
        module = importlib.import_module(path)
        question = (module.__doc__ or "").splitlines()[0]
        yield replace(module.run(options), name=name, question=question)


def as_json(answers: Sequence[BenchResult], options: Options) -> dict[str, Any]:
    """Return a whole run as plain values."""
    settings = asdict(replace(options, say=print))
    del settings["say"]
    return {
        "schema": SCHEMA,
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "passed": all(answer.passed for answer in answers),
        "machine": machine(),
        "versions": versions(),
        "settings": settings | {"text": options.text.name if options.text else None},
        "benchmarks": {answer.name: answer.as_json() for answer in answers},
    }
