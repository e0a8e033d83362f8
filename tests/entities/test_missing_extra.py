"""Records need an extra, and a configuration that asks for them says which."""

import sys
from pathlib import Path

from streamfilter.cli import main

CONFIG = Path(__file__).parents[2] / "config" / "customers.yaml"


def test_records_without_the_extra_say_what_to_install(tmp_path, monkeypatch, capsys):
    source = tmp_path / "customers.jsonl"
    source.write_text('{"id": 1, "name": "Ada Lovelace"}\n')
    monkeypatch.setitem(sys.modules, "rapidfuzz", None)
    outputs = ["--unique", str(tmp_path / "once"), "--duplicates", str(tmp_path / "again")]
    assert main(["filter", str(source), "-c", str(CONFIG), *outputs]) == 64
    error = capsys.readouterr().err
    assert "input.format: fields needs rapidfuzz, which is not installed" in error
    assert "cure: pip install 'streamfilter[records]'" in error
