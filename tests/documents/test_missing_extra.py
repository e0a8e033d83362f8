"""A library that is not installed: every verb that needs it says what to install."""

import sys
from pathlib import Path

import pytest

from streamfilter.cli import main

AVRO = '{"type": "record", "name": "A", "fields": [{"name": "text", "type": "string"}]}'
CUSTOMERS = Path(__file__).parents[2] / "config" / "customers.yaml"
OUTPUTS = ["--unique", "once", "--duplicates", "again"]
OF_A_SCHEMA = [
    f"--set={each}"
    for each in ("input.format=avro", "input.schema_file=in", "index.path=index", "http.port=0")
]
NEEDED = {
    "check": ("avro", "avro", ["check", *OF_A_SCHEMA]),
    "run": ("avro", "avro", ["run", *OF_A_SCHEMA]),
    "demo": ("avro", "avro", ["demo", "--format", "avro"]),
    "filter": ("avro", "avro", ["filter", "in", "--format", "avro", *OUTPUTS]),
    "parquet": ("pyarrow", "parquet", ["filter", "in", "--format", "parquet", *OUTPUTS]),
    "telemetry": ("opentelemetry", "otel", ["check", "--set=otel.endpoint=http://127.0.0.1:9"]),
    "records": ("rapidfuzz", "records", ["filter", "in", "-c", str(CUSTOMERS), *OUTPUTS]),
}


@pytest.mark.parametrize(("library", "extra", "command"), NEEDED.values(), ids=NEEDED)
def test_a_verb_that_needs_a_library_says_what_to_install(
    library, extra, command, tmp_path, monkeypatch, capsys
):
    for name in [*sys.modules]:
        if name.split(".")[0] in ("avro", "opentelemetry") or name.endswith(
            (".formats.avro", ".avro_values", ".formats.parquet", ".monitoring.otlp")
        ):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, library, None)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").write_text(AVRO)
    checked = command[0] == "check"  # it lists this among the configuration's other problems
    assert main(command) == (78 if checked else 64)
    said = capsys.readouterr()
    said_of_it = said.out if checked else said.err
    assert f" needs {library}, which is not installed" in said_of_it
    assert f"cure: pip install 'streamfilter[{extra}]'" in said_of_it
