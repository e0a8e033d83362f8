"""Mutants are one change of a line each; those that no test notices are reported."""

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

from tests.long.mutants import Mutant, Worker, statement
from tests.long.mutation import mutations
from tests.long.reach import Reach, hash_of

PATH = "streamfilter/matching/module.py"
HELD = "tests/pipeline/test_module.py::test_held"
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
    (package.parent / "__init__.py").touch()
    (package / "module.py").write_text(MODULE)
    (tests / "test_module.py").write_text(TESTS)
    return tmp_path


@pytest.fixture
def worker(tree: Path) -> Worker:
    lines = {2: [HELD], 6: ["tests/pipeline/test_module.py"]}  # the latter: a fixture of its module
    return Worker(tree, Reach({HELD: 0.1}, {PATH: lines}))


def mutants() -> dict[str, Mutant]:
    return {each.kind: Mutant.of(PATH, MODULE, each) for each in mutations(MODULE)}


def noticed(worker: Worker) -> dict[str, str]:
    return {kind: worker.noticed_by(mutant) for kind, mutant in mutants().items()}


@pytest.mark.slow
def test_what_a_test_holds_is_noticed_and_what_none_holds_survives(worker):
    # A new process: the present one may have threads, and more memory than a fork may use.
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        found = pool.submit(noticed, worker).result()
    assert found == {"boundary": HELD, "comparison": HELD, "sign": ""}
    assert (worker.tree / PATH).read_text() == MODULE


def test_a_file_that_has_changed_since_its_reach_was_measured_is_left_out(worker, capsys):
    """Its lines have moved: other tests would be run, and the mutant would seem to survive."""
    mutant = mutants()["boundary"]
    worker.reach.sources[PATH] = hash_of(MODULE)
    assert worker.measured(mutant)
    (worker.tree / PATH).write_text("\n" + MODULE)
    assert not worker.measured(mutant)
    assert "is left out" in capsys.readouterr().out


def test_the_cheapest_tests_that_reach_a_statement_come_first():
    seconds = {"a.py::one": 3.0, "a.py::two": 1.0, "b.py::one": 2.0, "c.py::one": 0.0}
    reach = Reach(seconds, {PATH: {7: ["a.py"], 8: ["b.py::one"], 9: ["c.py::one"]}})
    assert reach.tests(PATH, 7, 8) == ["a.py::two", "b.py::one", "a.py::one"]


def test_a_statement_is_its_lines_without_its_body():
    source = "if (a <\n    b):\n    c = (\n        d\n    )\n"
    assert [statement(source, line) for line in (1, 2, 3, 4)] == [(1, 2), (1, 2), (3, 5), (3, 5)]
