"""The long run: `python -m tests.long.kills --kills 500 --json tests/bench_runs/faults.json`.

One real broker, lives of a hundred kills each: a stream, two or three filters that a supervisor
restarts, faults at kill points and at any moment. After every fifty kills everybody is left in
peace, and the oracle judges all that came out so far. The index's runs are so small that a third
of the kills come while one is written or merged. The protocol of the group, its scope and
the size of batches change from life to life. A life in three has a bad network and a broker that
goes away. The seed decides what is tried; when, the machine. `--soak SECONDS` does all of it
to three nodes at full load; with `--limits` quotas, full disks and refused records come and go in
every second life. With `--retention` the index forgets by seconds, by count or by both, as the
seed draws. Half of the kills then come while windows begin, go, or documents are forgotten. A soak
with it is one life of at least twenty retention periods. At its end disk, memory and changelog
must be as large as in its middle (`flatness`). With `--workers` filters have two worker processes
each, and a third of the kills are of these. With `--roles` two judges and two or three edges work
on each stream. Edges are removed and added, and sketch ranges are deleted before they are used.
With `--operations` an index is seeded, corrected, backed up and taken over (`operations`). If
something is found, the directory with logs, configurations and indexes is kept.

After every fifth fault there is no other until a record comes out, to see how long that takes. That
time must be at most the session timeout and 30 s, if the processes get the processor time that they
ask for. The report says how much of it they got.
"""

import argparse
import contextlib
import itertools
import json
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from deploy.local.real import RealKafka
from streamfilter.assembly import WINDOW_DOCUMENTS
from streamfilter.bench.machine import machine, versions
from streamfilter.matching.blocking.retention import UNLIMITED, Retention
from tests.faults.causes.elements import (
    LIMIT_FAULTS,
    NETWORK_FAULTS,
    ONE_BROKER_FAULTS,
    THREE_BROKER_FAULTS,
)
from tests.faults.causes.nemesis import ARMED_SHARE, CLUSTER_FAULTS, PROCESS_FAULTS, Fault, Nemesis
from tests.faults.causes.proxy import Proxy
from tests.faults.life import PROTOCOLS, SESSION_SECONDS, Life
from tests.faults.standstill import Standstill
from tests.faults.tally import POINTS, ROWS, Tally
from tests.long.flatness import SMALL_SEGMENTS, Looking, grown
from tests.long.operations import Operations
from tests.support import small_runs
from tests.support.session.shared_broker import SHORT_CLOCKS

KILLS_A_CHECKPOINT = 50
KILLS_A_DAY = 60
"""Of an operator's tasks, at least; half of them are of verbs."""
CHECKPOINTS_A_LIFE = 2
PROCESS_ROWS = {row for fault in PROCESS_FAULTS for row in fault.rows}
SOAK_SECONDS = 240.0
"""Between two checkpoints of a soak."""
SOAK_PERIODS, PERIODS_MIN = 25, 20
"""Of its retention, and how many of them must pass beside the time in which it is judged."""
PERIODS_A_CHECKPOINT = 5
"""After the pause most of what is remembered is too old, and the memory fills again."""
FULL_RATE = 100.0
"""Records a second, where a thousand documents are to be forgotten often, or batches to be full."""
SOAK_RATE = 400.0
SKETCHERS = 2
SPEED = 30_000
"""Milliseconds of a story's timestamps in one of ours: a window holds a day, or thousands."""
FLAGS = ("limits", "retention", "workers", "roles", "operations")
AGEING_ARMED_SHARE = 0.8
"""Of the processes, so that half of all kills are where an index forgets."""


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    rows = {int(row) for row in options.rows.split(",")} if options.rows else set(ROWS)
    options.kills = 0 if options.soak else options.kills
    print(_command(options), flush=True)
    tally, begun = Tally(), time.monotonic()
    # Only a life that lasts shows whether what forgets grows.
    lasts = bool(options.soak and options.retention)
    report: dict[str, Any] = {}

    def done(tally: Tally) -> int:
        """Return what `--kills` counts: of chosen rows, every fault."""
        return sum(tally.faults.values()) if options.rows else tally.kills

    with contextlib.ExitStack() as stack:
        kafka = stack.enter_context(
            RealKafka(
                options.nodes or (3 if options.soak else 1),
                properties=SHORT_CLOCKS | (SMALL_SEGMENTS if lasts else {}),
            )
        )
        proxies = [stack.enter_context(Proxy.of(node)) for node in kafka.nodes]
        for number in itertools.count():
            enough = time.monotonic() - begun > options.soak and done(tally) >= options.kills
            if tally.findings or enough:
                break
            rng = random.Random(f"{options.seed}/{number}")
            with _kept_if_found(tally) as directory:
                if options.operations:
                    with Operations(kafka, directory, rng) as day:
                        day.live(tally, min(options.kills - tally.kills, KILLS_A_DAY))
                    continue
                # A life in three goes through the proxies, the others would be slower for nothing.
                rough = options.soak or rng.random() < 1 / 3 or not rows & PROCESS_ROWS
                through = proxies if rough else ()
                limited = options.limits and number % 2 == 0
                retention = retention_of(rng, options.soak) if options.retention else UNLIMITED
                life = _life(
                    kafka,
                    through,
                    directory,
                    rng,
                    soak=bool(options.soak),
                    limited=limited,
                    retention=retention,
                    sketchers=SKETCHERS if options.workers else 0,
                    edges=rng.choice((2, 3)) if options.roles else 0,
                )
                with life:
                    if lasts:
                        report = _last(life, tally, begun + options.soak, rows)
                    else:
                        _live(life, tally, options, begun, rows, done)
    seconds = time.monotonic() - begun
    _report(tally, seconds)
    if options.json:
        _save(options, tally, seconds, report)
    return 1 if tally.findings else 0


