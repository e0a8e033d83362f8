"""The long run: `python -m tests.faults.long --kills 500 --json tests/bench_runs/faults.json`.

One real broker, lives of a hundred kills each: a stream, two or three filters that a supervisor
restarts, faults at kill points and at any moment. After every fifty kills everybody is left in
peace, and the oracle judges all that came out so far. The protocol of the group, its scope and
the size of batches change from life to life. The seed decides what is tried; when, the machine.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from streamfilter.bench.machine import machine, versions
from streamfilter.kafka.broker.real import RealKafka
from tests.faults.life import PROTOCOLS, SESSION_SECONDS, SHORT_CLOCKS, Life
from tests.faults.nemesis import PROCESS_FAULTS, Fault, Nemesis
from tests.faults.tally import POINTS, ROWS, Tally

KILLS_A_CHECKPOINT = 50
CHECKPOINTS_A_LIFE = 2


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    rows = {int(row) for row in options.rows.split(",")} if options.rows else set(ROWS)
    print(f"seed {options.seed}: {options.kills} kills, rows {sorted(rows)}", flush=True)
    tally, begun = Tally(), time.monotonic()
    with RealKafka(properties=SHORT_CLOCKS) as kafka:
        number = 0
        while tally.kills < options.kills and not tally.findings:
            rng = random.Random(f"{options.seed}/{number}")
            with tempfile.TemporaryDirectory(prefix="streamfilter-faults-") as directory:
                _live(kafka, Path(directory), rng, tally, options.kills, rows)
            number += 1
    seconds = time.monotonic() - begun
    _report(tally, seconds)
    if options.json:
        _save(options, tally, seconds)
    return 1 if tally.findings else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.long", description=__doc__)
    parser.add_argument("--kills", type=int, default=60, help="processes to kill")
    parser.add_argument("--seed", default=str(time.time_ns() % 1_000_000))
    parser.add_argument("--rows", default="", help="rows of the matrix, such as 1,2,12 (all)")
    parser.add_argument("--json", type=Path, help="where to save what came of it")
    return parser


def _live(
    kafka: RealKafka,
    directory: Path,
    rng: random.Random,
    tally: Tally,
    kills: int,
    rows: set[int],
) -> None:
    """Let one stream go through up to a hundred kills, and add what came of it to *tally*."""
    scope = rng.choice(("topic", "topic", "partition"))
    workers, protocol = rng.choice((2, 2, 3)), rng.choice(list(PROTOCOLS))
    batch = rng.choice((5, 25, 100))
    with Life(
        kafka, directory, rng, workers=workers, scope=scope, protocol=protocol, batch=batch
    ) as life:
        for _ in range(CHECKPOINTS_A_LIFE):
            left = kills - tally.kills - life.tally.kills
            if left <= 0 or life.tally.findings:
                break
            print(f"  {workers} workers, {life.protocol}, scope {scope}, batch {batch}", flush=True)
            _rage(life, life.tally.kills + min(KILLS_A_CHECKPOINT, left), rows)
            life.feeder.go_on()
            life.protocol = rng.choice(list(PROTOCOLS))
            time.sleep(SESSION_SECONDS + 1)  # static members stay in the group for so long
            life.hire()
        tally.add(life.tally)


def _rage(life: Life, kills: int, rows: set[int]) -> None:
    begun, before = time.monotonic(), life.tally.kills
    faults: list[Fault] = [fault for fault in PROCESS_FAULTS if rows & set(fault.rows)]
    points = [point for point in POINTS if rows & set(POINTS[point])]
    nemesis = Nemesis(life, faults, points)
    nemesis.rage(until=lambda: life.tally.kills >= kills)
    raged = time.monotonic() - begun
    life.checkpoint()
    found = life.tally.findings
    print(
        f"  {life.tally.kills - before} kills in {raged:.0f} s; {life.tally.records} records "
        f"judged in {time.monotonic() - begun - raged:.0f} s: {found or 'nothing found'}",
        flush=True,
    )


def _report(tally: Tally, seconds: float) -> None:
    told = tally.as_json()
    for row, each in told["rows"].items():
        print(f"{each['trials']:6} x row {row:>2}: {each['fault']}")
    print(
        f"{tally.kills} kills, {tally.records} records in {seconds:.0f} s; exit codes "
        f"{told['exit_codes']}; findings: {len(tally.findings)}"
    )
    for finding in tally.findings:
        print(finding, file=sys.stderr)


def _save(options: argparse.Namespace, tally: Tally, seconds: float) -> None:
    told: dict[str, Any] = {
        "command": f"python -m tests.faults.long --kills {options.kills} --seed {options.seed}",
        "seconds": round(seconds),
        "machine": machine(),
        "versions": versions(),
        **tally.as_json(),
    }
    options.json.write_text(json.dumps(told, indent=2) + "\n")


if __name__ == "__main__":
    raise SystemExit(main())
