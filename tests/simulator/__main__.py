"""Run a range of seeds: ``python -m tests.simulator --seeds 0:10000``."""

import argparse
import sys
import time

from tests.simulator.story import run


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulator", description=__doc__)
    parser.add_argument("--seeds", default="0:1000", metavar="A:B", help="from A up to before B")
    parser.add_argument("--story", action="store_true", help="tell each story, call by call")
    parser.add_argument("--keep-going", action="store_true", help="do not stop at a failure")
    options = parser.parse_args()
    first, _, last = options.seeds.partition(":")
    begun, batches, failures = time.monotonic(), 0, 0
    seeds = range(int(first), int(last or int(first) + 1))
    for seed in seeds:
        result = run(seed, trace=options.story)
        batches += result.batches
        if options.story or (result.failure and not options.keep_going):
            print(result.text(), flush=True)
        if result.failure:
            failures += 1
            print(f"seed {seed}: {result.failure}", flush=True)
            if not options.keep_going:
                break
    seconds = time.monotonic() - begun
    print(f"seeds {options.seeds}: {failures} failed; {batches} batches in {seconds:.1f} s")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
