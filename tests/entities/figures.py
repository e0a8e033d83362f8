"""Recall and precision of records in the users' sense: what is withheld, and for which record.

``python -m tests.entities.figures [--records N] [--seeds 1 2 3]`` prints the table of
``config/README.md``. The earlier kinds (words, digits) stand beside the shipped configuration.

A pair is a record that came again and the entity that it belongs to. It is found if the record is
withheld for a record of the same entity. Recall is the share of the records that came again and
are found; precision is the share of the withheld records that are found.
"""

import argparse
import json
import tempfile
from pathlib import Path
from time import process_time

from streamfilter.cli import main
from tests.entities.customers import BEFORE
from tests.entities.people import AMERICAN, EUROPEAN, Habit, Register, register

CONFIG = str(Path(__file__).parents[2] / "config" / "customers.yaml")


def figures(found: Register, config: str = CONFIG) -> tuple[float, float, list[tuple[str, str]]]:
    """Return recall, precision, and the wrong pairs, of a configuration."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        lines = "".join(json.dumps(each) + "\n" for each in found.records)
        (folder / "in.jsonl").write_text(lines)
        out = [f"--{each}={folder / each}" for each in ("unique", "duplicates", "dead-letter")]
        code = main(["filter", str(folder / "in.jsonl"), "-c", config, *out])
        assert code == 0, code
        withheld = [json.loads(each) for each in (folder / "duplicates").open()]
    right, wrong, seen = 0, [], set()
    pairs = {each["id"]: each["matches"][0]["id"] for each in withheld}
    again = 0
    for each in found.records:
        entity = found.entity[each["id"]]
        again += entity in seen
        seen.add(entity)
        if (other := pairs.get(each["id"])) is not None:
            if found.entity[other] == entity:
                right += 1
            else:
                wrong.append((each["id"], other))
    return right / max(again, 1), right / max(len(pairs), 1), wrong


def _print(records: int, seeds: list[int]) -> None:
    print("| register | configuration | recall | precision | ms a record |")
    print("|---|---|---|---|---|")
    habits: dict[str, Habit] = {"English names": AMERICAN, "German, French": EUROPEAN}
    for name, habit in habits.items():
        for configuration, config in (("words, digits", BEFORE), ("customers.yaml", CONFIG)):
            rows, begun = [], process_time()
            for seed in seeds:
                rows.append(figures(register(seed, records, habit), config)[:2])
            cost = 1_000 * (process_time() - begun) / (len(seeds) * records)
            recall, precision = (sum(each) / len(rows) for each in zip(*rows, strict=True))
            print(f"| {name} | {configuration} | {recall:.3f} | {precision:.3f} | {cost:.2f} |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--records", type=int, default=5_000)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    given = parser.parse_args()
    _print(given.records, given.seeds)
