"""The policy that fills an index may change, but never silently."""

from pathlib import Path

from streamfilter.cli import main

STORY = '{"id":"%s","text":"the council met on monday to discuss the new bridge over the river"}\n'


def filter_with(path: Path, threshold: str) -> int:
    return main(
        ["filter", str(path / "in"), "--unique", str(path / "u"), "--duplicates", str(path / "d"),
         "--state", str(path / "state"), "--set", f"similarity.threshold={threshold}"]
    )  # fmt: skip


def test_a_new_threshold_on_an_old_index_is_said_loudly_and_only_once(tmp_path, capsys):
    (tmp_path / "in").write_text(STORY % "a" + STORY % "b")
    said = []
    for threshold in ("0.81", "0.81", "0.82", "0.82"):
        assert filter_with(tmp_path, threshold) == 0
        said.append("threshold: 0.81 -> 0.82" in capsys.readouterr().err)
    assert said == [False, False, True, False]
