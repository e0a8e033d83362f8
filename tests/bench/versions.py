"""What did a change cost? `python -m tests.bench.versions COMMIT --rounds 14 --json FILE`.

An earlier commit and the present tree run in turns on the same records, from one Kafka topic to
fresh ones. Then each restores its index from its changelog. Broker and filter have a core each. The
machine is never quiet, so the answer is the median of the ratios within each round. It is printed
for the rate, the filter's processor time and the restore, beside the best of each.
"""

import argparse
import json
import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from deploy.local.real import RealKafka
from streamfilter.bench import texts
from streamfilter.bench.machine import cores, machine, versions
from streamfilter.bench.measure import Measured
from tests.bench.service import MeasuredRun, Route

HERE = Path(__file__).parents[2]
SHARE, SEED = 0.3, 4


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.versions", description=__doc__)
    parser.add_argument("commit", help="the earlier state of this repository")
    parser.add_argument("--rounds", type=int, default=14)
    parser.add_argument("--records", type=int, default=60_000)
    parser.add_argument("--language", choices=list(texts.LANGUAGES), default="english")
    parser.add_argument("--size", type=int, default=1_024, help="bytes of a text")
    parser.add_argument("--json", type=Path, help="where to save what came of it")
    options = parser.parse_args(arguments)
    with (
        tempfile.TemporaryDirectory(prefix="streamfilter-versions-") as directory,
        _tree(options.commit, Path(directory, "tree")) as earlier,
    ):
        fresh = texts.documents(options.language, options.size, options.records, seed=SEED)
        documents = texts.mixed(fresh, share=SHARE, seed=SEED)
        runs = _in_turns(earlier, options.rounds, documents, Path(directory))
    told = _told(options, runs)
    print(json.dumps(told["ratios"] | told["best"], indent=2))
    if options.json:
        options.json.write_text(json.dumps(told, indent=2) + "\n")
    return 0


@contextmanager
def _tree(commit: str, path: Path) -> Iterator[Path]:
    """Check *commit* out beside us."""
    git = ["git", "-C", str(HERE), "worktree"]
    subprocess.run([*git, "add", "--quiet", "--detach", path, commit], check=True)
    try:
        yield path
    finally:
        subprocess.run([*git, "remove", "--force", path], check=True)


def _in_turns(
    earlier: Path, rounds: int, documents: Sequence[str], directory: Path
) -> dict[str, list[tuple[MeasuredRun, float]]]:
    """Run both *rounds* times, and restore; every other round goes backwards."""
    trees = {"earlier": earlier, "now": HERE}
    runs: dict[str, list[tuple[MeasuredRun, float]]] = {name: [] for name in trees}
    with cores(1):
        kafka = RealKafka(1)
        kafka.start()
    try:
        route = Route(kafka, directory, documents)
        for number in range(rounds):
            for name in list(trees)[:: 1 if number % 2 else -1]:
                os.environ["PYTHONPATH"] = str(trees[name])
                with cores(0):
                    run, restored = route.filter(), route.restore()
                runs[name].append((run, restored))
                print(f"{number:3} {name:8}{run.rate:8,.0f} records/s, restores {restored:8,.0f}",
                      flush=True)  # fmt: skip
    finally:
        kafka.close()
    return runs


def _told(
    options: argparse.Namespace, runs: dict[str, list[tuple[MeasuredRun, float]]]
) -> dict[str, Any]:
    rates = {name: [run.rate for run, _ in moved] for name, moved in runs.items()}
    costs = {name: [run.processor_us for run, _ in moved] for name, moved in runs.items()}
    restores = {name: [restored for _, restored in moved] for name, moved in runs.items()}

    def ratio(figures: dict[str, list[float]]) -> Measured:
        return Measured.of([a / b for a, b in zip(figures["now"], figures["earlier"], strict=True)])

    return {
        "command": f"python -m tests.bench.versions {options.commit} --rounds {options.rounds} "
        f"--records {options.records} --language {options.language} --size {options.size}",
        "machine": machine(),
        "versions": versions(),
        "ratios": {"rate, now / earlier": ratio(rates).as_json(),
                   "processor time, now / earlier": ratio(costs).as_json(),
                   "restore, now / earlier": ratio(restores).as_json()},
        "best": {"rate": {name: max(each) for name, each in rates.items()},
                 "processor us a record": {name: min(each) for name, each in costs.items()},
                 "restored documents/s": {name: max(each) for name, each in restores.items()}},
        "rate": rates,
        "processor us a record": costs,
        "restored documents/s": restores,
    }  # fmt: skip


if __name__ == "__main__":
    raise SystemExit(main())
