"""``python -m tests.recipes``: what each example in config/ finds on a stream of its kind."""

import argparse
from functools import reduce
from operator import add

from tests.recipes.figures import Figures, measured
from tests.recipes.streams import STREAMS

STORIES = {"logs": 40}
ROW = "| {} | {} | {} | {} | {} | {} |"


def main() -> None:
    """Print a row for each example, beside the default settings with the same text and id."""
    parser = argparse.ArgumentParser(prog="python -m tests.recipes", description=__doc__)
    parser.add_argument("--only", action="append", choices=list(STREAMS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    parser.add_argument("--stories", type=int, default=300)
    options = parser.parse_args()
    by_default = ("found by default", "right by default")
    print(ROW.format("example", "documents", "found", "right", *by_default))
    print(ROW.format(*["---"] * 6))
    for name in options.only or STREAMS:
        stories = STORIES.get(name, options.stories)
        ours, default = (
            reduce(add, (measured(name, seed=seed, stories=stories, recipe=recipe)
                         for seed in options.seeds))
            for recipe in (True, False)
        )  # fmt: skip
        print(ROW.format(name, ours.documents, *_shown(ours), *_shown(default)), flush=True)


def _shown(each: Figures) -> tuple[str, str]:
    return f"{each.found:.2f}", f"{each.right:.2f}"


if __name__ == "__main__":
    main()
