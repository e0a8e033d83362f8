"""The examples in the README and in the docstrings run, as they are printed."""

import doctest
import re
import subprocess
import sys
from pathlib import Path

import streamfilter.collection.deduplicator

README = Path(__file__).parents[2] / "README.md"


def test_the_docstring_is_true():
    result = doctest.testmod(streamfilter.collection.deduplicator)
    assert result.attempted >= 8
    assert not result.failed


def test_the_readme_is_true(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # its examples make a directory
    section = README.read_text().partition("## From Python")[2].partition("\n## ")[0]
    (example,) = re.findall(r"```python\n(.*?)```", section, re.S)
    test = doctest.DocTestParser().get_doctest(example, {}, "README", str(README), 0)
    flags = doctest.NORMALIZE_WHITESPACE
    assert len(test.examples) >= 6
    assert not doctest.DocTestRunner(optionflags=flags).run(test).failed


def test_importing_the_package_imports_nothing_else():
    script = "import streamfilter, sys; print('numpy' in sys.modules, 'Deduplicator' in dir())"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.split()[0] == "False"
