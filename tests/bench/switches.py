"""What does each switch of `similarity.normalise` cost for a text?

The same English texts are sketched without and with each switch, in turns. Each text has something
for each step to remove. The column "more" is the median of the differences, turn by turn, in
microseconds a text.
"""

import random
from collections.abc import Mapping, Sequence
from typing import Any

from streamfilter.bench import texts
from streamfilter.bench.measure import Measured, interleaved
from streamfilter.bench.result import BenchResult, Check, Options, Row
from streamfilter.cleaning.folds import FOLDS
from streamfilter.similarity.scheme import Normalisation, Scheme, Shingling
from streamfilter.similarity.sketch import Sketcher
from streamfilter.similarity.text.boilerplate import Sample, Table, known

SEED = bytes(range(16))
BYTES = 732
DOCUMENTS = {True: 200, False: 2_000}
DECORATION = """<p>A b\x1b[31mred\x1b[0m word &amp; a café’s أ ١٢ İ, hyphen-
ated.</p> <b>TCK-118</b> https://a.example/x?utm_source=mail&amp;id=7. me@a.example
6fa459ea-ee8a-3ca4-894e-db77e160355e 2026-03-01T10:00:00Z 10.0.0.7 /var/log/messages 0x5d41402a

On 1 March 2026 Ann wrote:
> an older word
"""
FOOTER = " ".join(f"footer{number % 37}word{number}" for number in range(60))
LOG_MASKS = ("url", "email", "uuid", "timestamp", "ip", "path", "hex", "number")
"""The masks of config/logs.yaml."""

TABLE_SHINGLES = 180_000


def _table() -> str:
    """Return the digest of a table: a third of each text, and as much again that is in none."""
    rng = random.Random(5)
    unseen = (tuple(b"%x" % rng.getrandbits(32) for _ in range(3)) for _ in range(TABLE_SHINGLES))
    words = FOOTER.encode().split()
    seen = zip(words, words[1:], words[2:], strict=False)
    sample = Sample(1_000, 10, 0, (0, 1_000, 0))
    return known(Table.of([*seen, *unseen], Normalisation(), Shingling(), sample)).digest


SCOPE = "index.scope_field"
SWITCHES: Mapping[str, dict[str, Any]] = {
    "none": {},
    "ansi": {"ansi": True},
    "quotes": {"quotes": True},
    "hyphens": {"hyphens": True},
    "html": {"html": True},
    **{f"mask {name}": {"mask": (name,)} for name in ("tracking", *LOG_MASKS)},
    "the masks of logs.yaml": {"mask": LOG_MASKS},
    "own pattern": {"mask": ((r"[A-Z]{3}-\d+", "ticket"),)},
    **{f"fold {name}": {"fold": (name,)} for name in FOLDS},
}


def run(options: Options) -> BenchResult:
    """Measure all switches on the same texts."""
    count = DOCUMENTS[options.quick]
    fresh = texts.documents("english", BYTES, count, seed=11)
    documents = [f"{text}\n{DECORATION}\n{FOOTER}" for text in fresh]
    sketchers = {name: _sketcher(switch) for name, switch in SWITCHES.items()}
    sketchers["agree_on numbers"] = Sketcher(Scheme(20, 5, digests=("agree numbers",)), seed=SEED)
    sketchers["boilerplate"] = _sketcher({"boilerplate": _table()})
    sketchers[SCOPE] = Sketcher(Scheme(20, 5, digests=("scope /tenant",)), seed=SEED)
    tenants = [(f'"tenant {number % 100}"',) for number in range(count)]
    options.say(f"{len(sketchers)} switches in turns")
    seconds = interleaved(
        {
            name: lambda each=each, beside=tenants if name == SCOPE else (): each.sketch(
                documents, beside
            )
            for name, each in sketchers.items()
        },
        repeat=options.repeat,
    )
    rows = [_row(name, took, seconds["none"], count) for name, took in seconds.items()]
    checks = [_takes_effect(name, each, sketchers["none"]) for name, each in sketchers.items()]
    return BenchResult(
        {"sketching a text (us, one core)": rows}, checks[1:], [],
        settings={"documents": count, "bytes": BYTES + len(DECORATION) + len(FOOTER)},
    )  # fmt: skip


def _sketcher(switch: dict[str, Any]) -> Sketcher:
    return Sketcher(Scheme(20, 5, normalisation=Normalisation(**switch)), seed=SEED)


def _takes_effect(name: str, sketcher: Sketcher, without: Sketcher) -> Check:
    text = f"{DECORATION}\n{FOOTER}"
    one, other = (each.sketch([text]).contents for each in (sketcher, without))
    other_text = one.fingerprints != other.fingerprints
    other_set = one.signatures != other.signatures
    return Check(f"{name} changes the text", bool(other_text.any() or other_set.any()))


def _row(name: str, took: Sequence[float], none: Sequence[float], count: int) -> Row:
    more = [(with_it - without) / count * 1e6 for with_it, without in zip(took, none, strict=True)]
    return {
        "switch": name,
        "us/text": Measured.of([each / count * 1e6 for each in took]),
        "more": Measured.of(more),
    }
