"""`streamfilter bench` from outside: what it saves, and that a wrong result fails the run."""

import json

import numpy as np
import pytest

from streamfilter import cli
from streamfilter.bench import catalogue, filtering, sketching, texts, truth
from streamfilter.bench.filtering import Contender
from streamfilter.bench.machine import Ran
from streamfilter.files.formats import parquet
from streamfilter.similarity.sketch import Sketcher, Sketches
from tests.bench import indexing
from tests.bench.catalogue import BENCHMARKS
from tests.bench.options import LongOptions
from tests.support.values import replace

QUICK = LongOptions(repeat=1, quick=True)


@pytest.fixture
def two_languages(monkeypatch):
    kept = {name: texts.LANGUAGES[name] for name in ("english", "chinese")}
    monkeypatch.setattr(texts, "LANGUAGES", kept)


@pytest.mark.slow
@pytest.mark.usefixtures("two_languages")
def test_a_quick_run_saves_numbers_with_machine_versions_and_settings(tmp_path, capsys):
    saved = tmp_path / "new" / "run.json"
    assert cli.main(["bench", "--quick", "--only", "sketch", "--json", str(saved)]) == 0
    run = json.loads(saved.read_text())
    assert run["passed"] is True
    assert run["machine"]["cores"] >= 1
    assert {"python", "numpy", "streamfilter", "commit"} <= run["versions"].keys()
    assert run["settings"] == {
        "repeat": 1, "quick": True, "text": None, "rivals": [],
    }  # fmt: skip
    (title, rows), *_ = run["benchmarks"]["sketch"]["tables"].items()
    assert {row["text"] for row in rows} == set(texts.LANGUAGES)
    assert all(row["docs/s"]["runs"] == 1 and row["docs/s"]["median"] > 0 for row in rows)
    said = capsys.readouterr()
    assert title in said.out
    assert "How fast does a text become a signature" in said.out
    # Who waits without a terminal, or reads a log, sees what is being measured.
    assert "... english" in said.err
    assert "\x1b" not in said.err


@pytest.mark.slow
@pytest.mark.usefixtures("two_languages")
def test_signatures_that_mean_nothing_fail_the_run(monkeypatch, capsys):
    class Broken(Sketcher):
        def sketch(self, documents):
            good = super().sketch(documents)
            shape = good.contents.signatures.shape
            noise = np.random.default_rng(1).integers(0, 256, shape, np.uint8)
            contents = replace(good.contents, signatures=noise)
            return Sketches(contents, self.keys_of(contents))

    monkeypatch.setattr(sketching, "Sketcher", Broken)
    assert cli.main(["bench", "--quick", "--only", "sketch"]) == 1
    said = capsys.readouterr().out
    assert "FAILED: english word-3: estimates are unbiased" in said
    assert "FAILED: english word-3: similar pairs meet in a band" in said


@pytest.mark.slow
def test_band_keys_that_ignore_the_slots_fail_the_run():
    documents = texts.mixed(texts.documents("english", 600, 60, seed=1), share=0.5, seed=1)
    sets = [truth.shingles(text) for text in documents]
    good = sketching.sketcher("word-3").sketch(documents)
    keys = good.keys.copy()
    keys[:, 0] = 7
    broken = replace(good, keys=keys)
    failed = [check.name for check in sketching.checked("x", broken, sets) if not check.passed]
    assert failed == ["x: strangers do not meet"]


@pytest.mark.slow
def test_an_index_that_grows_answers_rightly_and_one_that_forgets_does_not(monkeypatch):
    assert indexing.result_of(*indexing.grow((1_000,))).passed
    good = indexing.RocksIndex.fetch
    monkeypatch.setattr(indexing.RocksIndex, "fetch", lambda self, rows: good(self, rows[1:]))
    assert not indexing.result_of(*indexing.grow((1_000,))).passed


@pytest.mark.slow
def test_all_formats_are_measured_and_one_that_reads_something_else_fails(monkeypatch):
    (answer,) = catalogue.results(["formats"], QUICK, BENCHMARKS)
    assert answer.passed
    kinds = {row["format"] for row in answer.tables["reading"]}
    assert {"avro value", "protobuf value", "csv file", "avro file", "parquet file"} <= kinds
    columns = parquet.named_values
    monkeypatch.setattr(parquet, "named_values", lambda *column: columns(*column)[::-1])
    (answer,) = catalogue.results(["formats"], QUICK, BENCHMARKS)
    failed = {check.name for check in answer.checks if not check.passed}
    assert failed == {
        f"1,024 B, {fields} fields: parquet file is read as what it says" for fields in (2, 12)
    }


@pytest.fixture
def mix():
    documents = [text for text in texts.documents("english", 500, 30, seed=3) for _ in range(2)]
    return documents, truth.neighbours([truth.shingles(text) for text in documents])


def filter_that(spoil, tmp_path, mix):
    """Run a filter that is right, then *spoil* its output; return the checks that failed."""
    documents, near = mix

    def run(source, kept, withheld):
        lines = source.read_bytes().splitlines(keepends=True)
        own = lines[::2], lines[1::2]
        unique, copies = spoil(*own)
        kept.write_bytes(b"".join(unique))
        records = [{"payload": line.decode().removesuffix("\n")} for line in copies]
        withheld.write_bytes(b"".join(json.dumps(each).encode() + b"\n" for each in records))
        return Ran(1.0, 1.0)

    checks = filtering.measured("m", documents, near, [Contender("ours", run)], tmp_path, QUICK)
    return [check.name.removeprefix("m: ") for check in checks if not check.passed]


SPOILT = {
    "right": (lambda u, c: (u, c), []),
    "loses a line": (lambda u, c: (u, c[1:]), ["every line is in one place"]),
    "changes a line": (
        lambda u, c: ([u[0].replace(b": ", b":"), *u[1:]], c), ["every line is in one place"]
    ),
    "lets a duplicate through": (lambda u, c: ([*u, c[0]], c[1:]), ["recall at J >= .82"]),
    "withholds both of a pair": (lambda u, c: (u[1:], [*c, u[0]]), ["precision at J >= .8"]),
}  # fmt: skip


@pytest.mark.parametrize(("spoil", "failed"), SPOILT.values(), ids=SPOILT)
def test_a_filter_that_is_wrong_fails_by_its_check(tmp_path, mix, spoil, failed):
    assert filter_that(spoil, tmp_path, mix) == failed


def test_the_start_of_a_program_is_not_what_it_costs_in_steady_state(tmp_path):
    """Of two that cost the same a text, the one that starts slowly would seem to lose."""

    def starting_in(seconds):
        def run(source, kept, withheld):
            lines = source.read_bytes().splitlines(keepends=True)
            kept.write_bytes(b"".join(lines))
            withheld.write_bytes(b"")
            return Ran(1.0, seconds + len(lines) / 1_000)

        return run

    documents = [f"{number} words of no other text {number}" for number in range(200)]
    slow, quick = Contender("slow", starting_in(0.5)), Contender("quick", starting_in(0.1))
    filtering.measured("m", documents, [{}] * 200, [slow, quick], tmp_path, QUICK)
    assert slow.steady("cpu") == pytest.approx(quick.steady("cpu"))
    assert slow.steady("cpu")[0] == pytest.approx(0.19)
