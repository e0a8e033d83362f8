"""``query`` and ``explain``: a look into an index, also while its owner writes it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from streamfilter.cli import main
from streamfilter.index.directory.read_only_view import viewed

STORY = "the quick brown fox jumps over a lazy dog near the quiet river as the sun sets"
FIRST = " ".join(f"{word}{i % 3}" for i in range(3) for word in STORY.split())
SECOND = FIRST.replace("sets2", "rises")
OTHER = "an entirely different story about markets and prices in the harbour of a northern town"


def run(capsys, *arguments):
    code = main(arguments)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def ask(capsys, *arguments):
    code, out, err = run(capsys, *arguments, "-o", "json")
    assert code == 0, err
    return json.loads(out)


@pytest.fixture
def state(tmp_path, capsys):
    """A state directory that `filter` left: a and c are in it, b was withheld, d is too short."""
    texts = {"a": FIRST, "b": SECOND, "c": OTHER, "d": "hi"}
    lines = [json.dumps({"id": id_, "text": text}) for id_, text in texts.items()]
    (tmp_path / "in.jsonl").write_text("\n".join(lines) + "\n")
    out = [f"--{name}={tmp_path / name}" for name in ("unique", "duplicates", "state")]
    assert main(["filter", str(tmp_path / "in.jsonl"), *out]) == 0
    capsys.readouterr()
    return tmp_path / "state"


def test_a_text_finds_its_near_duplicate_and_where_it_stands(capsys, state):
    found = ask(capsys, "query", "--state", str(state), SECOND)
    (match,) = found["matches"]
    assert (match["id"], match["fate"], match["exact"]) == ("a", "match", True)
    assert match["source"] == {"path": str(state.parent / "in.jsonl"), "line": 1}
    assert 0.8 <= match["similarity"] < 1
    assert found["documents"] == 2
    (same,) = ask(capsys, "query", "--state", str(state), FIRST.upper())["matches"]
    assert (same["fate"], same["similarity"]) == ("same_text", 1.0)


def test_a_stored_document_is_not_its_own_duplicate(capsys, state):
    assert ask(capsys, "query", "--state", str(state), "--id", "a")["matches"] == []


def test_a_short_text_finds_nothing(capsys, state):
    assert ask(capsys, "query", "--state", str(state), "hi")["candidates"] == 0
    assert ask(capsys, "explain", "--state", str(state), "hi")["verdict"] == "passthrough"


def test_explain_names_bands_candidates_and_the_comparison_that_decided(capsys, state):
    told = ask(capsys, "explain", "--state", str(state), SECOND, "--against", "c")
    (step,) = told["candidates"]
    assert (step["id"], step["confirmed"]) == ("a", True)
    assert [bucket["band"] for bucket in told["buckets_hit"]] == step["bands"]
    assert told["verdict"] == "near_duplicate"
    assert "reaches the threshold 0.8" in step["why"]
    assert (told["against"]["id"], told["against"]["bands"]) == ("c", [])
    assert "share no key" in told["against"]["why"]
    strict = ask(capsys, "explain", "--state", str(state), SECOND, "--threshold", "0.99")
    assert (strict["verdict"], strict["candidates"][0]["confirmed"]) == ("unique", False)
    assert run(capsys, "explain", "--state", str(state), SECOND)[1].count("band") >= 2


def test_a_query_and_an_explanation_name_the_oldest_document_with_the_same_field(capsys, tmp_path):
    rows = [("a", OTHER, "u"), ("b", FIRST, "v"), ("c", STORY, "u2")]
    lines = [json.dumps({"id": id_, "text": text, "url": url}) for id_, text, url in rows]
    (tmp_path / "in.jsonl").write_text("\n".join(lines) + "\n")
    out = [f"--{name}={tmp_path / name}" for name in ("unique", "duplicates", "state")]
    given = ("--set", "verify.also_same=[/url]")
    assert main(["filter", str(tmp_path / "in.jsonl"), *out, *given]) == 0
    capsys.readouterr()
    asked = ("--state", str(tmp_path / "state"), SECOND, "--field", "/url=u")
    told = ask(capsys, "explain", *asked)
    assert (told["verdict"], [each["id"] for each in told["candidates"]]) == (
        "exact_duplicate", ["a"]
    )  # fmt: skip
    matches = ask(capsys, "query", *asked)["matches"]
    assert [(each["id"], each["fate"]) for each in matches] == [("a", "same_field"), ("b", "match")]
    for field in ("/title=u", "/url"):
        code, _, said = run(capsys, "query", *asked[:3], "--field", field)
        assert (code, "write POINTER=VALUE, with one of /url" in said) == (64, True)


def test_what_is_not_there_is_refused_with_the_cure(capsys, state, tmp_path):
    for arguments, code, words in [
        (["query", "--state", str(state), "--id", "b"], 64, "no document has the id 'b'"),
        (["explain", "--state", str(state), "x", "--against", "zz"], 64, "the id 'zz'"),
        (["query", "--state", str(tmp_path / "none"), "x"], 78, "there is no index here"),
        (["query", "--state", str(state)], 64, "give a TEXT"),
        (["query", "--state", str(state), "x", "--id", "a"], 64, "give a TEXT"),
    ]:
        assert (run(capsys, *arguments)[0], words in run(capsys, *arguments)[2]) == (code, True)


OWNER = """
import sys
from pathlib import Path
from tests.index.samples import add, identity, keys_of
from streamfilter.index.directory.opening import open_index
index, batch = open_index(Path(sys.argv[1]), identity()), 0
for line in sys.stdin:
    for batch in range(batch, batch + int(line)):
        ordinals = range(batch * 50, batch * 50 + 50)
        keys = keys_of([[(4 * i + j) << 40 for j in range(4)] for i in ordinals])
        add(index, list(ordinals), keys, next_batch=batch + 1)
    batch += 1
    print(len(index), flush=True)
