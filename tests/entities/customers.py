"""Customers as two systems know them: planted pairs, with slips, and a date that is held out."""

import json
import random
from dataclasses import dataclass
from pathlib import Path

FIRST = "Anna Boris Carla David Elena Farid Greta Hugo Irina Jonas Karim Laura Marco Nadia"
LAST = "Abel Berger Costa Dupont Eriksen Fischer Garcia Horvat Ivanov Jensen Keller Moreau"
STREETS = "Oak Maple Harbour Station Church Mill Garden Castle Bridge Meadow Orchard Market Chapel"
CITIES = "Lisbon Gdansk Turin Malmo Ghent Graz Brno Porto Bergen Nantes Split Tartu"


BEFORE = str(Path(__file__).with_name("before.yaml"))


@dataclass(frozen=True, slots=True)
class Planted:
    """Records in the order in which they arrive, and which of them are one customer."""

    records: list[dict[str, str]]
    pairs: set[frozenset[str]]


def customers(seed: int, count: int, *, shared_phones: int = 0) -> Planted:
    """Return *count* customers; half of them come again, differing a little, or not at all.

    Created dates differ by 10 days on average for one customer, by about 45 for any two.
    With *shared_phones*, so many pairs of different customers have one telephone.
    """
    rng = random.Random(seed)
    records = [_customer(rng, number) for number in range(count)]
    for _ in range(shared_phones):
        one, other = rng.sample(range(count), 2)
        records[one]["phone"] = records[other]["phone"]
    again, pairs = [], set()
    for record in rng.sample(records, count // 2):
        twin = _again(rng, record)
        again.append(twin)
        pairs.add(frozenset((record["id"], twin["id"])))
    rng.shuffle(again)
    return Planted(records + again, pairs)


def _customer(rng: random.Random, number: int) -> dict[str, str]:
    name = f"{rng.choice(FIRST.split())} {_syllables(rng)} {rng.choice(LAST.split())}"
    street = f"{rng.randint(1, 400)} {_syllables(rng)} {rng.choice(STREETS.split())} Street"
    return {
        "id": f"a{number}",
        "name": name,
        "address": f"{street}, {rng.choice(CITIES.split())}",
        "phone": f"+{rng.randint(30, 49)} ({rng.randint(100, 999)}) {rng.randint(10**6, 10**7)}",
        "created": str(rng.randint(0, 135)),  # two of these differ by 45 on average
    }


def _syllables(rng: random.Random) -> str:
    return "".join(rng.choice("bdfgklmnprst") + rng.choice("aeiou") for _ in range(3)).title()


def _again(rng: random.Random, record: dict[str, str]) -> dict[str, str]:
    """Return the same customer once more, with at most two slips, or with none."""
    twin = {**record, "id": record["id"].replace("a", "b")}
    twin["created"] = str(int(record["created"]) + rng.randint(0, 20))
    slips = {
        "name": lambda name: _misspelt(rng, name),
        "address": lambda address: address.replace("Street", "St"),
        "phone": lambda phone: phone.replace(phone[5:8], str(rng.randint(100, 999))),
    }
    if rng.random() < 0.2:
        return twin
    for field in rng.sample(sorted(slips), rng.randint(1, 2)):
        twin[field] = slips[field](twin[field])
    return twin


def _misspelt(rng: random.Random, name: str) -> str:
    at = rng.randrange(1, len(name) - 2)
    return name[:at] + name[at + 1] + name[at] + name[at + 2 :]


def write(path: Path, planted: Planted) -> str:
    path.write_text("".join(json.dumps(record) + "\n" for record in planted.records))
    return str(path)
