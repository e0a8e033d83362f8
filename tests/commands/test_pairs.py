"""``pairs``: discovery over a file, by the truth of plain sets."""

import csv
import gzip
import io
import json
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from streamfilter.cli import main


def run(capsys, *arguments):
    code = main(arguments)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def stories(seed):
    """Texts with edits of edits: chains that drift away from their beginning."""
    rng, texts = random.Random(seed), []
    for number in range(300):
        words = [f"w{rng.randrange(5000)}" for _ in range(40)]
        if texts and rng.random() < 0.5:
            words = rng.choice(texts)[1].split()
            for _ in range(rng.randint(0, 2)):
                words[rng.randrange(40)] = f"w{rng.randrange(5000)}"
        texts.append((f"s{number}", " ".join(words)))
    return texts


def shingles(text):
    words = text.split()
    return {tuple(words[i : i + 2]) for i in range(len(words) - 1)}


def write(path, documents):
    lines = [json.dumps({"id": id_, "text": text}) for id_, text in documents]
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def test_pairs_are_those_of_plain_sets_and_clusters_are_stars(capsys, tmp_path):
    texts = stories(5)
    code, out, err = run(
        capsys, "pairs", write(tmp_path / "in.jsonl", texts), "--shingle", "word:2", "-o", "json"
    )
    assert code == 0, err
    found = json.loads(out)
    sets = {id_: shingles(text) for id_, text in texts}
    true = {
        (id_, other): len(sets[id_] & sets[other]) / len(sets[id_] | sets[other])
        for place, (id_, _) in enumerate(texts)
        for other, _ in texts[:place]
    }
    similar = {pair for pair, similarity in true.items() if similarity >= 0.8}
    pairs = {(each["id"], each["other"]): each["similarity"] for each in found["pairs"]}
    assert pairs.keys() <= similar
    assert len(pairs) >= 0.97 * len(similar) > 100
    assert all(similarity == pytest.approx(true[pair]) for pair, similarity in pairs.items())
    members = [member for cluster in found["clusters"] for member in cluster["members"]]
    centres = {cluster["centre"] for cluster in found["clusters"]}
    assert len(members) == len(set(members))
    assert not centres & set(members)
    for cluster in found["clusters"]:
        assert all((member, cluster["centre"]) in pairs for member in cluster["members"])
    # None could have joined a star and did not.
    assert not [pair for pair in pairs if pair[1] in centres and pair[0] not in members]


def test_components_are_all_that_hangs_together_and_a_file_behind_clusters_is_a_file(
    capsys, tmp_path
):
    path = write(tmp_path / "in.jsonl", stories(5))
    asked = ("--shingle", "word:2", "-o", "json")
    code, out, err = run(capsys, "pairs", "--clusters", "components", path, *asked)
    assert code == 0, err
    found = json.loads(out)
    component = {}
    for pair in found["pairs"]:  # the plain way: every pair joins two sets
        joined = component.get(pair["id"], {pair["id"]}) | component.get(
            pair["other"], {pair["other"]}
        )
        component |= dict.fromkeys(joined, joined)
    expected = {frozenset(each) for each in component.values()}
    clusters = [{each["centre"], *each["members"]} for each in found["clusters"]]
    assert set(map(frozenset, clusters)) == expected
    assert len(clusters) == len(expected)
    numbers = [[int(id_[1:]) for id_ in (c["centre"], *c["members"])] for c in found["clusters"]]
    assert numbers == sorted(map(sorted, numbers)), "not in the order of the input"
    code, out, err = run(capsys, "pairs", "--clusters", path, "--shingle", "word:2")
    assert code == 0, err
    stars = [line.split("\t") for line in out.splitlines()]
    assert len(stars) > len(clusters), "a chain is several stars"
    assert run(capsys, "pairs", path, "--clusters=rings")[0] == 64


READERS = {
    "of.tsv.csv": lambda path: [*csv.DictReader(path.open(newline=""))],
    "p.csv": lambda path: [*csv.DictReader(path.open(newline=""))],
    "p.tsv": lambda path: [*csv.DictReader(path.open(newline=""), delimiter="\t")],
    "p.csv.gz": lambda path: [
        *csv.DictReader(io.StringIO(gzip.decompress(path.read_bytes()).decode(), newline=""))
    ],
    "p.jsonl": lambda path: [json.loads(line) for line in path.read_text().splitlines()],
    "p.parquet": lambda path: pq.read_table(path).to_pylist(),
}


