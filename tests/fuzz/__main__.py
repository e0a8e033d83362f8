"""Fuzz one target for a while: ``python -m tests.fuzz documents --seconds 600``.

The time is processor time, spent by one process after the other: each searches with its own seed
from what the earlier ones have found. It ends with 0; a broken promise ends it at once with
libFuzzer's code, its words, and the input that broke it in a file, for ``--input``.
"""

import argparse
import json
import platform
import re
import resource
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

SECONDS_A_PROCESS = 200


@dataclass
class Tally:
    """What the processes of one target did together."""

    target: str
    first_seed: int
    processes: int = 0
    inputs: int = 0
    cpu_seconds: float = 0
    branches: int = 0
    """Of ours and of the parsers, that any input has taken."""
    corpus: int = 0
    """Inputs that were worth keeping."""
    ended: str = "whole time, nothing found"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("target")
    parser.add_argument("--seconds", type=float, default=60, help="of processor time, start-up too")
    parser.add_argument("--seed", type=int, default=1, help="of the first process; counts up")
    parser.add_argument("--input", type=Path, help="run this one input instead")
    parser.add_argument("--place", type=Path, help="directory of the corpus")
    parser.add_argument("--json", type=Path, help="put the tally into this file of runs")
    return parser.parse_args()


def searched(tally: Tally, corpus: Path, limit: str) -> int:
    """Let one process search up to *limit*, add it to *tally*, and return its exit code."""
    before = _children_seconds()
    ran = subprocess.run(
        [sys.executable, "-m", "tests.fuzz.search", tally.target, f"--corpus={corpus}", limit,
         f"--seed={tally.first_seed + tally.processes}"],
        capture_output=True, stdin=subprocess.DEVNULL, text=True, errors="replace", check=False,
    )  # fmt: skip
    told = ran.stdout + ran.stderr
    tally.processes += 1
    tally.cpu_seconds = round(tally.cpu_seconds + _children_seconds() - before, 1)
    tally.inputs += int((re.findall(r"number_of_executed_units: (\d+)", told) or [0])[-1])
    tally.branches = max([tally.branches, *map(int, re.findall(r"cov: (\d+)", told))])
    tally.corpus = len(list(corpus.iterdir())) if corpus.exists() else 0
    if ran.returncode:
        tally.ended = "finding"
        sys.stderr.write(told[-8_000:])
    return ran.returncode


def _children_seconds() -> float:
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def keep(tally: Tally, path: Path) -> None:
    """Put *tally* into the runs of *path*, in the place of the last one of its target."""
    kept = json.loads(path.read_text()) if path.exists() else {"findings": [], "runs": []}
    runs = [run for run in kept["runs"] if run["target"] != tally.target]
    kept |= {
        "command": "python -m tests.fuzz TARGET --seconds SECONDS --json PATH",
        "machine": f"{platform.machine()}, lowest priority beside other work",
        "python": platform.python_version(),
        "atheris": version("atheris"),
        "runs": sorted([*runs, asdict(tally)], key=lambda run: str(run["target"])),
    }
    path.write_text(json.dumps(kept, indent=1) + "\n")


def main() -> int:
    asked = arguments()
    if asked.input:
        command = [sys.executable, "-m", "tests.fuzz.search", asked.target, "--input", asked.input]
        return subprocess.run(command, check=False).returncode
    place = asked.place or Path(tempfile.mkdtemp(prefix=f"fuzz-{asked.target}-"))
    place.mkdir(parents=True, exist_ok=True)
    tally, code = Tally(asked.target, asked.seed), 0
    while not code and tally.cpu_seconds < asked.seconds:
        left = min(asked.seconds - tally.cpu_seconds, SECONDS_A_PROCESS)
        code = searched(tally, place, f"--seconds={left}")
        print(json.dumps(asdict(tally)), flush=True)
        if asked.json:
            keep(tally, asked.json)
    return code


if __name__ == "__main__":
    sys.exit(main())
