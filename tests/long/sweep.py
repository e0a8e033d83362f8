"""The directed sweep: `python -m tests.long.sweep --rows 1,2,3 --trials 20 --lives 3 --seed 7`.

One broker. A life is a topic pair with a story of its own and a chain of processes, each ended by
its row's fault; then one drains, and the oracle judges. A trial counts if its fault was seen to
happen and its life was judged. The seed decides what is tried; when, the machine.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.faults.chain import Chain
from tests.faults.directed import PROCESS_ROWS, Directed
from tests.faults.directed_network import NETWORK_ROWS
from tests.faults.places import Place, places
from tests.faults.results import File, Result
from tests.long.side_by_side import SideBySide

DIRECTED: Mapping[int, Directed] = {**PROCESS_ROWS, **NETWORK_ROWS}


def live(directed: Directed, count: int, seed: str, place: Place) -> Result:
    """Live one life of *count* trials, and return what came of it."""
    rng = random.Random(seed)
    with (
        tempfile.TemporaryDirectory(prefix="streamfilter-sweep-") as directory,
        Chain(
            place, Path(directory), rng, static=directed.static, proxied=directed.proxied
        ) as chain,
    ):
        result = chain.result
        result.seeds.append(seed)
        try:
            for _ in range(count):
                result.saw(rng.choice(directed.strikes)(chain))
                if result.findings:
                    break
            chain.finish()
        except Exception as error:
            result.findings.append(f"E {type(error).__name__}: {error}")
        # What the oracle did not judge, or did not like, with its seed.
        result.findings = [f"seed {seed}: {finding}" for finding in result.findings]
        result.trials *= bool(result.records)
    return result


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    rows = sorted({int(row) for row in options.rows.split(",")} if options.rows else DIRECTED)
    command = (
        f"python -m tests.long.sweep --rows {','.join(map(str, rows))} --trials {options.trials} "
        f"--lives {options.lives} --chain {options.chain} --seed {options.seed}"
    )
    print(command, flush=True)
    side_by_side: SideBySide[Place] = SideBySide(
        rows,
        options.trials,
        options.chain,
        lambda row, number, count, place: live(
            DIRECTED[row], count, f"{options.seed}/{row}/{number}", place
        ),
        File(options.json, command),
        options.seconds,
    )
    with places(options.lives) as found:
        return side_by_side.run(found)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.long.sweep", description=__doc__)
    parser.add_argument("--rows", default="", help=f"such as 1,2,12; all: {sorted(DIRECTED)}")
    parser.add_argument("--trials", type=int, default=20, help="of each row")
    parser.add_argument("--lives", type=int, default=3, help="side by side")
    parser.add_argument("--chain", type=int, default=20, help="trials of one life")
    parser.add_argument("--seed", default=str(time.time_ns() % 1_000_000))
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no life later")
    parser.add_argument("--json", type=Path, help="where runs are added up")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
