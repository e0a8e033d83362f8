"""The program with an index whose runs are full after a few documents, so that merges come soon.

    stage.launch = small_runs.launch, or small_runs.forged(forge)

Runs and merges of the usual size need hundreds of thousands of documents.
"""

import sys
from collections.abc import Callable, Sequence
from typing import Any

from streamfilter import assembly
from streamfilter.cli import main
from streamfilter.demo.running_filter import Child
from streamfilter.index.rocks.options import Memory
from tests.support.session.forge import Forge
from tests.support.values import replace

RUN_KEYS, FAN = 96, 2


def launch(command: Sequence[str], **options: Any) -> Child:
    """Start *command*, which is python, -m, streamfilter and its arguments, with small runs."""
    at = command.index("-m")
    assert command[at + 1] == "streamfilter", command
    return Child([*command[: at + 1], __name__, *command[at + 2 :]], **options)


def forged(forge: Forge) -> Callable[..., Child]:
    """Return what does the same in a process of the *forge*, for .7 s of processor time less."""

    def launch(command: Sequence[str], **options: Any) -> Child:
        arguments = [*command[command.index("streamfilter") + 1 :]]
        return forge.run(f"from {__name__} import work; work({arguments})", **options)

    return launch


def work(arguments: Sequence[str]) -> None:
    """Do what *arguments* of the program say, and end."""
    assembly.memory_for = memory_for
    raise SystemExit(main([*arguments]))


def memory_for(*arguments: Any, **options: Any) -> Memory:
    """Return what `assembly.memory_for` does, for small runs."""
    return replace(usual(*arguments, **options), run_keys=RUN_KEYS, fan=FAN)


usual = assembly.memory_for

if __name__ == "__main__":
    work(sys.argv[1:])
