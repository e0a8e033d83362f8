"""`filter --keep longest`: the same groups, and the longest text of each comes out."""

import json
import os
import random

import pytest

from streamfilter.cli import main
from streamfilter.files import keep_longest
from tests.documents.test_envelope import SCHEMA


def stories(seed: int) -> list[dict[str, str]]:
    """Return texts in groups around their first: copies, some longer, some shorter, some equal."""
    rng, found = random.Random(seed), []
    for number in range(40):
        words = [f"w{rng.randrange(9_999)}" for _ in range(rng.randint(60, 90))]
        for copy in range(rng.choice([1, 1, 2, 5])):
            more = [f"x{rng.randrange(9_999)}" for _ in range(rng.choice([0, 0, 2, 4]))]
            less = rng.choice([0, 0, 3]) if copy else 0
            text = " ".join([*words[: len(words) - less], *(more if copy else [])])
            found.append({"id": f"{number}/{copy}", "text": text})
    rng.shuffle(found)
    return [*found, {"id": "none", "text": ""}, {"id": "none", "text": ""}]


def run(directory, name, lines, *options):
    (directory / "in.jsonl").write_text("".join(f"{line}\n" for line in lines))
    paths = {place: directory / f"{name}.{place}" for place in ("unique", "duplicates", "dead")}
    outputs = ["--unique", str(paths["unique"]), "--duplicates", str(paths["duplicates"])]
    command = ["filter", str(directory / "in.jsonl"), *outputs, "--dead-letter", str(paths["dead"])]
    assert main([*command, *options]) == 0
    return {place: path.read_text().splitlines() for place, path in paths.items()}


@pytest.mark.parametrize("mode", ["annotate", "reference"])
def test_the_longest_of_each_group_comes_out_and_every_line_is_in_one_place(mode, tmp_path):
    lines = [json.dumps(story) for story in stories(8)]
    lines[20:20] = ["{broken", lines[3]]
    options = ("--set", f"output.duplicates_mode={mode}")
    first = run(tmp_path, "first", lines, *options)
    longest = run(tmp_path, "longest", lines, "--keep", "longest", *options)
    assert longest["dead"] == first["dead"]
    assert len(longest["unique"]) == len(first["unique"])
    readable = [number for number in range(1, len(lines) + 1) if number != 21]
    text = {number: json.loads(lines[number - 1])["text"] for number in readable}
    groups: dict[int, list[int]] = {}
    for line in first["duplicates"]:
        found = json.loads(line)
        centre = found["matches"][0]["offset"]
        groups.setdefault(centre, [centre]).append(found["source"]["offset"])
    kept = {c: max(sorted(g), key=lambda number: len(text[number])) for c, g in groups.items()}
    assert any(centre != winner for centre, winner in kept.items())
    withheld = {number for group in groups.values() for number in group} - set(kept.values())
    expected = [lines[number - 1] for number in readable if number not in withheld]
    assert longest["unique"] == expected
    found = [json.loads(line) for line in longest["duplicates"]]
    assert [each["source"]["offset"] for each in found] == sorted(withheld)
    centre_of = {number: centre for centre, group in groups.items() for number in group}
    for each in found:
        SCHEMA.validate(each)
        number = each["source"]["offset"]
        winner = kept[centre_of[number]]
        named = each["kept"]["offset"] if "kept" in each else each["matches"][0]["offset"]
        assert named == winner
        assert each["id"] == json.loads(lines[number - 1])["id"]
        assert ("payload" in each) is (mode == "annotate")
        assert each.get("payload", lines[number - 1]) == lines[number - 1]


def test_the_first_is_the_default_and_longest_needs_the_whole_input(tmp_path, capsys):
    lines = [json.dumps(story) for story in stories(9)]
    assert run(tmp_path, "a", lines) == run(tmp_path, "b", lines, "--keep", "first")
    command = ["filter", str(tmp_path / "in.jsonl"), "--unique", str(tmp_path / "u")]
    command += ["--duplicates", str(tmp_path / "d"), "--keep", "longest"]
    assert main([*command, "--state", str(tmp_path / "state")]) == 64
    assert main([*command, "--set", "output.mode=shadow"]) == 64
    assert "leave --state and output.mode shadow out" in capsys.readouterr().err
    assert not (tmp_path / "u").exists()


@pytest.mark.parametrize("others", [["--keep", "longest"], []], ids=["keep", "evaluate"])
def test_what_can_be_read_only_once_is_refused_before_anything_is_read(others, tmp_path, capsys):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    (tmp_path / "truth").write_text("a\tb\t0.9\n")
    outputs = ["--unique", str(tmp_path / "u"), "--duplicates", str(tmp_path / "d")]
    command = ["filter", *outputs, *others] if others else ["evaluate"]
    options = [] if others else ["--pairs", str(tmp_path / "truth")]
    for path, name in ((str(pipe), str(pipe)), ("-", "standard input")):
        assert main([*command, path, *options]) == 64
        assert f"{name} can be read only once" in capsys.readouterr().err


@pytest.mark.parametrize("left", [0, 1, 60])
def test_a_file_that_shrinks_before_it_is_read_again_is_said(left, tmp_path, capsys, monkeypatch):
    lines = [json.dumps(story) for story in stories(10)]
    before = run(tmp_path, "a", lines)
    whole = keep_longest.filter_files

    def shrinking(*arguments, **named):
        summary = whole(*arguments, **named)
        (tmp_path / "in.jsonl").write_text("".join(f"{line}\n" for line in lines[:left]))
        return summary

    monkeypatch.setattr(keep_longest, "filter_files", shrinking)
    (tmp_path / "in.jsonl").write_text("".join(f"{line}\n" for line in lines))
    paths = [str(tmp_path / f"a.{place}") for place in ("unique", "duplicates")]
    command = ["filter", str(tmp_path / "in.jsonl"), "--keep", "longest"]
    assert main([*command, "--unique", paths[0], "--duplicates", paths[1]]) == 75
    assert "changed before it was read again" in capsys.readouterr().err
    assert (tmp_path / "a.unique").read_text().splitlines() == before["unique"]
