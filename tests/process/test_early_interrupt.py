"""Ctrl-C while the command is still being imported: it ends, and prints no traceback."""

import signal
import subprocess
import sys

import pytest

PROGRAM = """
import os, runpy, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # as an interactive shell leaves it

class Pressed:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Pressed())
sys.argv = ["streamfilter", "plan"]
runpy.run_module("streamfilter", run_name="__main__")
"""


@pytest.mark.parametrize(
    "module", ["streamfilter.cli", "click", "streamfilter.process.standard",
               "streamfilter.commands.plan", "pydantic", "numpy"]
)  # fmt: skip
def test_ctrl_c_during_the_imports_ends_the_command_without_a_word(module: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(module=module)], capture_output=True, timeout=60
    )
    assert (done.returncode, done.stderr, done.stdout) == (-signal.SIGINT, b"", b"")


def test_ctrl_c_later_is_a_keyboard_interrupt_again() -> None:
    program = PROGRAM.format(module="streamfilter.quality.never")
    program = program.replace('"plan"]', '"explain", "a b c", "a b c"]')
    program += "\n"
    check = (
        "import signal, streamfilter.commands.explain as c\n"
        "c.options.answer = lambda *_: print(signal.getsignal(signal.SIGINT).__name__)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", check + program], capture_output=True, timeout=60, text=True
    )
    assert done.stdout == "default_int_handler\n", done.stderr