@pytest.mark.parametrize("name", READERS)
def test_a_table_has_a_row_for_each_pair_or_for_each_document_in_a_cluster(capsys, tmp_path, name):
    texts = [*stories(5), *stories(6)]
    texts[:300] = [(f'{id_},"\r\x00\n\té', text) for id_, text in texts[:300]]
    path, table = write(tmp_path / "in.jsonl", texts), tmp_path / name
    found = json.loads(run(capsys, "pairs", path, "-o", "json")[1])
    code, out, err = run(capsys, "pairs", path, "-o", str(table))
    assert (code, out) == (0, "")
    assert "600 documents: " in err
    rows = READERS[name](table)
    assert [*rows[0]] == ["id", "other", "similarity", "same_text", "same_field"]
    typed = [
        each | {"similarity": float(each["similarity"]), "same_text": str(each["same_text"])}
        for each in rows
    ]
    expected = [{"same_field": ""} | e | {"same_text": str(e["same_text"])} for e in found["pairs"]]
    assert typed == expected
    assert run(capsys, "pairs", path, "--clusters", "-o", str(table))[0] == 0
    assert [(each["centre"], each["id"]) for each in READERS[name](table)] == [
        (each["centre"], id_)
        for each in found["clusters"]
        for id_ in (each["centre"], *each["members"])
    ]


def test_a_table_without_a_pair_has_its_columns_and_a_failed_run_leaves_the_table_alone(
    capsys, tmp_path
):
    path, table = write(tmp_path / "in.jsonl", [("a", "one text alone")]), tmp_path / "p.parquet"
    assert run(capsys, "pairs", path, "-o", str(table))[0] == 0
    assert pq.read_table(table).schema.field("similarity").type == pa.float64()
    before = table.read_bytes()
    (tmp_path / "broken.jsonl").write_text("no record\n")
    broken = ["pairs", str(tmp_path / "broken.jsonl")]
    assert run(capsys, *broken, "-o", str(table))[0] == 65
    assert {each.name for each in tmp_path.iterdir()} == {"in.jsonl", "p.parquet", "broken.jsonl"}
    assert table.read_bytes() == before


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("pairs.xlsx", "use text or json, or a file named .csv, .tsv, .parquet or .jsonl"),
        ("pairs.avro", "use text or json, or a file named"),
        ("", "use text or json, or a file named"),
        ("none/pairs.csv", "cannot write"),
        ("in.jsonl", "is given twice"),
    ],
)
def test_a_table_that_cannot_be_written_is_refused_before_any_work(
    capsys, tmp_path, monkeypatch, name, said
):
    write(tmp_path / "in.jsonl", stories(5))
    monkeypatch.chdir(tmp_path)
    code, out, err = run(capsys, "pairs", "in.jsonl", "-o", name)
    assert (code, out) == (64, "")
    assert said in err
    assert [each.name for each in tmp_path.iterdir()] == ["in.jsonl"]


def test_one_id_may_come_twice_and_the_lines_are_a_truth_file(capsys, tmp_path):
    text = "the same eleven words stand here twice under one single id"
    path = write(tmp_path / "in.jsonl", [("a", text), ("a", text), ("b", ""), ("c", "")])
    assert run(capsys, "pairs", path)[1] == "a\ta\t1.000000\n"
    assert run(capsys, "pairs", path, "--clusters")[1] == "a\ta\n"


def test_a_file_that_is_not_json_lines_is_one_error_with_the_cure(capsys, tmp_path):
    (tmp_path / "in.log").write_text("id,text\n1,hello\n")
    code, out, err = run(capsys, "pairs", str(tmp_path / "in.log"))
    assert (code, out) == (65, "")
    assert "line 1: invalid_json" in err
    assert "cure: each line is a JSON object" in err
    assert run(capsys, "pairs", str(tmp_path / "none"))[0] == 64


