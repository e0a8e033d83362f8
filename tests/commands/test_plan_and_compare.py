"""``plan`` and ``explain A B``: the numbers of the theory, from the command line."""

import itertools
import json
import random
import re
import sys
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from streamfilter.assembly import memory_for
from streamfilter.cli import main
from streamfilter.config.configuration import Config
from streamfilter.index.format import encode_documents
from streamfilter.index.rocks.options import MIB, RECENT_BYTES, Memory
from streamfilter.monitoring import capacity
from streamfilter.preflight import load
from streamfilter.similarity.statistics.shape import Shape
from tests.bench.indexing import COLUMNS, TOKENS, documents_of
from tests.support.cases import cases
from tests.support.values import replace

RUNS = Path(__file__).parents[1] / "bench_runs"
PATH = "{http://www.w3.org/2000/svg}path"


def run(capsys, *arguments):
    code = main(arguments)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def run_json(capsys, *arguments):
    code, out, err = run(capsys, *arguments, "-o", "json")
    assert code == 0, err
    return json.loads(out)


@pytest.mark.parametrize("command", [["plan"], ["evaluate", "in.jsonl"]])
def test_a_picture_that_cannot_be_drawn_is_refused_before_anything_is_done(
    command, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    assert main([*command, "--plot", "curve.jpg"]) == 64
    assert "ends in .svg, .png, .pdf; name it curve.svg" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert main([*command, "--plot", "curve.png"]) == 64
    error = capsys.readouterr().err
    assert "--plot needs matplotlib, which is not installed" in error
    assert "cure: pip install 'streamfilter[plot]'" in error
    assert list(tmp_path.iterdir()) == []


def test_the_default_plan_is_16_by_6(capsys):
    plan = run_json(capsys, "plan")
    assert (plan["bands"], plan["rows"], plan["slots"], plan["threshold"]) == (16, 6, 128, 0.8)
    assert plan["recall_at_threshold"] == pytest.approx(0.9923, abs=1e-4)
    assert [point["similarity"] for point in plan["curve"]] == [
        round(i * 0.05, 2) for i in range(21)
    ]
    assert plan["curve"][0]["candidate_probability"] == 0
    assert plan["curve"][-1]["candidate_probability"] == 1


def test_plan_refuses_a_shape_that_misses_the_wanted_recall(capsys):
    code, _, err = run(capsys, "plan", "--bands", "9", "--rows", "13", "--recall", "0.99")
    assert code == 78
    assert "9 x 13 finds 0.3988 of the pairs at 0.8, wanted 0.99\n" in err
    assert "cure: 16 x 6 finds 0.9923" in err


def test_plan_refuses_what_cannot_be(capsys):
    code, _, err = run(capsys, "plan", "--bands", "20", "--rows", "8")
    assert (code, "= 160 slots, but the signature has 128" in err) == (78, True)
    code, _, err = run(capsys, "plan", "--bands", "20")
    assert (code, "--bands and --rows belong together" in err) == (64, True)
    assert run(capsys, "plan", "--threshold", "1.5")[0] == 64
    code, _, err = run(capsys, "plan", "--threshold", "0.05", "--slots", "8")
    assert (code, "cannot reach recall" in err) == (78, True)


def test_plan_knows_random_keys(capsys):
    asked = ("--layout", "random", "--bands", "125", "--rows", "3")
    answer = run_json(capsys, "plan", *asked)
    assert (answer["bands"], answer["rows"], answer["layout"]) == (125, 3, "random")
    curve = {p["similarity"]: p["candidate_probability"] for p in answer["curve"]}
    assert curve[0.3] == pytest.approx(0.933, abs=5e-4)
    plain = run_json(capsys, "plan")
    assert plain["bytes_per_million_documents"] == pytest.approx(1.308e9, rel=0.01)
    assert answer["bytes_per_million_documents"] - plain["bytes_per_million_documents"] == (
        (125 - 16) * 26 * 1_000_000
    )
    assert plain["false_negatives"] == pytest.approx(0.0008, abs=1e-4)
    assert plain["false_positives"] == pytest.approx(0.2740, abs=1e-4)


def test_plan_says_what_it_assumes_of_similarities_or_counts_them_in_a_sample(capsys, tmp_path):
    answer = run_json(capsys, "plan")
    assert answer["assumed"] == "similarities spread evenly"
    assert answer["false_positives"] == pytest.approx(0.2740, abs=1e-4)
    assert "if they spread evenly; in most texts" in run(capsys, "plan")[1]
    rng = random.Random(2)
    texts = [[f"w{rng.randrange(400)}" for _ in range(60)] for _ in range(100)]
    texts += [[*text[:55], "x"] for text in texts[:30]]
    lines = [json.dumps({"id": str(i), "text": " ".join(text)}) for i, text in enumerate(texts)]
    (tmp_path / "in.jsonl").write_text("\n".join(lines))
    sampled = ("--sample", str(tmp_path / "in.jsonl"))
    answer = run_json(capsys, "plan", *sampled)
    # By hand: 30 pairs share 53 of 59 shingles, hardly any other shares one.
    assert (answer["assumed"], answer["sample"]["similar"]) == (None, 30)
    chance = 1 - (1 - (53 / 59) ** 6) ** 16
    assert answer["false_negatives"] == pytest.approx(1 - chance, abs=1e-6)
    assert answer["false_positives"] < 1e-9
    assert answer["sample"]["candidates"] == pytest.approx(30 * chance / 130, rel=1e-4)
    text = run(capsys, "plan", *sampled)[1]
    assert "sample of 130 documents: 30 pairs at the threshold" in text
    assert run(capsys, "plan", "--sample", str(tmp_path / "none"))[0] != 0


@cases(
    "option",
    ["plan --threshold", "plan --recall", "plan --rate", "evaluate --recall-from",
     "evaluate --precision-from", "evaluate --min-recall", "evaluate --min-precision",
     "query --threshold"],
)  # fmt: skip
def test_an_option_that_is_nan_is_refused(option, capsys):
    assert main([*option.split(), "nan"]) == 64
    assert "nan is no number" in capsys.readouterr().err


@pytest.mark.parametrize("named", ["lines", "json", "jsonl"])
def test_plan_reads_a_sample_as_the_other_verbs_read_files(capsys, tmp_path, named):
    rows = [json.dumps({"uuid": n, "body": "the old mill by the river"}) for n in range(9)]
    (tmp_path / "sample.txt").write_text("\n".join(rows))
    sample = ("--sample", str(tmp_path / "sample.txt"), "--format", named)
    answer = run_json(capsys, "plan", *sample, "--text", "/body", "--id", "/uuid")
    assert (answer["sample"]["documents"], answer["sample"]["similar"]) == (9, 36)
    file = str(tmp_path / "sample.txt")
    code, out, _ = run(capsys, "pairs", file, "--format", named, "--text", "/body", "--id", "none")
    assert (code, len(out.splitlines())) == (0, 36)


def test_plan_of_a_sample_without_texts_is_refused_and_broken_records_are_counted(capsys, tmp_path):
    sample = tmp_path / "in.jsonl"
    rows = [json.dumps({"uuid": n, "body": f"the old mill by the river {n}"}) for n in range(9)]
    sample.write_text("\n".join(rows))
    code, out, err = run(capsys, "plan", "--sample", str(sample))
    assert (code, out) == (65, "")
    assert "all 9 records are broken" in err
    sample.write_text("\n".join([*rows, json.dumps({"id": "a", "text": "one two three four"})]))
    code, out, _ = run(capsys, "plan", "--sample", str(sample))
    assert code == 0
    assert "sample of 1 document (9 records not readable): 0 pairs" in out
    assert "the missed share is unknown" in out
    sample.write_text("")
    code, out, err = run(capsys, "plan", "--sample", str(sample))
    assert (code, out) == (65, "")
    assert "holds no document with a text" in err


def test_plan_without_options_is_the_configured_shape(capsys):
    bands = ("--set", "similarity.bands=20", "--set", "similarity.rows=5")
    answer = run_json(capsys, "plan", *bands)
    assert (answer["bands"], answer["rows"]) == (20, 5)
    planned = run_json(capsys, "plan", "--recall", "0.9", *bands)
    assert (planned["bands"], planned["rows"]) != (20, 5)


def test_recent_keys_in_memory_are_tied_to_the_write_buffers():
    config = Config()
    assert memory_for(config) == Memory()
    for share in (1, 4, 16, 64):
        memory = memory_for(config, share=share)
        assert memory.run_keys * RECENT_BYTES < memory.memtable_bytes
    assert memory.run_keys == memory.memtable_bytes >> 7 < Memory().run_keys


def test_plan_says_how_large_a_memory_becomes(capsys):
    asked = ("--rate", "50", "--retention", "30d", "--documents", "200000000")
    answer = run_json(capsys, "plan", *asked)["memory"]
    assert answer["documents"] == 50 * 30 * 86_400  # fewer than the most
    assert answer["stored"] == answer["documents"] * 5 // 4
    each = run_json(capsys, "plan")["bytes_per_million_documents"] / 1_000_000
    assert answer["disk_bytes"] == answer["stored"] * each
    assert answer["changelog_bytes"] < answer["disk_bytes"]
    larger = run_json(capsys, "plan", "--documents", "200000000")["memory"]
    assert answer["memory_bytes"] == larger["memory_bytes"]  # all is bounded
    fewer = run_json(capsys, "plan", *asked[:4], "--documents", "8000000", "--shingles", "20",
                     "--set", "memory.miss_filter=256Mi")["memory"]  # fmt: skip
    assert fewer["stored"] == 10_000_000
    assert fewer["disk_bytes"] == 10_000_000 * (each - 150 * 4)
    filters = 2 * (768 - 256) << 20  # a merge of the largest runs makes as many again
    assert fewer["memory_bytes"] == answer["memory_bytes"] - filters
    small = run_json(capsys, "plan", *asked, "--set", "memory.memtable=32Mi")["memory"]
    # Beside its write buffers, an index with half of them holds half as many recent keys.
    saved = (32 << 20) + (1 << 18) * RECENT_BYTES
    assert small["memory_bytes"] == pytest.approx(answer["memory_bytes"] - saved, abs=1)
    assert fewer["restore"] == pytest.approx(10_000_000 / capacity.RESTORED_A_SECOND, abs=1)
    # 12 bits for each of 180 million keys; two for each of those of 162 million documents.
    assert answer["front_passes"] > 0.9 > 0.05 > fewer["front_passes"]
    text = run(capsys, "plan", *asked)[1]
    assert "set memory.miss_filter=5280Mi: as configured, 100% of the new" in text
    default = run_json(capsys, "plan", "--documents", "16000000")["memory"]  # 20 million are stored
    assert default["front_passes"] < 0.02
    enough = run_json(capsys, "plan", *asked, "--set", "memory.miss_filter=5280Mi")["memory"]
    assert enough["front_passes"] < 0.02
    assert "remembers 129,600,000 documents" in text
    assert "a quarter more are stored (twice as many for a while after a limit was r" in text
    assert "restore from it into an empty directory: about 112m" in text
    assert "remembers" not in run(capsys, "plan")[1]


@pytest.mark.parametrize(
    ("rate", "size", "step", "edges"),
    [
        (50, 1_024, "one process", 1),
        (20_000, 1_024, "edges and a judge", 2),
        (20_000, 10_240, "scopes", 3),
        (1e9, 1, "scopes", 50_000),
    ],
)
def test_plan_says_which_step_a_load_needs(capsys, rate, size, step, edges):
    asked = ("--rate", str(rate), "--size", str(size), "--documents", "1000000")
    answer = run_json(capsys, "plan", *asked)["load"]
    assert answer["step"] == step
    assert answer["edges"] >= edges
    assert answer["processes"] * load.FULL >= answer["cores"]
    assert answer["edges"] * load.FULL >= answer["edge_cores"]
    assert (answer["rate"] > answer["judge_max"]) is (step == "scopes")
    said = {"one process": "a standby", "edges and a judge": "two judges", "scopes": "one index c"}
    assert said[step] in run(capsys, "plan", *asked)[1].partition("needed: ")[2]


def test_costs_are_those_that_were_measured_and_grow_with_the_size():
    saved = json.loads((RUNS / "cluster.json").read_text())["benchmarks"]["cluster"]["tables"]
    names = {"alone": "one process", "edge": "edge", "judge": "judge", "judging": "judging"}
    for row in saved["us a document"]:
        costs = load.costs_of(row["bytes"])
        assert costs == load.COSTS[row["bytes"]]
        for name, column in names.items():
            assert getattr(costs, name) == round(row[column]["median"]), (row["bytes"], name)
    sizes = [load.costs_of(size) for size in (1, 130, 500, 1_024, 3_400)]
    assert sizes[0] == sizes[1]
    assert all(a.edge <= b.edge and a.judge <= b.judge for a, b in itertools.pairwise(sizes))


def test_plan_refuses_a_memory_that_has_no_end_or_is_none(capsys):
    for asked, said in (
        (("--rate", "5"), "grows for ever"),
        (("--retention", "30d"), "--retention needs --rate"),
        (("--rate", "5", "--retention", "0"), "nothing would be remembered"),
        (("--rate", "5", "--retention", "30"), "expected a duration with its unit"),
        (("--documents", "0"), "--documents"),
        (("--size", "1024", "--documents", "5"), "--size needs --rate"),
        (("--rate", "inf", "--documents", "5"), "--rate"),
        (("--documents", "9" * 30), "--documents"),
        (("--documents", "5", "--shingles", "9" * 30), "--shingles"),
        (("--rate", "1e9", "--retention", "999999d"), "documents come in that time"),
        (("--rate", "1e-5", "--retention", "1s"), "0 documents come in that time"),
    ):
        code, _, err = run(capsys, "plan", *asked)
        assert (code, said in err) == (64, True), asked


def test_what_plan_takes_for_measured_is_what_was_measured():
    """The saved runs, and the bytes themselves."""
    index = json.loads((RUNS / "index.json").read_text())["benchmarks"]["index"]
    (rows,) = index["tables"].values()
    memory = replace(Memory(), front_bytes=index["settings"].get("miss filter, MiB", 192) << 20)
    for row in rows:
        size, keys = row["documents"] * row["disk B/doc"], row["documents"] * COLUMNS
        planned = capacity.resident_bytes(keys, size, memory) / MIB
        assert planned == pytest.approx(row["peak MiB"], rel=0.15, abs=60)
    restore = json.loads((RUNS / "restore.json").read_text())["benchmarks"]["restore"]["tables"]
    restored = restore["a restore"][0]
    rate = restored["documents"] / restored["changelog"]["median"]
    assert pytest.approx(rate, rel=0.01) == capacity.RESTORED_A_SECOND
    shape = Shape(16, 6)
    (record,) = encode_documents(documents_of(0).at(np.zeros(1, np.intp)))
    assert shape.record_bytes(shingles=TOKENS, id_bytes=len("document-0000000000")) == len(record)
    disk = [row["disk B/doc"] for row in rows if row["documents"] >= 1_000_000]
    answer = shape.bytes_per_document(shingles=TOKENS, id_bytes=19)
    assert min(disk) == pytest.approx(answer, rel=0.05)
    assert max(disk) == pytest.approx(answer, rel=0.12)  # with files that wait to be merged


def test_compare_takes_stop_word_shingles(capsys):
    one = "I recommend that you buy Sudzo for your laundry."
    found = run_json(capsys, "explain", one, "Buy Sudzo", "--shingle", "stopword:2")
    # Four begin at a stop word; so few take hardly any of the other three runs away.
    assert (found["shingles"], found["jaccard"]) == ([7, 0], 0.0)


def test_plan_draws_the_curve(capsys):
    code, out, _ = run(capsys, "plan")
    assert code == 0
    assert "16 bands x 6 rows" in out
    assert next(line for line in out.splitlines() if "<- threshold" in line).split()[0] == "0.80"


@pytest.mark.slow
def test_plan_draws_the_curve_into_a_file_the_same_each_time(capsys, tmp_path):
    paths = [tmp_path / "one.svg", tmp_path / "other.svg"]
    for path in paths:
        assert run(capsys, "plan", "--plot", str(path))[0] == 0
    assert paths[0].read_bytes() == paths[1].read_bytes()
    paths_drawn = [each.get("d", "") for each in ElementTree.parse(paths[0]).iter(PATH)]
    straight = [
        each.split() for each in paths_drawn if set(re.findall("[A-Za-z]", each)) <= {*"ML"}
    ]
    heights = [float(y) for y in max(straight, key=len)[2::3]]  # M x y L x y L x y ...
    assert len(heights) > 20
    assert heights == sorted(heights, reverse=True)  # it only rises, and y counts downwards
    code, _, err = run(capsys, "plan", "--plot", str(tmp_path / "none" / "x.svg"))
    assert (code, "cannot write" in err) == (64, True)


@pytest.mark.parametrize(("k", "answer"), [(2, 0.8095), (3, 0.75), (4, 0.6923), (5, 0.6154)])
def test_compare_gives_the_known_answers_on_raw_text(capsys, k, answer):
    one, other = "The cat sat on the mat.", "The red cat sat on the mat."
    found = run_json(capsys, "explain", one, other, "--shingle", f"char:{k}", "--raw")
    assert found["jaccard"] == pytest.approx(answer, abs=5e-5)
    low, high = found["interval"]
    assert 0 <= low <= found["estimate"] <= high <= 1
    assert found["containment"] >= found["jaccard"]


def test_compare_reads_files_and_normalises(capsys, tmp_path):
    text = tmp_path / "a.txt"
    text.write_text("Straße nach\n  Rom und zurück")
    found = run_json(capsys, "explain", f"@{text}", "STRASSE NACH ROM UND ZURÜCK")
    assert (found["jaccard"], found["shared_bands"], found["equal_text"]) == (1.0, 16, True)
    assert found["shingles"] == [3, 3]


def test_compare_says_what_is_wrong(capsys):
    code, _, err = run(capsys, "explain", "@/no/such/file", "x")
    assert (code, "/no/such/file" in err) == (64, True)
    code, _, err = run(capsys, "explain", "a", "b", "--shingle", "word:0")
    assert (code, "write word:3 or char:5" in err) == (64, True)


def test_texts_shorter_than_a_shingle_share_nothing(capsys):
    found = run_json(capsys, "explain", "hello", "hello there")
    assert (found["jaccard"], found["shared_bands"], found["shingles"]) == (0.0, 0, [0, 0])


def test_compare_has_the_keys_of_the_configured_seed(capsys, tmp_path):
    """By other keys than the filter's it said of a pair that it never meets."""
    secret, words = tmp_path / "seed", [f"w{i}" for i in range(60)]
    secret.write_bytes(bytes(range(32)))
    one, other = " ".join(words), " ".join([*words[:48], "x", *words[49:]])
    usual = run_json(capsys, "explain", one, other)
    seeded = run_json(capsys, "explain", one, other, "-s", f"index.seed_file={secret}")
    assert seeded["jaccard"] == usual["jaccard"]
    assert (seeded["estimate"], seeded["bands"]) != (usual["estimate"], usual["bands"])
