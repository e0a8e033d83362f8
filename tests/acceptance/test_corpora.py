"""Real text through real Kafka, judged against exact truth; and files against topics.

What is shipped anyway (`shipped.py`) is tried by everybody. The large corpora are tried by the long
run. They lie beside the checkout or are missed: a skip says what was not tried.
"""

import gzip
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from streamfilter.cli import main
from tests.acceptance.shipped import Shipped
from tests.support.stage import SEED_FILE, Stage
from tests.support.topics import Input

DATA = Path(__file__).parents[3] / "shared" / "data"
LARGE = {
    "reuters21578": "21,578 news of an agency",
    "tang_poems_zh": "Chinese poems, by characters",
    "kafka_commits": "88,994 short messages",
}
PRECISION = 0.995
SAME = 9_000
"""Records that files and topics are compared on."""


@dataclass(frozen=True, slots=True)
class Corpus:
    """Records, which of them are similar, and what must be found of them."""

    lines: list[bytes]
    truth: Path
    near: int
    """Documents at least that have an original, in four partitions."""
    recall: float = 0.99


@pytest.fixture
def corpus(request: pytest.FixtureRequest, tmp_path: Path) -> Corpus:
    """Return the corpus of a name, such as "reuters21578.word3"."""
    name, _, shingles = request.param.partition(".")
    if name == "shipped":
        here: Shipped = request.getfixturevalue("of_everybody")
        truth = tmp_path / "truth.tsv.gz"
        truth.write_bytes(gzip.compress(here.truth.encode()))
        # So few documents with an original that each weighs .004, and others on another Python.
        return Corpus(here.lines, truth, near=200, recall=0.98)
    lines = DATA / f"{name}.jsonl.gz"
    if not lines.exists():
        pytest.skip(f"{lines.name} is not beside this checkout: not tried on {LARGE[name]}")
    with gzip.open(lines) as file:
        return Corpus(file.read().splitlines(), DATA / f"{name}.{shingles}.tsv.gz", near=500)


def large(*values: object) -> object:
    """Return a parameter of the long run."""
    return pytest.param(*values, marks=pytest.mark.long)


def settings(kind: str, size: int, *, partitions: int) -> dict[str, Any]:
    return {
        "similarity": {"shingle": {"kind": kind, "size": size}},
        "batch": {"documents": 2_000 if partitions > 1 else 700},
    }


def run_to_the_end(stage: Stage, lines: list[bytes], partitions: int, **sections: Any) -> Path:
    stage.produce(Input(line, partition=row % partitions) for row, line in enumerate(lines))
    stage.run(**sections)
    return stage.configuration(**sections)


@pytest.mark.slow
@pytest.mark.parametrize("corpus", ["shipped.word3"], indirect=True)
def test_a_file_of_real_text_is_filtered_rightly(corpus, tmp_path, capsys):
    source = tmp_path / "texts.jsonl"
    source.write_bytes(b"\n".join(corpus.lines) + b"\n")
    assert_right(corpus, capsys, str(source))


@pytest.mark.parametrize(
    ("corpus", "kind", "size"),
    [large("reuters21578.word3", "word", 3),
     large("tang_poems_zh.char3", "char", 3), large("kafka_commits.word3", "word", 3)],
    indirect=["corpus"],
)  # fmt: skip
def test_a_corpus_in_four_partitions_is_filtered_rightly(make_stage, capsys, corpus, kind, size):
    stage = make_stage(partitions=4)
    config = run_to_the_end(stage, corpus.lines, 4, **settings(kind, size, partitions=4))
    assert_right(corpus, capsys, "--topics", "--config", str(config))


def assert_right(corpus: Corpus, capsys: pytest.CaptureFixture[str], *of: str) -> None:
    """Let `evaluate` hold a run to the truth."""
    capsys.readouterr()
    code = main(
        ["evaluate", *of, "--pairs", str(corpus.truth), "-o", "json",
         "--min-recall", str(corpus.recall), "--min-precision", str(PRECISION)]
    )  # fmt: skip
    report = json.loads(capsys.readouterr().out)
    assert code == 0, report
    assert report["sound"]
    assert report["records"] == len(corpus.lines)
    assert report["recall"]["of"] > corpus.near


@pytest.mark.parametrize("corpus", ["shipped.word3", large("reuters21578.word3")], indirect=True)
def test_files_and_one_partition_give_the_same_verdicts(stage, tmp_path, corpus):
    lines = corpus.lines[:SAME]
    sections = settings("word", 3, partitions=1)
    run_to_the_end(stage, lines, 1, **sections)
    withheld = stage.outputs()["duplicates"]
    source = tmp_path / "texts.jsonl"
    source.write_bytes(b"\n".join(lines) + b"\n")
    seed = tmp_path / "seed"
    seed.write_bytes(SEED_FILE)
    unique, duplicates = tmp_path / "unique", tmp_path / "duplicates"
    code = main(
        ["filter", str(source), "--unique", str(unique), "--duplicates", str(duplicates),
         "--set", f"index.seed_file={seed}"]
    )  # fmt: skip
    assert code == 0
    names = ("id", "verdict", "match.id", "match.similarity", "canonical.id", "scheme")
    prefix = "__streamfilter."
    topics = [
        [dict(record.headers)[prefix + name].decode() for name in names] for record in withheld
    ]
    files = [
        [e["id"], e["verdict"], e["matches"][0]["id"], str(e["matches"][0]["similarity"]),
         e["canonical_id"], e["scheme"]]
        for e in map(json.loads, duplicates.read_bytes().splitlines())
    ]  # fmt: skip
    assert len(files) > 100
    assert topics == files
    forwarded = [record.value for record in stage.outputs()["unique"]]
    assert forwarded == unique.read_bytes().splitlines()
