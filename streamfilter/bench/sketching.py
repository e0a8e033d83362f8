"""How fast does a text become a signature and band keys, stage by stage, and beside its rivals?

Texts of 200 bytes to 100 KB in English, Arabic and Chinese, as runs of three words and of five
characters. Ours includes what the rivals do not do: the content fingerprint, the token sample
for verification, the band keys. Estimates are held to exact similarities, and what should share
a band to the S-curve.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import sqrt

import numpy as np

from streamfilter.bench import mixes, texts, truth
from streamfilter.bench.measure import Measured, Seconds, interleaved, rates, ratios
from streamfilter.bench.options import Options
from streamfilter.bench.outcome import BenchResult, Check, Row, Table, Target
from streamfilter.bench.stages import SEED, STAGES, Stages
from streamfilter.similarity.curve import collision_probability
from streamfilter.similarity.minhash import estimate
from streamfilter.similarity.scheme import Scheme, Shingling
from streamfilter.similarity.sketch import Sketcher, Sketches

NAME = "sketch"
OURS = "streamfilter"

SIZES = (200, 1_024, 4_096, 20_480, 102_400)
SHINGLES = {"word-3": Shingling("word", 3), "char-5": Shingling("char", 5)}
BANDS, ROWS = 16, 6
BATCH_DOCUMENTS = 1_000
"""Texts sketched in one call: a full micro-batch."""

AMOUNT_BYTES = {True: 40_000, False: 1_000_000}
"""Text that one measurement sketches, quick or not."""
CHECKED_TEXTS = {True: 150, False: 600}

DEVIATIONS = 4.5
"""Standard errors that an average over the checked pairs may be off."""


def run(options: Options) -> BenchResult:
    """Measure all sizes, languages and shingles."""
    speeds: list[Row] = []
    against: list[Row] = []
    for language, size, shingle, documents in _inputs(options):
        options.say(f"{language} {size} bytes {shingle}")
        labels: Row = {"text": language, "bytes": size, "kind": shingle}
        seconds = _measured(documents, shingle, options)
        speeds.append({**labels, **_speed(documents, seconds[OURS])})
        speeds[-1] |= _stage_shares(documents, shingle, options)
        if options.peers:
            against.append({**labels, **_ratios(seconds)})
    tables = [Table("our speed and its stages (us a document)", speeds)]
    if against:
        tables.append(Table("times as fast as (turn by turn, one core)", against))
    return BenchResult(
        NAME, __doc__.splitlines()[0], tables, list(_checks(options)), _targets(speeds, against),
        settings={"bands": BANDS, "rows": ROWS, "slots": 128, "batch": BATCH_DOCUMENTS},
        notes=_notes(options),
    )  # fmt: skip


def _inputs(options: Options) -> Iterator[tuple[str, int, str, list[str]]]:
    sizes = SIZES[:2] if options.quick else SIZES
    for language in texts.LANGUAGES:
        for size in sizes:
            count = max(4, AMOUNT_BYTES[options.quick] // size)
            documents = texts.documents(language, size, count, seed=1)
            yield from ((language, size, shingle, documents) for shingle in SHINGLES)
    if options.text is not None:
        documents = texts.texts_of(options.text, count=2_000)
        mean = sum(len(text.encode()) for text in documents) // max(len(documents), 1)
        yield from ((options.text.name, mean, shingle, documents) for shingle in SHINGLES)


def sketcher(shingle: str) -> Sketcher:
    """Return the sketcher under test."""
    return Sketcher(Scheme(BANDS, ROWS, shingling=SHINGLES[shingle]), seed=SEED)


def _measured(documents: Sequence[str], shingle: str, options: Options) -> dict[str, list[Seconds]]:
    ours = sketcher(shingle)
    contenders: dict[str, Callable[[], object]] = {OURS: lambda: _in_batches(ours, documents)}
    if options.peers:
        from streamfilter.bench.peers.signing import signers

        for name, signer in signers(shingle).items():
            contenders[name] = lambda signer=signer: signer(documents)  # type: ignore[misc]
    return interleaved(contenders, repeat=options.repeat)


def _in_batches(ours: Sketcher, documents: Sequence[str]) -> None:
    for begin in range(0, len(documents), BATCH_DOCUMENTS):
        ours.sketch(documents[begin : begin + BATCH_DOCUMENTS])


def _speed(documents: Sequence[str], seconds: Sequence[Seconds]) -> Row:
    cpu = [each.cpu for each in seconds]
    size = sum(len(text.encode()) for text in documents)
    return {"docs/s": rates(cpu, len(documents)), "MB/s": rates(cpu, size / 1e6)}


def _stage_shares(documents: Sequence[str], shingle: str, options: Options) -> Row:
    """Return the microseconds a document of each stage."""
    found: dict[str, list[float]] = {stage: [] for stage in STAGES}
    for _ in range(options.repeat):
        stages = Stages(sketcher(shingle))
        for begin in range(0, len(documents), BATCH_DOCUMENTS):
            stages.sketch(documents[begin : begin + BATCH_DOCUMENTS])
        for stage, seconds in stages.seconds.items():
            found[stage].append(seconds / len(documents) * 1e6)
    return {stage: Measured.of(values) for stage, values in found.items()}


def _ratios(seconds: dict[str, list[Seconds]]) -> Row:
    ours = [each.cpu for each in seconds[OURS]]
    return {
        name: ratios(ours, [each.cpu for each in theirs])
        for name, theirs in seconds.items()
        if name != OURS
    }


def _checks(options: Options) -> Iterator[Check]:
    """Sketch mixes with duplicates and hold the result to exact similarities."""
    for language in texts.LANGUAGES:
        shingle = "char-5" if language == "chinese" else "word-3"
        fresh = texts.documents(language, 1_024, CHECKED_TEXTS[options.quick], seed=2)
        documents = mixes.mixed(fresh, share=0.5, seed=2)
        kind, size = SHINGLES[shingle].kind, SHINGLES[shingle].size
        sets = [truth.shingles(text, kind=kind, size=size) for text in documents]
        sketches = sketcher(shingle).sketch(documents)
        yield from checked(f"{language} {shingle}", sketches, sets)


def checked(label: str, sketches: Sketches, sets: Sequence[set[str]]) -> Iterator[Check]:
    """Hold *sketches* to the exact *sets* that they were made of."""
    near = truth.neighbours(sets)
    pairs = [(row, other, j) for row, others in enumerate(near) for other, j in others.items()]
    rows, others = np.array([pair[:2] for pair in pairs], np.int64).reshape(-1, 2).T
    exact = np.array([pair[2] for pair in pairs])
    signatures, keys = sketches.contents.signatures, sketches.keys
    equal = (signatures[rows] == signatures[others]).sum(axis=1)
    slots = signatures.shape[1]
    error = float(np.mean(estimate(equal, slots) - exact))
    allowed = DEVIATIONS * sqrt(float(np.mean(exact * (1 - exact))) / slots / max(len(pairs), 1))
    met = (keys[rows] == keys[others]).any(axis=1)
    expected = np.array([collision_probability(j, bands=BANDS, rows=ROWS) for j in exact])
    slack = DEVIATIONS * sqrt(float(np.sum(expected * (1 - expected)))) + 1
    found, promised = int(met.sum()), float(expected.sum())
    yield Check.equal(f"{label}: a sketch for every text", len(sketches), len(sets))
    sizes_equal = np.array_equal(sketches.contents.set_sizes, [len(each) for each in sets])
    yield Check(f"{label}: set sizes are exact", sizes_equal)
    # Pairs of one original are not independent: hence the floor.
    detail = f"mean error {error:+.5f} over {len(pairs)} pairs"
    yield Check(f"{label}: estimates are unbiased", abs(error) <= max(allowed, 0.01), detail)
    yield Check.at_least(f"{label}: similar pairs meet in a band", found, promised - slack)
    strangers = int((keys[1:] == keys[:-1]).any(axis=1).sum())
    related = sum(1 for row in range(1, len(sets)) if truth.jaccard(sets[row], sets[row - 1]) > 0.1)
    detail = f"{strangers} of {len(sets) - 1} neighbours share a key, {related} are related"
    yield Check(f"{label}: strangers do not meet", strangers <= related, detail)


def _targets(speeds: Sequence[Row], against: Sequence[Row]) -> list[Target]:
    """Return what issue and README promise of one core, as far as it was measured."""
    found = []
    by_label = {(row["text"], row["bytes"], row["kind"]): row for row in against}
    if word := by_label.get(("english", 1_024, "word-3")):
        found.append(_at_least("1 KB word-3, times datasketch, xxh3", word["datasketch, xxh3"], 8))
        found.append(_at_least("1 KB word-3, times rensa", word["rensa"], 1.5))
    if char := by_label.get(("english", 1_024, "char-5")):
        found.append(_at_least("1 KB char-5, times datasketch, xxh3", char["datasketch, xxh3"], 40))
        found.append(_at_least("1 KB char-5, times datasketch, sha1", char["datasketch, sha1"], 40))
    english = [row for row in against if row["text"] == "english"]
    lowest = [row["rensa"].median for row in english if isinstance(row["rensa"], Measured)]
    if lowest:
        found.append(Target("never under rensa (English, all sizes)", min(lowest), 1.0))
    rate = {(r["text"], r["bytes"], r["kind"]): _median(r["MB/s"]) for r in speeds}
    for (language, size, shingle), value in rate.items():
        if language in ("arabic", "chinese") and size == 1_024:
            share = value / rate["english", size, shingle]
            found.append(Target(f"{language} {shingle}, share of the ASCII byte rate", share, 0.5))
    return found


def _at_least(name: str, cell: object, wanted: float) -> Target:
    return Target(name, _median(cell), wanted)


def _median(cell: object) -> float:
    return cell.median if isinstance(cell, Measured) else float(str(cell))


def _notes(options: Options) -> list[str]:
    notes = ["seconds are processor seconds of all threads; a megabyte has 10^6 bytes"]
    if options.peers:
        notes += [
            "ours includes the content fingerprint, the token sample and the band keys; "
            "datasketch and rensa only sign",
            "rensa, rho samples token positions instead of reading them all: another estimate, "
            "which depends on the order and number of tokens",
            "gaoya signs only while inserting; its own analyser splits at white space in Rust, so "
            "its shingles differ from everybody else's (and in Chinese there is nothing to split)",
        ]
    return notes
