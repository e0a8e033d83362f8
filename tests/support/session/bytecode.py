"""The workers share the compilation of the tests: each begins to import them at another file.

pytest rewrites the assertions of a test file when it first imports it. On a fresh checkout each
worker did that to all files: 15 s of processor time, as much as the whole rest of its collection.
"""

import importlib
import sys
from contextlib import suppress
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def share(config: pytest.Config) -> None:
    """Import all tests, from this worker's part on; the others compile the other parts meanwhile.

    Files that cannot be imported are left to the collection, which reports them.
    """
    sys.dont_write_bytecode = False  # some environments forbid it
    given = getattr(config, "workerinput", None)
    if given is None or config.args_source is not config.ArgsSource.TESTPATHS:
        return
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    begin = len(files) * int(given["workerid"].removeprefix("gw")) // given["workercount"]
    for file in files[begin:] + files[:begin]:
        with suppress(Exception, pytest.skip.Exception):
            importlib.import_module(".".join(file.relative_to(ROOT).with_suffix("").parts))
