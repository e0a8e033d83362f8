"""One table of all saved runs: `python -m tests.bench.figures` prints it, `--write` renews it.

It stands in `tests/bench_runs/README.md`, and a test holds it to the JSON files beside it. A row
is a figure: what was asked, what was found, what was wanted, and the file with the rest.
"""

import argparse
import json
import statistics
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

RUNS = Path(__file__).parents[1] / "bench_runs"
BEGIN, END = "<!-- python -m tests.bench.figures -->\n", "<!-- end of the table -->\n"


class Figure(NamedTuple):
    """One row of the table."""

    question: str
    found: str
    wanted: str = ""


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table, or write it into the README of the runs."""
    parser = argparse.ArgumentParser("python -m tests.bench.figures", description=__doc__)
    parser.add_argument("--write", action="store_true", help="renew the table in the README")
    if parser.parse_args(arguments).write:
        readme = RUNS / "README.md"
        before, _, rest = readme.read_text().partition(BEGIN)
        readme.write_text(before + BEGIN + table() + END + rest.partition(END)[2])
    else:
        sys.stdout.write(table())
    return 0


def table() -> str:
    """Return the rows of all saved runs as a Markdown table."""
    lines = ["| question | found | wanted | commit, file |", "|---|---|---|---|"]
    for path in sorted(RUNS.glob("*.json")):
        run = json.loads(path.read_text())
        commit = run.get("versions", {}).get("commit", "")[:7]
        for figure in figures(run):
            lines.append(f"| {' | '.join(figure)} | {commit} [{path.stem}]({path.name}) |")
    return "\n".join(lines) + "\n"


def figures(run: dict[str, Any]) -> Iterator[Figure]:
    """Yield the figures of one saved *run*, whichever program saved it."""
    for answer in run.get("benchmarks", {}).values():
        yield from of_benchmark(answer)
    if "findings" in run and "records" in run:
        yield of_kills(run)
    if "ratios" in run:
        yield from of_versions(run)
    if "hand_over_seconds" in run:
        yield from of_takeover(run)
    if isinstance(rows := run.get("rows"), list):
        least = min(each["holds"] for row in rows for each in row["figures"].values())
        yield Figure(run["question"], f"least often: {least:.3f}", ">= .93")
    elif "kills" not in run and isinstance(rows, dict):
        yield from of_rows(rows)
    if "tests" in run:
        trials = sum(test["trials"] for test in run["tests"].values())
        yield Figure(
            "Files that are spoilt, full disks, system calls that fail", f"{trials} trials"
        )
    for each in run.get("runs", []):
        if "inputs" in each:
            found = f"{each['inputs']:,} inputs, {each['cpu_seconds']:.0f} s: {each['ended']}"
            yield Figure(f"Fuzz of {each['target']}", found)


def of_benchmark(answer: dict[str, Any]) -> Iterator[Figure]:
    checks = answer["checks"]
    passed = sum(check["passed"] for check in checks)
    yield Figure(answer["question"], f"{passed} of {len(checks)} results right", "all")
    for target in answer["targets"]:
        sign = "<=" if target["at_most"] else ">="
        missed = "" if target["met"] else " (missed)"
        yield Figure(target["name"], f"{target['got']:.3g}{missed}", f"{sign} {target['wanted']:g}")


def of_kills(run: dict[str, Any]) -> Figure:
    faults = sum(run["faults"].values())
    found = f"{run['kills']} kills, {faults} faults, {run['records']:,} records: "
    found += f"{len(run['findings'])} lost, doubled, misjudged"
    if "longest_standstill_seconds" in run:
        found += f"; {run['longest_standstill_seconds']:.0f} s without progress at most"
    if "longest_recovery_seconds" in run:
        share = run["processor_share_in_recovery"]
        found += f", {run['longest_recovery_seconds']:.0f} s since the last fault, in which "
        found += f"{share:.0%} of the processor time asked for was given"
    return Figure(f"`{run['command']}`", found, "0 lost, doubled, misjudged")


def of_versions(run: dict[str, Any]) -> Iterator[Figure]:
    for name, ratio in run["ratios"].items():
        spread = f"{ratio['median']:.2f} ({ratio['low']:.2f} to {ratio['high']:.2f})"
        yield Figure(f"{name}: `{run['command']}`", f"{spread}, {ratio['runs']} rounds")


def of_takeover(run: dict[str, Any]) -> Iterator[Figure]:
    for end, seconds in run["hand_over_seconds"].items():
        yield Figure(f"{run['question']} {end}", f"{statistics.median(seconds):.1f} s")


def of_rows(rows: dict[str, Any]) -> Iterator[Figure]:
    for number, row in rows.items():
        trials, found = row.get("trials", row.get("turns")), len(row.get("findings", []))
        yield Figure(f"Fault {number}: {row['fault']}", f"{trials} trials, {found} findings")


if __name__ == "__main__":
    sys.exit(main())
