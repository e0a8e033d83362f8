"""All benchmarks: single stages, large indexes, other libraries in the same run, and Kafka.

    python -m tests.bench --only filter --peers --json run.json
    python -m tests.bench --only index --large
    python -m tests.bench --only retention

``streamfilter bench`` runs the first two of them, on the user's machine. The rivals are installed
by ``pip install -r tests/bench/peers/requirements.txt``. The benchmarks kafka, cluster, equality,
million and slow-store start a real broker and need Java and Maven. Exit code 1 if a result is
wrong: a record lost, recall, precision.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from streamfilter.commands import bench as verb
from streamfilter.process.signals import Interrupted
from tests.bench.catalogue import BENCHMARKS
from tests.bench.options import LongOptions
from tests.support.values import replace

BROKERS = ("kafka", "cluster", "equality", "million", "slow-store")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmarks that were asked for."""
    parser = argparse.ArgumentParser("python -m tests.bench", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--only", action="append", choices=BENCHMARKS, metavar="NAME")
    parser.add_argument("--peers", action="store_true", help="also datasketch, rensa and gaoya")
    parser.add_argument("--quick", action="store_true", help="small inputs and one round")
    parser.add_argument("--large", type=int, nargs="?", const=20_000_000, default=0, metavar="N",
                        help="also what takes minutes: an index of N documents")  # fmt: skip
    parser.add_argument("--repeat", type=int, help="rounds [5]")
    parser.add_argument("--text", type=Path, help="JSON Lines with a text field, measured too")
    parser.add_argument("--json", type=Path, help="save numbers, machine, versions and settings")
    asked = parser.parse_args(arguments)
    options = LongOptions(
        repeat=asked.repeat or (1 if asked.quick else 5), quick=asked.quick, text=asked.text,
        say=verb.say, large=asked.large,
    )  # fmt: skip
    if asked.peers:
        from tests.bench.peers.rivals import RIVALS

        options = replace(options, rivals=RIVALS)
    # Without a choice all but the broker's, which not every machine can run.
    names = asked.only or [name for name in BENCHMARKS if name not in BROKERS]
    answers = verb.measured(names, options, asked.json, BENCHMARKS)
    return 0 if all(answer.passed for answer in answers) else verb.WRONG


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Interrupted as stop:
        sys.exit(stop.exit_code)
