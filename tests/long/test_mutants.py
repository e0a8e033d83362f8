"""Mutants are one change of a line each; those that no test notices are reported."""

from pathlib import Path

import pytest

from tests.long.mutants import Mutant, Worker
from tests.long.mutation import mutations

MODULE = """\
def held(a: int) -> bool:
    return a < 3


def not_held(a: int) -> int:
    return a + 1
"""
TESTS = """\
import pytest

from streamfilter.matching import module

pytestmark = pytest.mark.quick


def test_held():
    assert module.held(2)
    assert not module.held(3)
"""


@pytest.mark.parametrize(
    ("source", "changed"),
    [
        ("a < b", {"a >= b", "a <= b"}),
        ("a is not b", {"a is b"}),
        ("a not in b", {"a in b"}),
        ("a < b == c", {"a >= b == c", "a <= b == c", "a < b != c"}),
        ("(a +\n b) - c", {"(a -\n b) - c", "(a +\n b) + c"}),
        ("'é' + a", set()),
        ("a and b or c", {"a or b or c", "a and b and c"}),
        ("not (a)", {"(a)"}),
        ("é.close()\nb", {"pass\nb"}),
        ("self.note('x')", set()),
    ],
)
def test_each_change_leaves_all_other_characters(source, changed):
    assert {each.applied(source) for each in mutations(source)} == changed


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    package, tests = tmp_path / "streamfilter" / "matching", tmp_path / "tests" / "pipeline"
    package.mkdir(parents=True)
    tests.mkdir(parents=True)
    (package / "module.py").write_text(MODULE)
    (tests / "test_module.py").write_text(TESTS)
    return tmp_path


@pytest.mark.slow
def test_what_a_test_holds_is_noticed_and_what_none_holds_survives(tree):
    worker = Worker(tree, seconds=60)
    found = {
        each.kind: worker.noticed_by(Mutant("streamfilter/matching/module.py", each))
        for each in mutations(MODULE)
    }
    held = "tests/pipeline/test_module.py::test_held"
    assert found == {"boundary": held, "comparison": held, "sign": ""}
    assert (tree / "streamfilter/matching/module.py").read_text() == MODULE


@pytest.mark.slow
def test_a_test_that_fails_without_a_mutant_is_reported(tree):
    (tree / "tests/pipeline/test_module.py").write_text(TESTS + "    assert False\n")
    (sign,) = (each for each in mutations(MODULE) if each.kind == "sign")
    with pytest.raises(RuntimeError, match="test_held fails without any mutant"):
        Worker(tree, seconds=60).noticed_by(Mutant("streamfilter/matching/module.py", sign))
