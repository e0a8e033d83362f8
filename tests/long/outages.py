"""Broker faults: `python -m tests.long.outages --nodes 3 --rows 15,16,18 --faults 20 --lives 2`.

One broker or three, and lives side by side that are fed steadily through proxies. One outage
after another: after each, every life must commit something new within `PROGRESS_SECONDS`, counted
from the moment when all nodes answer again. At the end the oracle judges each life.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from deploy.local.jars import BrokerUnavailableError
from deploy.local.real import RealKafka
from tests.faults.life import PROTOCOLS, SHORT_CLOCKS, Life
from tests.faults.proxy import Proxy
from tests.faults.results import File, Result, table
from tests.long.outage import OUTAGES, Cluster, Outage
from tests.support.forge import Forge

BETWEEN_SECONDS = (1.0, 4.0)
PROGRESS_SECONDS = 180.0
"""Then it is stuck. How long it took is in the result as `slowest`, to be held against 60 s."""
READY_SECONDS = 240.0
ROUND = 12
"""Outages of the same lives; then these are judged, and others begin."""
TICK_SECONDS = 0.1
RATE = 20.0


class Outages:
    """A cluster, the lives on it, and what came of its outages."""

    def __init__(self, cluster: Cluster, lives: Sequence[Life]) -> None:
        self.cluster, self.lives = cluster, lives
        self.results: dict[int, Result] = {}

    def tend(self, seconds: float, until: Callable[[], object] = lambda: False) -> bool:
        """Look after all lives for so long; return True as soon as *until* is true."""
        deadline = time.monotonic() + seconds
        while not until():
            if time.monotonic() > deadline:
                return False
            for life in self.lives:
                life.tend()
                life.forgive()
            time.sleep(TICK_SECONDS)
        return True

    def warm_up(self) -> None:
        """Wait until every life has committed something: a busy broker takes its time."""
        assert self.tend(READY_SECONDS, lambda: all(life.watcher.count for life in self.lives))

    def strike(self, row: int, outage: Outage) -> None:
        """Let one outage happen, and demand progress of every life after it."""
        begun, result = time.monotonic(), self.results.setdefault(row, Result())
        happened, undo = outage.begin(self.cluster)
        try:
            self.tend(outage.seconds)
        finally:
            undo()
        if not self.tend(READY_SECONDS, self._is_ready):
            self._find(result, outage, "the brokers did not come back")
        over = time.monotonic()
        before = [life.watcher.count for life in self.lives]
        moved = self.tend(
            PROGRESS_SECONDS,
            lambda: all(
                life.watcher.count > was for life, was in zip(self.lives, before, strict=True)
            ),
        )
        if not moved:
            when = f"no progress in {PROGRESS_SECONDS} s at load {os.getloadavg()}"
            self._find(result, outage, f"{when}: {self._logs(before)}")
        result.slowest = max(result.slowest, round(time.monotonic() - over, 1))
        result.saw(outage.name * happened)
        result.seconds += time.monotonic() - begun
        self.tend(self.cluster.rng.uniform(*BETWEEN_SECONDS))

    def _is_ready(self) -> bool:
        try:
            self.cluster.kafka.wait_until_ready(timeout_seconds=0.0)
        except BrokerUnavailableError:
            return False
        return True

    def _logs(self, before: Sequence[int]) -> str:
        stuck = [
            life for life, was in zip(self.lives, before, strict=True) if life.watcher.count <= was
        ]
        return "\n".join(
            f"{w.name}: {w.told(8)}" for life in stuck for w in life.supervisor.workers
        )

    @staticmethod
    def _find(result: Result, outage: Outage, what: str) -> None:
        result.findings.append(f"E {outage.name}: {what}")

    def judge(self, seed: str) -> None:
        """Let every life come to its end; what the oracle finds is told of the first row."""
        for life in self.lives:
            life.checkpoint()
        result = next(iter(self.results.values()))
        for life in self.lives:
            result.records += life.tally.records
            result.exit_codes += life.tally.exits
            result.findings += [f"seed {seed}: {finding}" for finding in life.tally.findings]
        result.lives += len(self.lives)
        result.seeds.append(seed)


@contextlib.contextmanager
def cluster_of(nodes: int, rng: random.Random) -> Iterator[Cluster]:
    """Start *nodes* brokers with a proxy before each."""
    with contextlib.ExitStack() as stack:
        kafka = stack.enter_context(RealKafka(nodes, properties=SHORT_CLOCKS))
        proxies = [stack.enter_context(Proxy.of(node)) for node in kafka.nodes]
        yield Cluster(kafka, proxies, rng)


@contextlib.contextmanager
def lives_on(cluster: Cluster, count: int, seed: str, forge: Forge) -> Iterator[list[Life]]:
    """Begin *count* lives of one or two workers each."""
    with contextlib.ExitStack() as stack:
        lives = []
        for number in range(count):
            rng = random.Random(f"{seed}/{number}")
            directory = stack.enter_context(
                tempfile.TemporaryDirectory(prefix="streamfilter-outages-")
            )
            life = Life(
                cluster.kafka,
                Path(directory),
                rng,
                workers=rng.choice((1, 2)),
                protocol=rng.choice(list(PROTOCOLS)),
                scope=rng.choice(("topic", "partition")),
                rate=RATE,
                proxies=cluster.proxies,
                launch=forge.launch,
            )
            lives.append(stack.enter_context(life))
        cluster.stages[:] = [life.stage for life in lives]
        yield lives


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    kinds = OUTAGES[options.nodes]
    rows = [int(row) for row in options.rows.split(",")] if options.rows else sorted(kinds)
    command = (
        f"python -m tests.long.outages --nodes {options.nodes} --rows {','.join(map(str, rows))} "
        f"--faults {options.faults} --lives {options.lives} --seed {options.seed}"
    )
    print(command, flush=True)
    rng, begun = random.Random(options.seed), time.monotonic()
    results = {row: Result() for row in rows}
    file = File(options.json, command)
    # Every kind of a row comes before one comes again, and the rows take turns.
    plan = [
        (row, kinds[row][number % len(kinds[row])])
        for number in range(options.faults)
        for row in rows
    ]
    with Forge() as forge, cluster_of(options.nodes, rng) as cluster:
        for first in range(0, len(plan), ROUND):
            seed = f"{options.seed}/{first}"
            with lives_on(cluster, options.lives, seed, forge) as lives:
                _round(Outages(cluster, lives), plan[first : first + ROUND], results, seed)
            # Not before: what the oracle has not judged is no trial.
            file.save(results, time.monotonic() - begun)
            if any(each.findings for each in results.values()):
                break
    print(table(results), flush=True)
    found = [finding for each in results.values() for finding in each.findings]
    print("\n".join(found) or "nothing found", flush=True)
    return 1 if found else 0


def _round(
    outages: Outages, plan: Sequence[tuple[int, Outage]], results: dict[int, Result], seed: str
) -> None:
    """Go through some outages with the same lives, judge these, and add what came of it."""
    outages.warm_up()
    for row, outage in plan:
        outages.strike(row, outage)
        print(f"  row {row}: {outage.name}", flush=True)
        if outages.results[row].findings:
            break
    outages.judge(seed)
    for row, result in outages.results.items():
        results[row].add(result)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.long.outages", description=__doc__)
    parser.add_argument("--nodes", type=int, choices=(1, 3), default=1)
    parser.add_argument("--rows", default="", help="1 node: 14, 16; 3 nodes: 15, 16, 18")
    parser.add_argument("--faults", type=int, default=10, help="of each row")
    parser.add_argument("--lives", type=int, default=2)
    parser.add_argument("--seed", default=str(time.time_ns() % 1_000_000))
    parser.add_argument("--json", type=Path, help="where runs are added up")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