index.close()
print("closed in order", flush=True)
"""


def test_a_view_sees_whole_batches_of_a_running_owner_and_disturbs_nothing(tmp_path):
    path = tmp_path / "state"
    with subprocess.Popen(
        [sys.executable, "-c", OWNER, str(path)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2],
    ) as owner:  # fmt: skip

        def write(batches):
            owner.stdin.write(f"{batches}\n")
            owner.stdin.flush()
            return int(owner.stdout.readline())

        written = write(3)
        for _ in range(3):
            with viewed(path) as view:
                documents = sum(len(chunk) for chunk in view.scan())
                assert documents == len(view) == written == view.progress.next_batch * 50
                before, written = written, write(40)
                # What it shows stays as it was, though the owner goes on.
                assert sum(len(chunk) for chunk in view.scan()) == before
        owner.stdin.close()
        assert owner.stdout.read() == "closed in order\n"
    assert owner.returncode == 0
    assert not list(path.glob("rocksdb/*follower*"))


def test_the_directory_is_that_of_the_configuration(capsys, state, tmp_path):
    (tmp_path / "one.yaml").write_text(json.dumps({"index": {"path": str(state)}}))
    given = ["--config", str(tmp_path / "one.yaml")]
    assert ask(capsys, "query", *given, SECOND)["matches"][0]["id"] == "a"
    assert ask(capsys, "explain", *given, SECOND)["candidates"][0]["id"] == "a"
    assert ask(capsys, "check", "--index", *given)["whole"]
    (tmp_path / "two.yaml").write_text(json.dumps({"index": {"path": str(state / "index")}}))
    two, copy = str(tmp_path / "two.yaml"), str(tmp_path / "copy")
    assert ask(capsys, "backup", "--config", two, "--to", copy)
    for verb in (
        ["query", SECOND],
        ["explain", SECOND],
        ["check", "--index"],
        ["backup", "--to", "nowhere"],
    ):
        code, _, err = run(capsys, *verb)
        assert (code, "give --state DIR, or --config" in err) == (64, True)


def test_a_text_may_begin_with_an_at_sign(capsys, state, tmp_path):
    (tmp_path / "story.txt").write_text(SECOND)
    file = ask(capsys, "query", "--state", str(state), f"@{tmp_path}/story.txt")
    assert file["matches"][0]["id"] == "a"
    said = ask(capsys, "explain", "--state", str(state), "@@monday the mill was sold")
    assert said["normalised"] == "@monday the mill was sold"
    assert run(capsys, "explain", "@@a b c d", "@@a b c d")[0] == 0


def test_the_name_of_a_file_is_a_text_and_a_line_says_how_to_read_the_file(
    capsys, state, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_text(FIRST)
    (tmp_path / "b.txt").write_text(SECOND)
    code, _, err = run(capsys, "explain", "a.txt", "b.txt")
    hints = [f"{name} is compared as a text; @{name} reads the file" for name in ("a.txt", "b.txt")]
    assert (code, err.splitlines()) == (0, hints)
    _, _, err = run(capsys, "query", "a.txt", "--state", str(state))
    assert err.splitlines() == hints[:1]
    code, out, err = run(capsys, "explain", "@a.txt", "@b.txt")
    assert (code, "near_duplicate" in out, err) == (0, True, "")
    for text in ("no such file", "a\0b", "long " * 1_000, str(tmp_path)):
        assert run(capsys, "explain", text, FIRST)[::2] == (0, "")


def test_an_id_that_is_given_twice_is_refused(capsys, state):
    code, _, err = run(capsys, "query", "--state", str(state), "--id", "a", "--id", "c")
    assert (code, "it was given 2 times; give one" in err) == (64, True)
    for verb in ("filter", "pairs", "evaluate", "plan"):
        code, _, err = run(capsys, verb, "in.jsonl", "--id", "/a", "--id", "/b")
        assert (code, "it was given 2 times; give one" in err) == (64, True)


def test_two_texts_take_no_index_and_one_text_takes_none_of_their_options(capsys, state):
    for given in (["--state", str(state)], ["--threshold", "0.5"], ["--against", "a"]):
        code, _, err = run(capsys, "explain", "a b c", "a b d", *given)
        assert (code, "without an index" in err) == (64, True)
    code, _, err = run(capsys, "explain", "a b c", "--state", str(state), "--raw")
    assert (code, "belong to two texts" in err) == (64, True)
