"""Which tests need what, and which run when: held, because no one marks them by hand."""

import pytest

from tests.support.session.needs import NAMES, reached

pytest_plugins = "pytester"

CONFTEST = """
from tests.conftest import pytest_addoption, pytest_collection_modifyitems
"""
TESTS = """
import sys

import pytest

class RealKafka: ...

def tool(name): return name

@pytest.fixture(scope="module")
def broker():
    return [RealKafka() for _ in range(2)]

@pytest.fixture
def stage(broker): ...

def test_plain(): ...

def test_behind_fixtures(stage): ...

def test_with_a_program(): tool("promtool")

def test_that_starts_python(): print(sys.executable)

@pytest.mark.long
def test_long(): ...

@pytest.mark.slow
def test_slow(): ...
"""
INI = """
[pytest]
markers =
    kafka
    tools
    long
    slow
    quick
"""
SLOW = {"test_slow", "test_that_starts_python"}


@pytest.mark.parametrize(
    ("chosen", "run"),
    [
        ("", {"test_plain", *SLOW, "test_behind_fixtures", "test_with_a_program"}),
        ("quick", {"test_plain"}),
        ("slow", SLOW),
        ("not kafka and not tools", {"test_plain", *SLOW}),
        ("kafka", {"test_behind_fixtures"}),
        ("tools", {"test_with_a_program"}),
        ("long", {"test_long"}),
        ("long or tools", {"test_long", "test_with_a_program"}),
    ],
)
def test_what_is_chosen_is_run_and_the_long_run_only_by_name(pytester, chosen, run):
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(TESTS)
    pytester.makeini(INI)
    told = pytester.runpytest_inprocess("--collect-only", "-q", "-m", chosen).outlines
    assert {line.partition("::")[2] for line in told if "::" in line} == run


def named_here():
    return behind()


def behind():
    return [RealKafka for _ in "ab"]  # noqa: F821  # only named


def test_helpers_of_the_tests_are_looked_into():
    assert reached(globals()["named_here"]) & NAMES["kafka"]
    assert not reached(test_helpers_of_the_tests_are_looked_into) & NAMES["tools"]
