"""A forked child of a process that holds a Deduplicator: refused by name, and harmless."""

import subprocess
import sys
from pathlib import Path

import pytest

from streamfilter import Deduplicator, IndexFault, IndexForked

PARENT = """
import gc, os, sys, threading
from streamfilter import Deduplicator, IndexForked
TEXT = "the old mill by the river was sold to a young family from the city on monday {}"
path = sys.argv[1] or None
stories = Deduplicator(path)
stories.add_many([(f"a{n}", TEXT.format(n)) for n in range(200)])
begun = iter(stories)
next(begun)
"""

CHILD = """
USES = [
    lambda: stories.add("b", TEXT), lambda: stories.add_many([("b", TEXT)]),
    lambda: stories.update("a1", TEXT), lambda: stories.forget("a1"),
    lambda: stories.forget_many(["a1"]), lambda: stories.duplicates_of(TEXT),
    lambda: stories.duplicates_of(id="a1"), lambda: stories.is_duplicate(TEXT),
    lambda: list(stories.all_duplicates()), lambda: list(stories), lambda: list(begun),
    lambda: len(stories), lambda: "a1" in stories, lambda: stories.save(sys.argv[1] + "copy"),
    lambda: stories.merge(Deduplicator()), lambda: Deduplicator().merge(stories),
]
held, go = threading.Event(), threading.Event()
def hold():
    with stories._lock:
        held.set()
        go.wait()
threading.Thread(target=hold, daemon=True).start()
held.wait()
if not (child := os.fork()):
    for number, use in enumerate(USES):
        try:
            print("not refused:", number, use())
        except IndexForked as error:
            assert str(os.getppid()) in str(error) and "before the fork" in str(error)
    print(repr(stories))
    stories.close()
    if sys.argv[1]:  # RocksDB would wait for its parent's threads at the first flush
        try:
            print("not refused:", Deduplicator(sys.argv[1] + "other"))
        except IndexForked:
            pass
    del stories, begun, USES
    gc.collect()
    sys.exit(7)  # the whole end of an interpreter, atexit and all
go.set()
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
stories.add_many([(f"c{n}", TEXT.format(n)) for n in range(300)])
stories.close()
"""

ORPHAN = """
if not os.fork():
    sys.stdin.read()  # it outlives its parent
    sys.exit(0)
stories.add("b", TEXT)
print("ready", flush=True)
os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize("kept", [True, False])
def test_a_forked_child_is_refused_on_every_call_and_ends_without_harm(tmp_path: Path, kept):
    path = str(tmp_path / "memory") if kept else ""
    done = subprocess.run(
        [sys.executable, "-c", PARENT + CHILD, path], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert "not refused" not in done.stdout
    assert "of process" in done.stdout
    if kept:
        with Deduplicator.open(path) as again:
            assert sorted(again) == sorted(
                [f"a{n}" for n in range(200)] + [f"c{n}" for n in range(300)]
            )


def test_a_child_that_outlives_a_killed_parent_does_not_keep_its_directory(tmp_path: Path):
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT + ORPHAN, str(tmp_path / "memory")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"ready\n"
        parent.wait(60)
        with Deduplicator.open(tmp_path / "memory") as again:
            assert "b" in again
    finally:
        parent.communicate()


def test_the_error_is_exported_as_a_fault_of_an_index():
    assert issubclass(IndexForked, IndexFault)
