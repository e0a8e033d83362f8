"""Real text through real Kafka, judged against exact truth; and files against topics."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from streamfilter.cli import main
from tests.support.stage import SEED, Stage
from tests.support.topics import Input

DATA = Path(__file__).parents[3] / "shared" / "data"
RECALL, PRECISION = 0.99, 0.995

pytestmark = pytest.mark.skipif(
    not DATA.is_dir(), reason="the corpora with exact truth are not beside this checkout"
)


def lines_of(corpus: str, count: int | None = None) -> list[bytes]:
    with gzip.open(DATA / f"{corpus}.jsonl.gz") as file:
        return file.read().splitlines()[:count]


def settings(kind: str, size: int, *, partitions: int) -> dict[str, Any]:
    return {
        "similarity": {"shingle": {"kind": kind, "size": size}},
        "batch": {"documents": 2_000 if partitions > 1 else 700},
    }


def run_to_the_end(stage: Stage, lines: list[bytes], partitions: int, **sections: Any) -> Path:
    stage.produce(Input(line, partition=row % partitions) for row, line in enumerate(lines))
    process = stage.start(**sections)
    stage.drain(process)
    assert process.terminate() == 0
    return stage.configuration(**sections)


@pytest.mark.parametrize(
    ("corpus", "kind", "size", "count"),
    [
        ("reuters21578", "word", 3, None),
        ("tang_poems_zh", "char", 3, None),
        ("kafka_commits", "word", 3, None),
    ],
)
def test_a_corpus_in_four_partitions_is_filtered_rightly(
    make_stage: Callable[..., Stage], capsys: Any, corpus: str, kind: str, size: int, count: int
) -> None:
    stage, lines = make_stage(partitions=4), lines_of(corpus, count)
    config = run_to_the_end(stage, lines, 4, **settings(kind, size, partitions=4))
    truth = DATA / f"{corpus}.{kind}{size}.tsv.gz"
    code = main(
        ["evaluate", "--topics", "--pairs", str(truth), "--config", str(config), "-o", "json",
         "--min-recall", str(RECALL), "--min-precision", str(PRECISION)]
    )  # fmt: skip
    report = json.loads(capsys.readouterr().out)
    assert code == 0, report
    assert report["sound"]
    assert report["records"] == len(lines)
    assert report["recall"]["of"] > 500


def test_files_and_one_partition_give_the_same_verdicts(stage: Stage, tmp_path: Path) -> None:
    lines = lines_of("reuters21578", 6_000)
    sections = settings("word", 3, partitions=1)
    run_to_the_end(stage, lines, 1, **sections)
    withheld = stage.outputs()["duplicates"]
    source = tmp_path / "reuters.jsonl"
    source.write_bytes(b"\n".join(lines) + b"\n")
    seed = tmp_path / "seed"
    seed.write_bytes(SEED)
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
