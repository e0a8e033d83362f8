"""Output records held to what the history says of their inputs."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from streamfilter.model import Headers
from tests.support.values import replace
from tests.truth.changelog import SEED_NAMES, SEEDS_TO, Place
from tests.truth.history import UNIQUE, Expected

OURS = "__streamfilter."
THEIRS = OURS + "input."
SHOWN = 3


def counted(wanted: Counter[Any], have: Counter[Any]) -> Iterator[tuple[str, str]]:
    """Yield check and finding for what came out too seldom, too often, or from no input."""
    if lost := sorted((wanted - have).elements()):
        yield "lost", f"{len(lost)} did not come out (often enough): {lost[:SHOWN]}"
    more = sorted((have - wanted).elements())
    if twice := [each for each in more if each in wanted]:
        yield "doubled", f"{len(twice)} came out too often: {twice[:SHOWN]}"
    if odd := [each for each in more if each not in wanted]:
        yield "stranger", f"{len(odd)} come from no judged input: {odd[:SHOWN]}"


def difference(
    topic: str,
    record: Any,
    want: Expected,
    expected: Mapping[Place, Expected],
    *,
    again: bool = False,
) -> tuple[str, str] | None:
    """Return the check and what is wrong with an output record; None if it is right.

    One that was read *again* only has no match that is later, or withheld.
    """
    said, plain = _parted(record.headers, forwarded=topic == UNIQUE)
    matches = [
        (each["id"], each["similarity"], each["bands"], _place(each))
        for each in json.loads(said.get("matches") or "[]")
    ]
    for _, _, _, at in matches:
        if at not in expected or expected[at].order >= want.order:
            return "later", f"was matched with {at}, which is not earlier"
        # What was refused after its verdict is stored until the judge forgets it.
        if expected[at].topic != UNIQUE and expected[at].verdict != "refused":
            return "withheld", f"was matched with {at}, which was not forwarded"
        if expected[at].ordinal < want.horizon and not again:
            return "forgotten", f"was matched with {at}, which was forgotten"
    return None if again else _misjudged(topic, record, want, said, plain, matches)


def _place(match: Mapping[str, Any]) -> Place:
    if "seed" in match:
        return SEEDS_TO - SEED_NAMES.index(match["seed"]), match["line"]
    return match["partition"], match["offset"]


def _misjudged(
    topic: str,
    record: Any,
    want: Expected,
    said: Mapping[str, str],
    plain: Headers,
    matches: list[Any],
) -> tuple[str, str] | None:
    if topic != want.topic:
        return "misjudged", f"is in {topic}, the model says {want.topic}"
    given = want.source.record
    if want.verdict == "refused" and record.timestamp != given.timestamp:
        given = replace(given, timestamp=record.timestamp)  # its letter is of the present
    elif want.verdict == "refused":
        return "misjudged", "has the timestamp that was refused"
    came = record.key, record.value, plain, record.timestamp
    if came != (given.key, given.value, given.headers, given.timestamp):
        return "misjudged", "was changed on its way"
    verdict = said.get("verdict") or said.get("error.code") or ""
    if verdict != want.verdict:
        return "misjudged", f"is {verdict!r}, the model says {want.verdict!r}"
    if matches != list(want.matches):
        return "misjudged", f"matches {matches}, the model says {want.matches}"
    if matches and said["match.id"] != matches[0][0]:
        return "misjudged", "names another match than its best"
    return None


def _parted(headers: Headers, *, forwarded: bool) -> tuple[dict[str, str], Headers]:
    """Part the filter's headers from those that came: none are the filter's where it forwards.

    Elsewhere those that came with a name like the filter's were renamed, and get it back.
    """
    if forwarded:
        return {}, headers
    said: dict[str, str] = {}
    came: list[tuple[str, bytes | None]] = []
    for name, value in headers:
        if name.startswith(THEIRS):
            came.append((OURS + name.removeprefix(THEIRS), value))
        elif name.startswith(OURS):
            said[name.removeprefix(OURS)] = (value or b"").decode()
        else:
            came.append((name, value))
    return said, tuple(came)