@contextlib.contextmanager
def _kept_if_found(tally: Tally) -> Iterator[Path]:
    """Yield a new directory, which stays if something was found or the run broke off."""
    path = Path(tempfile.mkdtemp(prefix="streamfilter-faults-"))
    print(f"  in {path}, which is kept if something is found", flush=True)
    yield path
    if not tally.findings:
        shutil.rmtree(path)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.long.kills", description=__doc__)
    parser.add_argument(
        "--kills", type=int, default=60, help="processes to kill; with --rows, faults"
    )
    parser.add_argument("--seed", default=str(time.time_ns() % 1_000_000))
    parser.add_argument("--soak", type=float, default=0.0, help="seconds on three nodes instead")
    parser.add_argument(
        "--nodes", type=int, choices=(1, 3), default=0, help="of the cluster (3 for a soak, or 1)"
    )
    parser.add_argument(
        "--limits",
        action="store_true",
        help="in every second life quotas, full disks and refused records come and go",
    )
    parser.add_argument(
        "--retention",
        action="store_true",
        help="the index forgets after seconds, or after a thousand documents",
    )
    parser.add_argument(
        "--workers",
        action="store_true",
        help="filters have worker processes, which a third of the kills are of",
    )
    parser.add_argument(
        "--roles", action="store_true", help="edges and judges in place of single processes"
    )
    parser.add_argument(
        "--operations", action="store_true", help="seed, release, replay, take over and back up"
    )
    parser.add_argument("--rows", default="", help="rows of the matrix, such as 1,2,12 (all)")
    parser.add_argument("--json", type=Path, help="where to save what came of it")
    return parser


def retention_of(rng: random.Random, soak: float) -> Retention:
    """Return how much is remembered in a life: so little that windows come and go in it."""
    if soak:
        return Retention(time=round(soak * 1_000 / SOAK_PERIODS), least=WINDOW_DOCUMENTS)
    kind = rng.random()
    return Retention(
        time=rng.choice((2_000, 4_000, 8_000)) * SPEED if kind < 0.8 else None,
        documents=rng.choice((1_000, 1_500)) if kind > 0.6 else None,
        least=WINDOW_DOCUMENTS,
    )


def _life(
    kafka: RealKafka,
    proxies: Sequence[Proxy],
    directory: Path,
    rng: random.Random,
    *,
    soak: bool,
    limited: bool,
    retention: Retention,
    sketchers: int,
    edges: int,
) -> Life:
    rate = FULL_RATE if retention.documents or sketchers else 50.0
    rate = SOAK_RATE if soak and not retention.limited else rate
    batches = (25, 100, 500) if soak else (100, 200) if sketchers else (5, 25, 100)
    return Life(
        kafka,
        directory,
        rng,
        workers=2 if edges else rng.choice((2, 2, 3)),
        partitions=rng.choice((2, 3, 5)) if edges else 2,
        scope="topic" if edges else rng.choice(("topic", "topic", "partition")),
        protocol=rng.choice(list(PROTOCOLS)),
        batch=rng.choice(batches),
        rate=rate,
        proxies=proxies,
        limited=limited,
        forgets=rng.random() < 0.5,
        retention=retention,
        speed=SPEED if retention.limited and not soak else 0,
        sketchers=sketchers,
        edges=edges,
        launch=small_runs.launch,
    )


def _live(
    life: Life,
    tally: Tally,
    options: argparse.Namespace,
    begun: float,
    rows: set[int],
    done: Callable[[Tally], int],
) -> None:
    """Let one stream go through up to a hundred kills, and add what came of it to *tally*."""
    for _ in range(CHECKPOINTS_A_LIFE):
        left = options.kills - done(tally) - done(life.tally)
        if (left <= 0 and not options.soak) or life.tally.findings:
            break
        if options.soak:
            end = min(time.monotonic() + SOAK_SECONDS, begun + options.soak)
            _rage(life, lambda end=end: time.monotonic() > end, rows)
        else:
            goal = done(life.tally) + min(KILLS_A_CHECKPOINT, left)
            _rage(life, lambda goal=goal: done(life.tally) >= goal, rows)
        _go_on(life)
    tally.add(life.tally)