def test_broken_lines_are_set_aside_with_what_was_wrong(capsys, tmp_path):
    text = "the same eleven words stand here twice under one single id"
    path = Path(write(tmp_path / "in.jsonl", [("a", text), ("b", text)]))
    path.write_text("{broken\n" + path.read_text() + '{"id": "c"}\n')
    dead = tmp_path / "dead.jsonl"
    code, out, err = run(capsys, "pairs", str(path), "--dead-letter", str(dead))
    assert (code, out) == (0, "a\tb\t1.000000\n")
    assert "2 broken lines set aside" in err
    letters = [json.loads(line) for line in dead.read_text().splitlines()]
    assert [each["error"]["code"] for each in letters] == ["invalid_json", "missing_text"]
    assert [each["source"]["offset"] for each in letters] == [1, 4]
    assert run(capsys, "pairs", str(path), "--dead-letter", str(path))[0] == 64


def test_the_same_file_gives_the_same_pairs_and_another_seed_others(capsys, tmp_path):
    path = write(tmp_path / "in.jsonl", stories(7))
    # Eight rows at a low threshold: which pairs meet is a matter of the hashes.
    shape = ["--threshold", "0.5", "--set", "similarity.bands=8", "--set", "similarity.rows=6"]
    shape += ["--set", "similarity.recall=0.1"]
    found = {n: run(capsys, "pairs", path, *shape, "--seed", n)[1] for n in ("0", "1")}
    assert run(capsys, "pairs", path, *shape)[1] == found["0"] != found["1"]
    secret = tmp_path / "secret"
    secret.write_bytes(b"sixteen bytes and more of a secret")
    by_file = [*shape, "--set", f"index.seed_file={secret}"]
    assert run(capsys, "pairs", path, *by_file)[1] == run(capsys, "pairs", path, *by_file)[1]
    assert run(capsys, "pairs", path, *by_file)[1] not in found.values()


@pytest.mark.parametrize(("short", "expected"), [("forward", 0), ("exact_only", 1)])
def test_equal_short_texts_are_a_pair_where_the_filter_withholds_one(
    capsys, tmp_path, short, expected
):
    path, setting = write(tmp_path / "in.jsonl", [("a", "wip"), ("b", "wip")]), "input.short_text="
    found = json.loads(run(capsys, "pairs", path, "-s", setting + short, "-o", "json")[1])
    assert len(found["pairs"]) == expected
    outputs = ["--unique", str(tmp_path / "u"), "--duplicates", str(tmp_path / "d")]
    assert run(capsys, "filter", path, *outputs, "-s", setting + short)[0] == 0
    assert len((tmp_path / "d").read_text().splitlines()) == expected


@pytest.mark.parametrize("kind", ["stars", "components"])
def test_the_pairs_of_an_index_are_those_of_a_file_with_what_it_forwarded(capsys, tmp_path, kind):
    """At a lower threshold than the index's own, for at its own nearly all were withheld."""
    path = write(tmp_path / "in.jsonl", stories(5))
    state, unique = str(tmp_path / "state"), str(tmp_path / "unique")
    lenient = ["--set", "similarity.bands=32", "--set", "similarity.rows=4"]
    made = ["filter", path, "--unique", unique, "--duplicates", str(tmp_path / "again"),
            "--state", state, "--threshold", "0.95", *lenient]  # fmt: skip
    assert run(capsys, *made)[0] == 0
    more = ["--threshold", "0.7", "--clusters", kind, "-o", "json"]
    code, out, err = run(capsys, "pairs", "--state", state, *more)
    assert code == 0, err
    found, of_files = json.loads(out), json.loads(run(capsys, "pairs", unique, *more, *lenient)[1])
    key = {"key": lambda each: (each["id"], each["other"])}
    assert sorted(found["pairs"], **key) == sorted(of_files["pairs"], **key)
    assert len(found["pairs"]) > 50
    assert found["clusters"] == of_files["clusters"]
    assert found["documents"] == of_files["documents"]
    for wrong in ([path, "--state", state], [], ["--state", state, "--shingle", "word:2"],
                  ["--state", state, "--threshold", "2"]):  # fmt: skip
        assert run(capsys, "pairs", *wrong)[0] == 64
    assert run(capsys, "pairs", "--state", str(tmp_path / "nothing"))[0] == 78
