"""The rivals as `streamfilter.bench` takes them: functions that sign, programs that filter."""

from functools import partial
from pathlib import Path

from streamfilter.bench.machine import Ran, run_process
from streamfilter.bench.result import Rivals
from tests.bench.peers import loops
from tests.bench.peers.signing import signers


def program(name: str, source: Path, kept: Path, withheld: Path) -> Ran:
    """Run the loop *name* in a process of its own, from the repository's root."""
    return run_process(["-m", loops.__name__, name, str(source), str(kept), str(withheld)])


RIVALS = Rivals(
    signers=signers,
    programs={name: partial(program, name) for name in loops.LOOPS},
    notes=(
        "ours includes the content fingerprint, the token sample and the band keys; "
        "datasketch and rensa only sign",
        "gaoya signs only while inserting; its own analyser splits at white space in Rust, so "
        "its shingles differ from the others (and in Chinese there is nothing to split)",
        "the rivals keep everything in memory and forget it",
    ),
)
