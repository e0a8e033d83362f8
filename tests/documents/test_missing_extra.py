"""A format whose library is not installed: every verb that needs it says what to install."""

import sys

import pytest

from streamfilter.cli import main

AVRO = '{"type": "record", "name": "A", "fields": [{"name": "text", "type": "string"}]}'


@pytest.fixture
def without_avro(monkeypatch):
    for name in [*sys.modules]:
        if name.split(".")[0] == "avro" or name.endswith((".formats.avro", ".avro_values")):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "avro", None)


@pytest.mark.parametrize("verb", ["check", "run", "demo", "filter"])
def test_a_verb_that_needs_the_library_of_a_format_says_what_to_install(
    verb, without_avro, tmp_path, capsys
):
    schema = tmp_path / "article.avsc"
    schema.write_text(AVRO)
    given = {"input.format": "avro", "input.schema_file": schema, "index.path": tmp_path / "index",
             "http.port": 0}  # fmt: skip
    settings = [word for key, value in given.items() for word in ("--set", f"{key}={value}")]
    outputs = ["--unique", str(tmp_path / "once"), "--duplicates", str(tmp_path / "again")]
    arguments = {
        "check": settings,
        "run": settings,
        "demo": ["--format", "avro"],
        "filter": [str(schema), "--format", "avro", *outputs],
    }[verb]
    assert main([verb, *arguments]) == 64
    error = capsys.readouterr().err
    assert "avro needs avro, which is not installed" in error
    assert "cure: pip install 'streamfilter[avro]'" in error
