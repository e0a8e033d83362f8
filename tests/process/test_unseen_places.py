"""A path that no one may look at is reported as that, by every verb; it is no bug of ours.

The tests may run as root, which may do anything: the system looks no more at a name that is too
long than at one in a directory that it keeps closed.
"""

from pathlib import Path

import pytest

from streamfilter import Deduplicator, IndexFault
from streamfilter.cli import main
from streamfilter.stops import ExitCode

UNSEEN = "a" * 300
OUTPUTS = ["--unique", "u", "--duplicates", "d"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["filter", UNSEEN, *OUTPUTS],
        ["filter", UNSEEN, *OUTPUTS, "--keep", "longest"],
        ["filter", "in.jsonl", *OUTPUTS, "--state", UNSEEN],
        ["filter", "in.jsonl", *OUTPUTS, "--dead-letter", UNSEEN],
        ["filter", "in.jsonl", *OUTPUTS, "--set", f"index.seed_file={UNSEEN}"],
        ["pairs", UNSEEN],
        ["evaluate", UNSEEN],
        ["evaluate", "--pairs", "in.jsonl", UNSEEN],
        ["evaluate", "--pairs", UNSEEN, "in.jsonl"],
        ["peek", UNSEEN],
        ["plan", "--sample", UNSEEN],
        ["plan", "--plot", f"{UNSEEN}.svg"],
        ["explain", f"@{UNSEEN}", "b"],
        ["check", "--set", f"index.path={UNSEEN}"],
        ["check", "--config", UNSEEN],
        ["init", UNSEEN],
        ["query", "--state", UNSEEN, "text"],
        ["explain", "--state", UNSEEN, "text"],
        ["backup", "--state", UNSEEN, "--to", "copy"],
        ["restore", "--from", UNSEEN, "--state", "state"],
        ["restore", "--from", "copy", "--state", UNSEEN],
        ["check", "--index", "--state", UNSEEN],
        ["forget", "--file", UNSEEN],
    ],
)
def test_a_verb_names_it_and_ends_as_for_one_that_is_wrong(
    arguments, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    Path("in.jsonl").write_text('{"id": "a", "text": "one two three four"}\n')
    assert main(arguments) in (ExitCode.USAGE, ExitCode.CONFIG)
    captured = capsys.readouterr()
    assert "aaaa" in captured.out + captured.err or arguments[:3] == ["restore", "--from", "copy"]


def test_a_deduplicator_names_it() -> None:
    with pytest.raises(IndexFault, match="aaaa"):
        Deduplicator(UNSEEN)
    with pytest.raises(IndexFault, match="aaaa"):
        Deduplicator().save(UNSEEN)
