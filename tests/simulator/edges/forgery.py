"""Sketch ranges that lie: from an intruder who may write them, or from an edge with a bug.

Each is made of a range that an edge has signed. A judge drops them all, or takes what is true.

| lie       | what is wrong                                                         |
|-----------|-----------------------------------------------------------------------|
| beyond    | it ends behind the input                                              |
| stranger  | it names another partition                                            |
| count     | it has more timestamps than records                                   |
| overlap   | it begins within the range before it: its records from there are true |
| inquiry   | it claims that records behind the input were signed                   |
| retracted | it asks to forget two records at once                                 |
"""

import random
from typing import Any

import msgspec
import numpy as np

PARTITION, START, END, OFFSETS, STAMPS, RETRACTED = 1, 2, 3, 4, 5, 10
LIES = ("beyond", "stranger", "count", "overlap", "inquiry", "retracted")


def forged(rng: random.Random, honest: bytes, *, judged: int, end: int) -> bytes:
    """Return a range that lies, made of an *honest* one, for an input that ends before *end*.

    None leaves out records that are not *judged*: a judge cannot see that (`test_edges`).
    """
    fields: list[Any] = msgspec.msgpack.decode(honest[2:])
    start, rows = fields[START], len(fields[STAMPS]) // 8
    if not fields[OFFSETS]:
        fields[OFFSETS] = np.arange(start, start + rows).astype("<i8").tobytes()
    lie = rng.choice(LIES)
    if lie == "beyond":
        fields[END] = end + rng.choice((1, 3, 1 << 60))
    elif lie == "stranger":
        fields[PARTITION] += 1
    elif lie == "count":
        fields[STAMPS] += bytes(8)
    elif lie == "overlap":
        fields[START] = max(0, start - 2) if start <= judged else start
    elif lie == "inquiry":
        nothing = [end + 7, end + 7, b"", b"", [], [], b"", [], []]
        fields[START:] = nothing
    else:
        fields[RETRACTED] = [start, start + 1]
    return honest[:2] + msgspec.msgpack.encode(fields)
