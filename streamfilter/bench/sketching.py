"""How fast does a text become a signature and band keys, stage by stage, and beside its rivals?

Texts of 200 bytes to 100 KB in English, Arabic and Chinese, as runs of three words and of five
characters. Ours includes what the rivals do not do: the content fingerprint, the token sample
for verification, the band keys. Estimates are held to exact similarities, and what should share
a band to the S-curve.
"""

import pstats
import time
from collections.abc import Callable, Iterator, Sequence
from cProfile import Profile
from math import sqrt

import numpy as np

from streamfilter.bench import texts, truth
from streamfilter.bench.measure import Measured, interleaved, rates, ratios
from streamfilter.bench.result import BenchResult, Check, Options, Row, Target
from streamfilter.similarity.kernel.choice import OFF, choice, chosen
from streamfilter.similarity.minhash import estimate
from streamfilter.similarity.scheme import Scheme, Shingling
from streamfilter.similarity.sketch import Sketcher, Sketches
from streamfilter.similarity.statistics.shape import collision_probability

OURS, NUMPY = "streamfilter", "numpy"
"""Ours as it signs here, and with numpy alone (`batch.kernel: off`)."""
SEED = bytes(range(16))
SIZES = (200, 1_024, 4_096, 20_480, 102_400)
SHINGLES = {"word-3": Shingling("word", 3), "char-5": Shingling("char", 5)}
BANDS, ROWS = 16, 6
BATCH_DOCUMENTS = 1_000  # texts sketched in one call: a full micro-batch

AMOUNT_BYTES = {True: 40_000, False: 1_000_000}  # text that one measurement sketches, quick or not
CHECKED_TEXTS = {True: 150, False: 600}

DEVIATIONS = 4.5  # standard errors that an average over the checked pairs may be off

STAGES = {
    "normalise": "chunk", "fingerprint": "fingerprints", "shingle": "tokens", "sign": "sign",
    "sample": "samples_of", "band keys": "keys_of",
}  # fmt: skip
"""The functions that a sketch consists of."""


def run(options: Options) -> BenchResult:
    """Measure all sizes, languages and shingles."""
    speeds: list[Row] = []
    against: list[Row] = []
    for language, size, shingle, documents in _inputs(options):
        options.say(f"{language} {size} bytes {shingle}")
        labels: Row = {"text": language, "bytes": size, "kind": shingle}
        seconds = _measured(documents, shingle, options)
        own, amount = seconds.pop(OURS), sum(len(text.encode()) for text in documents)
        numpy = seconds.pop(NUMPY)
        speed: Row = {
            "docs/s": rates(own, len(documents)), "MB/s": rates(own, amount / 1e6),
            "numpy docs/s": rates(numpy, len(documents)), "times numpy": ratios(own, numpy),
        }  # fmt: skip
        speeds.append({**labels, **speed, **_stages(documents, shingle, options)})
        if seconds:
            times = {name: ratios(own, theirs) for name, theirs in seconds.items()}
            against.append({**labels, **times})
    tables = {"our speed and its stages (us a document)": speeds}
    if against:
        tables["times as fast as (turn by turn, one core)"] = against
    return BenchResult(
        tables, list(_checks(options)), list(_targets(speeds, against)),
        settings={"bands": BANDS, "rows": ROWS, "slots": 128, "batch": BATCH_DOCUMENTS},
        notes=[
            "seconds are processor seconds of all threads; a megabyte has 10^6 bytes",
            f"signed by: {choice()}",
            *options.rivals.notes,
        ],
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
    return Sketcher(Scheme(BANDS, ROWS, shingling=SHINGLES[shingle]), seed=SEED)


def _measured(documents: Sequence[str], shingle: str, options: Options) -> dict[str, list[float]]:
    """Return the processor seconds of each turn, by contender."""
    ours = sketcher(shingle)
    contenders: dict[str, Callable[[], object]] = {
        OURS: lambda: _in_batches(ours, documents),
        NUMPY: lambda: _by_numpy(ours, documents),
    }
    for name, signer in options.rivals.signers(shingle).items():
        contenders[name] = lambda signer=signer: signer(documents)  # type: ignore[misc]
    return interleaved(contenders, repeat=options.repeat)


def _in_batches(ours: Sketcher, documents: Sequence[str]) -> None:
    for begin in range(0, len(documents), BATCH_DOCUMENTS):
        ours.sketch(documents[begin : begin + BATCH_DOCUMENTS])


def _by_numpy(ours: Sketcher, documents: Sequence[str]) -> None:
    with chosen(OFF):
        _in_batches(ours, documents)


def _stages(documents: Sequence[str], shingle: str, options: Options) -> Row:
    """Return the microseconds a document of each stage; the profiler's own are among them."""
    found: dict[str, list[float]] = {stage: [] for stage in STAGES}
    for _ in range(options.repeat):
        profile = Profile(time.process_time, builtins=False)
        profile.runcall(_in_batches, sketcher(shingle), documents)
        seconds = {  # of the function and what it calls
            name: spent[3]
            for (file, _, name), spent in pstats.Stats(profile).stats.items()  # type: ignore[attr-defined]
            if "similarity" in file
        }
        for stage, name in STAGES.items():
            found[stage].append(seconds[name] / len(documents) * 1e6)
    return {stage: Measured.of(values) for stage, values in found.items()}


def _checks(options: Options) -> Iterator[Check]:
    """Sketch mixes with duplicates and hold the result to exact similarities."""
    for language in texts.LANGUAGES:
        shingle = "char-5" if language == "chinese" else "word-3"
        fresh = texts.documents(language, 1_024, CHECKED_TEXTS[options.quick], seed=2)
        documents = texts.mixed(fresh, share=0.5, seed=2)
        kind, size = SHINGLES[shingle].kind, SHINGLES[shingle].size
        sets = [truth.shingles(text, kind=kind, size=size) for text in documents]
        sketches = sketcher(shingle).sketch(documents)
        yield from checked(f"{language} {shingle}", sketches, sets)
        with chosen(OFF):
            same = sketcher(shingle).sketch(documents).to_bytes() == sketches.to_bytes()
        yield Check(f"{language} {shingle}: kernel and numpy are equal", same, str(choice()))


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


def _targets(speeds: Sequence[Row], against: Sequence[Row]) -> Iterator[Target]:
    """Yield what issue and README promise of one core, as far as it was measured."""
    times = {_label(row): row for row in against}
    for kind, rival, wanted in (
        ("word-3", "datasketch, xxh3", 8), ("word-3", "rensa", 1.5),
        ("char-5", "datasketch, xxh3", 40), ("char-5", "datasketch, sha1", 40),
    ):  # fmt: skip
        if row := times.get(("english", 1_024, kind)):
            yield Target(f"1 KB {kind}, times {rival}", _median(row[rival]), wanted)
    if english := [_median(row["rensa"]) for row in against if row["text"] == "english"]:
        yield Target("never under rensa (English, all sizes)", min(english), 1.0)
    rate = {_label(row): _median(row["MB/s"]) for row in speeds}
    for (language, size, shingle), value in rate.items():
        if language in ("arabic", "chinese") and size == 1_024:
            share = value / rate["english", size, shingle]
            yield Target(f"{language} {shingle}, share of the ASCII byte rate", share, 0.5)


def _label(row: Row) -> tuple[object, object, object]:
    return row["text"], row["bytes"], row["kind"]


def _median(cell: object) -> float:
    assert isinstance(cell, Measured)
    return cell.median
