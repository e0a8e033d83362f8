"""What hypothesis draws is the same in each run, alone and after any other tests."""

import importlib

import pytest
from hypothesis import given
from hypothesis import strategies as st


def drawn() -> list[int]:
    seen = []

    @given(st.integers())
    def note(number):
        seen.append(number)

    note()
    return seen


@pytest.mark.slow
def test_examples_do_not_depend_on_what_this_process_has_imported(tmp_path, monkeypatch):
    before = drawn()
    (tmp_path / "new_numbers.py").write_text(f"NUMBERS = {list(range(70_000, 70_100))}")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module("new_numbers")
    assert drawn() == before
    assert len(before) > 50
