"""What flows in: stories that come back, and records that are no documents.

Texts come from one small pool, so that their sketches for the oracle are made once for all
seeds. Families of near-duplicates lie around the threshold on purpose: whether B is a duplicate
depends on whether A or A' came first, so a wrong order shows as a wrong verdict.
"""

import json
import random
from collections.abc import Sequence
from functools import cache

from streamfilter.documents.fields.values import canonical
from streamfilter.documents.record_keys import SCOPE_HEADER
from streamfilter.model import Record, Source
from streamfilter.similarity.columns import U64, Contents
from streamfilter.similarity.scheme import Scheme
from streamfilter.similarity.sketch import Sketcher, Sketches
from tests.simulator.cluster.log import INPUT
from tests.support.values import replace
from tests.truth.history import Input

SCHEME = Scheme(bands=4, rows=2, slots=8)
VALUES: dict[str, tuple[str | int | None, ...]] = {
    "tenant": ("a", 7, None), "date": ("x", "y"), "url": (*"abcdef", *[None] * 6),
}  # fmt: skip
SEED = bytes(range(16))
THRESHOLD = 0.6
FAMILIES, MEMBERS, WORDS = 10, 9, 12
FORM, OWN, FILLED = 13, 4, 240
"""Words of a template and of what is filled in: two such texts are .58 alike, so none is withheld
for another. A bucket's members agree in most of the slots that make its keys longer. Each
comes in two versions, and one is withheld for the other."""


@cache
def pool() -> tuple[tuple[str, ...], ...]:
    """Return families of texts: chains in which neighbours are near, and the ends are not."""
    rng = random.Random(2_026)
    families = []
    for _ in range(FAMILIES):
        words = [f"w{rng.randrange(1_000)}" for _ in range(WORDS)]
        members = [" ".join(words)]
        for _ in range(MEMBERS - 1):
            words = list(words)
            place = rng.choice((0, 1, len(words) - 1, len(words) - 2, rng.randrange(len(words))))
            words[place] = f"x{rng.randrange(1_000)}"
            members.append(" ".join(words))
        families.append(tuple(members))
    return tuple(families)


@cache
def filled() -> tuple[str, ...]:
    """Return texts of one template, most of them forwarded: they fill buckets twice over."""
    rng = random.Random(2_027)
    texts: list[str] = []
    form = [f"w{rng.randrange(1_000)}" for _ in range(FORM)]
    while len(texts) < FILLED:
        own = [f"x{rng.randrange(100_000)}" for _ in range(OWN)]
        texts += [" ".join([*form, *own[:-1], last]) for last in (own[-1], "y")]
    return tuple(texts)


@cache
def scheme(digests: tuple[str, ...]) -> Scheme:
    return replace(SCHEME, digests=digests)


@cache
def sketch_of(text: str, values: tuple[str | None, ...], digests: tuple[str, ...]) -> Sketches:
    return _sketcher(digests).sketch([text], [values])


def keys_of(contents: Contents) -> U64:
    return _sketcher(()).keys_of(contents)


@cache
def _sketcher(digests: tuple[str, ...]) -> Sketcher:
    return Sketcher(scheme(digests), seed=SEED)


def draw(rng: random.Random, families: int, place: Source, number: int, *, timestamp: int) -> Input:
    """Return the next record of an input partition: of some *families*, or 0, of one template."""
    one = _draw(rng, families, place, f"{place.partition}-{number}")
    return replace(one, record=replace(one.record, timestamp=timestamp))


def forgetting(rng: random.Random, one: Input, known: Sequence[str], share: float) -> Input:
    """Return a tombstone of a *known* id in the place of *one*, or *one* under such an id."""
    kind = rng.random()
    if not known or kind >= 2 * share:
        return one
    id_ = rng.choice(known)
    if kind < share:
        tombstone = replace(one.record, key=id_.encode(), value=None)
        return replace(one, record=tombstone, kind="tombstone", id=id_)
    if one.kind not in ("document", "passthrough"):
        return one
    value = json.dumps({"id": id_, "text": one.text or " "}).encode()
    return replace(one, record=replace(one.record, value=value), id=id_)


def valued(rng: random.Random, one: Input, scheme: Scheme) -> Input:
    """Return *one* with a value at each pointer of *scheme*; of some, one is missing.

    A tombstone gets the scope alone, as a header, and some are of all scopes.
    """
    drawn = {each[1:]: rng.choice(VALUES[each[1:]]) for each in scheme.pointers}
    if one.record.value is None and (not scheme.scope or rng.random() < 0.3):
        return one
    values = tuple(canonical(each, ()) for each in drawn.values())
    scope = _sketcher(scheme.digests).scope(values[0]) if scheme.scope else b""
    if one.record.value is None:
        header = (SCOPE_HEADER, (values[0] or "null").encode())
        record = replace(one.record, headers=(*one.record.headers, header))
        return replace(one, record=record, scope=scope)
    value = json.dumps({**json.loads(one.record.value), **drawn}).encode()
    return replace(one, record=replace(one.record, value=value), values=values, scope=scope)


def _draw(rng: random.Random, families: int, place: Source, id_: str) -> Input:
    kind = rng.random()
    if kind < 0.85:
        text = rng.choice(pool()[rng.randrange(families)] if families else filled())
        if rng.random() < 0.15:
            text = f"  {text.upper()} "  # equal once it is normalised
        return _input(place, id_, "document", {"id": id_, "text": text}, text)
    if kind < 0.91:
        text = rng.choice(("one", "one", "two words"))  # shorter than a shingle
        return _input(place, id_, "document", {"id": id_, "text": text}, text)
    if kind < 0.94:
        return _input(place, id_, "passthrough", {"id": id_, "text": " "})
    if kind < 0.96:
        return _input(place, id_, "tombstone", None)  # of an id that may come again
    return _input(place, id_, "missing_text", {"id": id_})


def _input(place: Source, id_: str, kind: str, value: object, text: str = "") -> Input:
    body = None if value is None else json.dumps(value).encode()
    record = Record(place, id_.encode(), body, (("h", id_.encode()),))
    return Input(record, kind, id_, id_, text)


def source(partition: int, offset: int) -> Source:
    return Source(INPUT, partition, offset)
