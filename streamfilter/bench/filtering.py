"""Is the whole filter, on disk and verified, as fast as loops in memory, and how right is each?

`streamfilter filter --state` on JSON Lines against programs around datasketch, rensa and gaoya
that keep everything in memory. Whole processes on one core, timed from outside, in turns; what a
start takes is known from the beginning of the same input. Recall and precision of each are
measured against exact similarities.
"""

import json
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct, field

from streamfilter.bench import texts, truth
from streamfilter.bench.machine import MIB, Ran, cores, run_process
from streamfilter.bench.measure import Measured, in_turns, rates, ratios
from streamfilter.bench.result import BenchResult, Check, Options, Row, Target

BEGINNING = 20
"""1 in this many lines is also run alone; its time beyond its share is the start-up time."""

Run = Callable[[Path, Path, Path], Ran]  # (input, kept, withheld) -> what the process took

NOISE = 0.01
"""Lower limit of a steady time, as a share of the whole: in a quick run it may be negative."""


class Mix(Struct, frozen=True):
    """Texts of one kind, and how many times as fast as each rival we want to be on them."""

    language: str
    share: float  # share of copies
    size: int = 1_024  # bytes of a text
    wanted: Mapping[str, float] = field(default_factory=dict)
    """Wanted ratio of processor times in steady state, by rival."""
    numpy: float = 0.0  # the same of numpy alone, beside rensa

    def __str__(self) -> str:
        return f"{self.language} {self.size:,} B {self.share:.0%}"


MIXES = (
    Mix("english", 0.3, 1_024, {"rensa": 1.6, "datasketch, xxh32": 8.0}, 1.25),
    Mix("english", 0.0),
    Mix("english", 0.9),
    Mix("arabic", 0.3),
    Mix("arabic", 0.3, 3_400, {"rensa": 1.9, "datasketch, xxh32": 8.0}, 1.25),
    Mix("german", 0.3, 2_800, {"rensa": 1.9, "datasketch, xxh32": 8.0}, 1.6),
    Mix("english", 0.3, 130, {"rensa": 1.0, "datasketch, xxh32": 10.0}, 0.75),
)
"""A quick run takes only the first one."""


class Contender(Struct):
    """One program, and its measurements in each turn."""

    name: str
    run: Run
    whole: list[Ran] = field(default_factory=list)
    begun: list[Ran] = field(default_factory=list)  # the same for the beginning of the input alone
    judged: truth.Judged | None = None

    def took(self, what: str) -> list[float]:
        """Return seconds of each turn: ``wall``, ``cpu`` of all its processes, or ``own``."""
        return [getattr(each, what) for each in self.whole]

    def steady(self, what: str) -> list[float]:
        """Return the same without the start-up time, by the run on the beginning of the input."""
        begun = [getattr(each, what) for each in self.begun]
        pairs = zip(self.took(what), begun, strict=True)
        return [max(whole - beginning, NOISE * whole) for whole, beginning in pairs]


def run(options: Options) -> BenchResult:
    rows: list[Row] = []
    checks: list[Check] = []
    targets: list[Target] = []
    with tempfile.TemporaryDirectory(prefix="streamfilter-bench-") as directory, cores(0):
        for label, documents, mix in _mixes(options):
            options.say(f"{label}: the truth")
            near = truth.neighbours([truth.shingles(text) for text in documents])
            contenders = _contenders(options)
            checks += measured(label, documents, near, contenders, Path(directory), options)
            rows += [_row(label, each, contenders[0], len(documents)) for each in contenders]
            targets += _targets(label, contenders, mix)
    return BenchResult(
        {"whole processes, one core": rows}, checks, targets,
        settings={"threshold": 0.8, "recall from": 0.82, "shingle": "word-3"},
        notes=[
            "docs/s: by the wall clock, start of the interpreter included; cpu: processor seconds",
            f"steady: without what the first {100 // BEGINNING} % of the same input take alone",
            "recall: withheld share of those with an earlier kept document of J >= .82; "
            "precision: share of the withheld with one of J >= .8",
            "numpy alone: the same filter with batch.kernel=off",
            *options.rivals.notes,
        ],
    )  # fmt: skip


def _mixes(options: Options) -> Iterator[tuple[str, list[str], Mix]]:
    count = 400 if options.quick else 20_000
    for mix in MIXES[:1] if options.quick else MIXES:
        fresh = texts.documents(mix.language, mix.size, count, seed=3)
        yield str(mix), texts.mixed(fresh, share=mix.share, seed=3), mix
    if options.text is not None:
        yield options.text.name, texts.texts_of(options.text, count=count), Mix("", 0.0)


def _contenders(options: Options) -> list[Contender]:
    rivals = [Contender(name, program) for name, program in options.rivals.programs.items()]
    ours = [Contender("streamfilter", filter_process), Contender("numpy alone", _by_numpy)]
    return [*ours, *rivals]


