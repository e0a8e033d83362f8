"""Verbs that take long show on a terminal how far they have come, and nowhere else."""

import errno
import io
import json

import pytest

from streamfilter import Deduplicator, cli, stops
from streamfilter.commands import options
from tests.support.machine.terminal import in_terminal


@pytest.mark.slow
def test_a_terminal_sees_how_far_a_verb_has_come(tmp_path, capsys):
    file, state = tmp_path / "in.jsonl", tmp_path / "state"
    texts = [f"story {number} of a hundred that are not alike {number * 7}" for number in range(99)]
    lines = [json.dumps({"id": str(n), "text": text}) for n, text in enumerate(texts)]
    file.write_text("\n".join(lines))
    with Deduplicator(state) as stories:
        stories.add_many((str(number), text) for number, text in enumerate(texts))
    truth = tmp_path / "truth.tsv"
    truth.write_text("id_a\tid_b\tjaccard\n")
    outputs = ["--unique", str(tmp_path / "u"), "--duplicates", str(tmp_path / "d")]
    assert cli.main(["filter", str(file), *outputs]) == 0
    assert cli.main(["backup", "--state", str(state), "--to", str(tmp_path / "backup")]) == 0
    assert "%" not in capsys.readouterr().err
    new = str(tmp_path / "new")
    for verb, label in {
        ("pairs", str(file)): "comparing",
        ("evaluate", str(file), "--pairs", str(truth)): "filtering",
        ("restore", "--from", str(tmp_path / "backup"), "--state", new): "restoring",
        ("check", "--index", "--state", new): f"checking {new}",
    }.items():
        seen = in_terminal(verb, columns=200)
        assert seen.code == 0, seen.plain
        assert f"{label}  [" in seen.plain
        assert "100%" in seen.plain


class Closed(io.StringIO):
    """A terminal that was closed while it was written to."""

    def isatty(self) -> bool:
        return True

    def write(self, _: str) -> int:
        raise OSError(errno.EIO, "Input/output error")


def test_a_terminal_that_is_closed_ends_no_verb_as_a_bug(monkeypatch):
    """The bar could not be drawn, and the work ended with 70 and a traceback."""
    monkeypatch.setattr("sys.stderr", Closed())
    with options.progress("filtering", 3) as advanced:
        for _ in range(3):
            advanced(1)
    monkeypatch.setattr("sys.stdout", Closed())
    assert cli.main(["init", "--reference"]) == stops.ExitCode.UNREAD
