import gzip
import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from streamfilter.cli import main
from tests.filter.conftest import Desk, desk
from tests.filter.stories import lines_of, stories, write
from tests.support.cases import cases

__all__ = ["desk"]

DATA = Path(__file__).parents[3] / "shared" / "data"


def shingles(text: str) -> set[tuple[str, ...]]:
    words = text.split()
    return set(zip(words, words[1:], words[2:], strict=False))


def truth_of(documents: list[dict[str, str]]) -> bytes:
    """Compare all with all: the judge gets nothing that our code found."""
    lines = ["id_a\tid_b\tjaccard\tintersection\tunion"]
    sets = [(each["id"], shingles(each["text"])) for each in documents]
    for (a, left), (b, right) in itertools.combinations(sets, 2):
        both, either = len(left & right), len(left | right)
        if either and both / either >= 0.5:
            lines.append(f"{a}\t{b}\t{both / either:.6f}\t{both}\t{either}")
    return "\n".join(lines).encode() + b"\n"


@pytest.fixture
def case(desk: Desk) -> tuple[Path, Path]:
    documents = stories(300)
    truth = desk.path / "truth.tsv.gz"
    truth.write_bytes(gzip.compress(truth_of(documents)))
    return write(desk.path / "in", [*lines_of(documents), b"{"]), truth


def evaluated(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, dict[str, Any]]:
    capsys.readouterr()
    code = main(["evaluate", *map(str, arguments), "-o", "json"])
    return code, json.loads(capsys.readouterr().out)


@pytest.mark.slow
def test_a_run_of_the_filter_is_judged_against_the_truth(desk, case, capsys):
    source, truth = case
    assert desk.run(source) == 0
    outputs = ["--unique", desk.unique, "--duplicates", desk.duplicates, "--dead-letter", desk.dead]
    code, report = evaluated(capsys, source, "--pairs", truth, *outputs)
    assert code == 0
    assert report["sound"] is True
    assert report["records"] == 301
    assert report["verdicts"]["rejected"] == 1
    assert report["recall"]["share"] >= 0.99
    assert report["precision"]["share"] == 1.0
    assert report["recall"]["of"] > 50


@pytest.mark.slow
def test_without_outputs_the_filter_runs_first(case, capsys):
    source, truth = case
    code, report = evaluated(capsys, source, "--pairs", truth)
    assert code == 0
    assert report["sound"] is True
    assert report["precision"]["share"] == 1.0


@pytest.mark.slow
def test_a_line_lost_from_an_output_is_found(desk, case, capsys):
    source, truth = case
    assert desk.run(source) == 0
    lines = desk.unique.read_bytes().splitlines()
    write(desk.unique, lines[1:])
    outputs = ["--unique", desk.unique, "--duplicates", desk.duplicates, "--dead-letter", desk.dead]
    code, report = evaluated(capsys, source, "--pairs", truth, *outputs)
    assert code == 1
    assert report["missing"] == 1
    write(desk.unique, [*lines, lines[5]])
    code, report = evaluated(capsys, source, "--pairs", truth, *outputs)
    assert (code, report["extra"], report["missing"]) == (1, 1, 0)


@pytest.mark.slow
def test_too_low_a_share_fails_only_when_a_least_one_is_wanted(case, capsys):
    source, truth = case
    strict = ["--threshold", "0.99"]
    assert evaluated(capsys, source, "--pairs", truth, *strict)[0] == 0
    assert evaluated(capsys, source, "--pairs", truth, *strict, "--min-recall", "0.9")[0] == 1


@pytest.mark.slow
def test_the_table_is_for_people(case, capsys):
    source, truth = case
    assert main(["evaluate", str(source), "--pairs", str(truth), "--threshold", "0.99"]) == 0
    said = capsys.readouterr().out
    assert "conservation   ok  (301 records, each in exactly one place)" in said
    assert "missed" in said
    assert "0.9 to 1.0" in said


@pytest.mark.parametrize(
    ("line", "trouble"),
    [("a b 0.9", "1 column instead"), ("a\tb", "2 columns instead"), ("a\ta\t0.9", "with itself"),
     ("a\tb\tmuch", "no number"), ("a\tb\t1.5", "must be 0 to 1"), ("a\tb\tnan", "must be 0 to 1")],
)  # fmt: skip
def test_a_malformed_truth_is_refused_with_its_line(desk, line, trouble, capsys):
    truth = desk.path / "truth.tsv"
    truth.write_text(f"a\tb\t0.9\n{line}\n")
    source = write(desk.path / "in", lines_of(stories(2)))
    assert main(["evaluate", str(source), "--pairs", str(truth)]) == 65
    said = capsys.readouterr().err
    assert f"{truth}, line 2" in said
    assert trouble in said


def test_outputs_that_are_none_are_refused_with_their_line(desk, case, capsys):
    source, truth = case
    arguments = [str(source), "--pairs", str(truth), "--unique", str(source)]
    assert main(["evaluate", *arguments, "--duplicates", str(source)]) == 65
    assert f"{source}, line 1: no envelope" in capsys.readouterr().err


@cases(
    "arguments",
    [[], ["in", "--unique", "u"], ["in", "--dead-letter", "d"], ["-"], ["in", "--topics"]],
)
def test_a_question_without_sense_is_a_usage_error(arguments: list[str]) -> None:
    assert main(["evaluate", "--pairs", "truth", *arguments]) == 64


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "kind", "shingle"),
    [("pypa_advisories", "word3", "word:3"), ("reuters21578", "word3", "word:3"),
     ("tang_poems_zh", "char3", "char:3")],
)  # fmt: skip
def test_real_corpora_are_filtered_with_the_promised_recall_and_precision(
    name: str, kind: str, shingle: str, capsys: pytest.CaptureFixture[str]
) -> None:
    source, truth = DATA / f"{name}.jsonl.gz", DATA / f"{name}.{kind}.tsv.gz"
    if not source.exists():
        pytest.skip(f"the corpus {name} is not beside the project (../shared/data)")
    code, report = evaluated(
        capsys, source, "--pairs", truth, "--shingle", shingle,
        "--min-recall", "0.995", "--min-precision", "0.995",
    )  # fmt: skip
    assert code == 0, report
    assert report["recall"]["of"] > 400