def _by_numpy(source: Path, kept: Path, withheld: Path) -> Ran:
    return filter_process(source, kept, withheld, "--set", "batch.kernel=off")


def filter_process(source: Path, kept: Path, withheld: Path, *more: str) -> Ran:
    """Run `streamfilter filter` with a fresh index on disk, and *more* arguments."""
    state = source.with_name("state")
    shutil.rmtree(state, ignore_errors=True)
    return run_process([
        "-m", "streamfilter", "filter", str(source), "--state", str(state),
        "--unique", str(kept), "--duplicates", str(withheld), *more,
    ])  # fmt: skip


def measured(
    label: str,
    documents: Sequence[str],
    near: truth.Neighbours,
    contenders: Sequence[Contender],
    directory: Path,
    options: Options,
) -> list[Check]:
    """Run *contenders* in turns, judge what each did, and return the checks on ours."""
    lines = as_lines(documents)
    kept, withheld = outputs = directory / "kept", directory / "withheld"
    checks: list[Check] = []
    for contender in running(label, contenders, lines, outputs, options):
        if contender.judged is None:
            contender.judged = truth.judged(_kept(kept, len(documents)), near)
            if contender is contenders[0]:
                checks += _checks(label, lines, kept, withheld, contender.judged)
    return checks


def as_lines(documents: Sequence[str]) -> list[bytes]:
    values = ({"id": str(number), "text": text} for number, text in enumerate(documents))
    return [json.dumps(each, ensure_ascii=False).encode() + b"\n" for each in values]


def running(
    label: str,
    contenders: Sequence[Contender],
    lines: Sequence[bytes],
    outputs: tuple[Path, Path],
    options: Options,
) -> Iterator[Contender]:
    """Run *contenders* in turns on *lines* and on their beginning; yield each one after its run.

    *outputs* are the files of its kept and withheld lines; the next contender overwrites them.
    """
    whole, beginning = (outputs[0].with_name(name) for name in ("in.jsonl", "beginning.jsonl"))
    whole.write_bytes(b"".join(lines))
    beginning.write_bytes(b"".join(lines[: len(lines) // BEGINNING]))
    for turn, contender in in_turns(contenders, repeat=options.repeat):
        options.say(f"{label}: {contender.name}, turn {turn + 1} of {options.repeat}")
        contender.begun.append(contender.run(beginning, *outputs))
        contender.whole.append(contender.run(whole, *outputs))
        yield contender


def _kept(path: Path, count: int) -> list[bool]:
    kept = [False] * count
    for line in path.read_bytes().splitlines():
        kept[int(json.loads(line)["id"])] = True
    return kept


def _checks(
    label: str, lines: Sequence[bytes], kept: Path, withheld: Path, judged: truth.Judged
) -> list[Check]:
    """Hold our run to its promises: every line in one place, unchanged, and rightly so."""
    payloads = [json.loads(line)["payload"] for line in withheld.read_bytes().splitlines()]
    out = kept.read_bytes().splitlines(keepends=True)
    out += [payload.encode() + b"\n" for payload in payloads]
    same = sorted(out) == sorted(lines)
    place = Check(f"{label}: every line is in one place", same, f"{len(out)} of {len(lines)} lines")
    return [place, *judged.checks(label)]


def _row(label: str, contender: Contender, ours: Contender, count: int) -> Row:
    judged, wall, cpu = contender.judged, contender.took("wall"), contender.took("cpu")
    assert judged is not None
    rest = count - count // BEGINNING
    return {
        "mix": label,
        "program": contender.name,
        "docs/s": rates(wall, count),
        "cpu us/doc": Measured.of([each / count * 1e6 for each in cpu]),
        "steady us/doc": Measured.of([each / rest * 1e6 for each in contender.steady("cpu")]),
        "ours is times as fast": ratios(ours.took("wall"), wall),
        "by cpu": ratios(ours.took("cpu"), cpu),
        "steady": ratios(ours.steady("cpu"), contender.steady("cpu")),
        "peak MiB": max(each.peak for each in contender.whole) / MIB,
        "expected": judged.expected,
        "recall": judged.recall,
        "withheld": judged.withheld,
        "precision": judged.precision,
    }


def _targets(label: str, contenders: Sequence[Contender], mix: Mix) -> Iterator[Target]:
    ours, numpy, *rivals = contenders
    for each in rivals:
        if wanted := mix.wanted.get(each.name):
            ratio = ratios(ours.steady("cpu"), each.steady("cpu"))
            yield Target(f"{label}: times {each.name}", ratio.median, wanted)
        if mix.numpy and each.name == "rensa":
            ratio = ratios(numpy.steady("cpu"), each.steady("cpu"))
            yield Target(f"{label}, numpy alone: times rensa", ratio.median, mix.numpy)
