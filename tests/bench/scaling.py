"""How much faster is the whole filter on two cores?

`streamfilter filter --state` on one core, and on two with workers that sketch beside it: whole
processes by the clock, in turns, every output held to that of one core.
"""

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from pathlib import Path

from streamfilter.bench.filtering import BEGINNING, Contender, as_lines, filter_process, running
from streamfilter.bench.machine import Ran, cores, usable
from streamfilter.bench.measure import Measured, ratios
from streamfilter.bench.result import BenchResult, Check, Options, Row, Target
from streamfilter.bench.texts import documents, mixed
from streamfilter.workers.crew import AUTO_MAX, auto_workers

TWO = 2


@dataclass(frozen=True, slots=True)
class Corpus:
    """Texts of one kind, and how many times as fast two cores should be."""

    language: str
    size: int
    """Bytes of a text."""
    count: int
    wanted: float

    def __str__(self) -> str:
        return f"{self.language} {self.size:,} B"


CORPORA = (Corpus("arabic", 3_400, 20_000, 1.7), Corpus("english", 130, 100_000, 1.3))
QUICK = 400
"""Documents."""
SEED = bytes(range(16))


def filter_on(count: int, workers: int, source: Path, kept: Path, withheld: Path) -> Ran:
    """Run the filter on *count* cores with *workers*, and with the seed that all have.

    So all must write the same.
    """
    seed = source.with_name("seed")
    seed.write_bytes(SEED)
    crew = "--workers", str(workers), "--set", f"index.seed_file={seed}"
    with cores(*range(count)):
        return filter_process(source, kept, withheld, *crew)


def _crews() -> list[Contender]:
    """Return the filter as it is measured: alone on a core, and with workers if there are two."""
    crews = [Contender("one core", partial(filter_on, 1, 0))]
    if enough():
        crews += [
            Contender(f"{TWO} cores, workers: {workers}", partial(filter_on, TWO, workers))
            for workers in (1, TWO)
        ]
    return crews


def run(options: Options) -> BenchResult:
    """Run all corpora."""
    measured: list[Row] = []
    checks: list[Check] = []
    targets: list[Target] = []
    with tempfile.TemporaryDirectory(prefix="streamfilter-bench-") as directory:
        for corpus in CORPORA[-1:] if options.quick else CORPORA:
            count = QUICK if options.quick else corpus.count
            texts = mixed(documents(corpus.language, corpus.size, count, seed=3), share=0.3, seed=3)
            crews = _crews()
            checks += _same(corpus, texts, crews, Path(directory), options)
            rest = count - count // BEGINNING
            measured += [_row(corpus, each, crews[0], rest) for each in crews]
            if enough():
                mean = sum(map(len, texts)) / len(texts)
                best = crews[auto_workers(TWO, mean)]
                gain = ratios(best.steady("wall"), crews[0].steady("wall"))
                targets.append(Target(f"{corpus}: times one core", gain.median, corpus.wanted))
    return BenchResult(
        {"whole processes by the clock": measured}, checks, targets,
        settings={"duplicates": 0.3, "workers at most": AUTO_MAX},
        notes=[
            f"all without what the first {100 // BEGINNING} % of the same input take alone: starts",
            "own: processor time of the filter's process; workers: of theirs together",
            "the targets are of as many workers as auto takes",
            *([] if enough() else ["there is one core here: nothing to compare"]),
        ],
    )  # fmt: skip


def enough() -> bool:
    """Return True if this machine has two cores for us."""
    return len(usable()) >= TWO


def _same(
    corpus: Corpus,
    texts: Sequence[str],
    crews: Sequence[Contender],
    directory: Path,
    options: Options,
) -> Iterator[Check]:
    """Run *crews* in turns and yield whether each always wrote what the first one wrote."""
    outputs = directory / "kept", directory / "withheld"
    wrote: dict[str, set[bytes]] = {crew.name: set() for crew in crews}
    for crew in running(str(corpus), crews, as_lines(texts), outputs, options):
        wrote[crew.name] |= {b"".join(blake2b(each.read_bytes()).digest() for each in outputs)}
    first = wrote[crews[0].name]
    for name, found in wrote.items():
        same = len(found) == 1 and found == first
        yield Check(f"{corpus}: {name} wrote what one core wrote", same)


def _row(corpus: Corpus, crew: Contender, alone: Contender, count: int) -> Row:
    def us(what: str) -> Measured:
        return Measured.of([each / count * 1e6 for each in crew.steady(what)])

    return {
        "texts": str(corpus),
        "filter": crew.name,
        "us/doc": us("wall"),
        "cpu us/doc": us("cpu"),
        "own us/doc": us("own"),
        "times one core": ratios(crew.steady("wall"), alone.steady("wall")),
        "by whole runs": ratios(crew.took("wall"), alone.took("wall")),
    }