def _last(life: Life, tally: Tally, end: float, rows: set[int]) -> dict[str, Any]:
    """Let one stream last until *end*, and for `PERIODS_MIN`; return how large it was meanwhile."""
    with Looking(life) as eye:
        period = eye.period_seconds
        while not life.tally.findings:
            now = time.monotonic()
            left = max(end - now, PERIODS_MIN * period - eye.seconds)
            if left <= 0:
                break
            until = now + min(left, PERIODS_A_CHECKPOINT * period)
            _rage(life, lambda until=until: time.monotonic() > until, rows, eye.looking())
            print(f"  after {eye.seconds / period:.1f} periods: {eye.looks[-1:]}", flush=True)
            _go_on(life)
        life.tally.findings += [f"- flat: {each}" for each in grown(eye.looks)]
        tally.add(life.tally)
        return eye.as_json()


def _go_on(life: Life) -> None:
    """Let a life go on after its checkpoint, with another protocol."""
    life.feeder.go_on()
    life.protocol = life.rng.choice(list(PROTOCOLS))
    time.sleep(SESSION_SECONDS + 1)  # static members stay in the group for so long
    life.hire()


def faults_for(life: Life, rows: set[int]) -> list[Fault]:
    """Return the faults among *rows* that can be done to *life*."""
    faults = [*PROCESS_FAULTS, *(CLUSTER_FAULTS if life.edges else ())]
    if life.limited:
        faults += LIMIT_FAULTS
    if life.proxies:
        faults += NETWORK_FAULTS
        faults += ONE_BROKER_FAULTS if len(life.kafka.nodes) == 1 else THREE_BROKER_FAULTS
    return [fault for fault in faults if rows & set(fault.rows)]


def _rage(
    life: Life,
    until: Callable[[], bool],
    rows: set[int],
    meanwhile: AbstractContextManager[None] | None = None,
) -> None:
    """Wrong *life* until it is enough, *meanwhile* whatever else is to be done; judge it then."""
    print(
        f"  {life.count} workers, {life.protocol}, scope {life.scope}, batch {life.batch}, "
        f"{len(life.kafka.nodes)} nodes{', proxied' if life.proxies else ''}"
        f"{f', {life.retention}' if life.retention.limited else ''}"
        f"{f', {life.edges} edges' if life.edges else ''}",
        flush=True,
    )
    begun, before = time.monotonic(), life.tally.kills
    points = [point for point in POINTS if rows & set(POINTS[point])]
    share = AGEING_ARMED_SHARE if life.retention.limited else ARMED_SHARE
    with meanwhile or contextlib.nullcontext():
        Nemesis(life, faults_for(life, rows), points, share).rage(until=until)
    raged = time.monotonic() - begun
    life.checkpoint()
    found = life.tally.findings
    print(
        f"  {life.tally.kills - before} kills in {raged:.0f} s; {life.tally.records} records "
        f"judged in {time.monotonic() - begun - raged:.0f} s: {found or 'nothing found'}",
        flush=True,
    )


def _report(tally: Tally, seconds: float) -> None:
    report = tally.as_json()
    for row, each in report["rows"].items():
        print(f"{each['trials']:6} x row {row:>2}: {each['fault']}")
    print(
        f"{tally.kills} kills, {tally.records} records in {seconds:.0f} s; exit codes "
        f"{report['exit_codes']}; longest standstill {_said(tally.standstill)}, "
        f"since the last fault {_said(tally.recovery)}; findings: {len(tally.findings)}"
    )
    for finding in tally.findings:
        print(finding, file=sys.stderr)


def _said(standstill: Standstill) -> str:
    """Return a time, and what the machine did to it."""
    share = standstill.processor_share
    return f"{standstill.seconds:.0f} s ({share:.0%} of the processor time asked for was given)"


def _command(options: argparse.Namespace) -> str:
    what = f"--soak {options.soak:g}" if options.soak else f"--kills {options.kills}"
    rows = f" --rows {options.rows}" if options.rows else ""
    nodes = f" --nodes {options.nodes}" if options.nodes else ""
    flags = "".join(f" --{each}" * getattr(options, each) for each in FLAGS)
    return f"python -m tests.long.kills {what}{nodes}{flags} --seed {options.seed}{rows}"


def _save(options: argparse.Namespace, tally: Tally, seconds: float, more: dict[str, Any]) -> None:
    report: dict[str, Any] = {
        "command": _command(options),
        "seconds": round(seconds),
        "machine": machine(),
        "versions": versions(),
        **tally.as_json(),
        **more,
    }
    options.json.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    raise SystemExit(main())
