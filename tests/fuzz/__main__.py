"""Fuzz one target for a while: ``python -m tests.fuzz documents --seconds 600``.

libFuzzer by way of Atheris drives it: inputs that reach new code of ours are kept and changed
further. It ends with 0; a broken promise ends it at once with the input that broke it, in a file
of its own. Memory and the time for one input are bounded, so that a blow-up is a finding too.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import tempfile
from pathlib import Path

import atheris

from tests.fuzz.pieces import Target

INPUT_BYTES_MAX = 5_000
SECONDS_AN_INPUT = 10
MEGABYTES_MAX = 1_500
FOLLOWED = ["streamfilter", "json", "yaml"]
"""Packages whose branches guide the search."""
MODULES = ("received", "stored", "written")
"""Where the targets are; a module is imported, and followed, only if no earlier one has them."""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("target")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1, help="of the search; printed by libFuzzer")
    parser.add_argument("--input", type=Path, help="run this one input instead")
    return parser.parse_args()


def find(name: str) -> Target:
    """Return the target called *name*, its code made to report where it goes."""
    for module in MODULES:
        with atheris.instrument_imports(include=FOLLOWED):
            targets: dict[str, Target] = importlib.import_module(f"tests.fuzz.{module}").TARGETS
        if name in targets:
            return targets[name]
    raise SystemExit(f"no target {name!r}")


def main() -> None:
    asked = arguments()
    target = find(asked.target)
    if asked.input:
        target.check(asked.input.read_bytes())
        return
    place = Path(tempfile.mkdtemp(prefix=f"fuzz-{asked.target}-"))
    corpus = place / "corpus"
    corpus.mkdir()
    for number, seed in enumerate(target.seeds):
        (corpus / f"seed-{number}").write_bytes(seed)
    options: dict[str, object] = {
        "max_total_time": asked.seconds, "seed": asked.seed, "max_len": INPUT_BYTES_MAX,
        "timeout": SECONDS_AN_INPUT, "rss_limit_mb": MEGABYTES_MAX, "print_final_stats": 1,
        "artifact_prefix": f"{place}/",
    }  # fmt: skip
    if target.words:
        (place / "words").write_text("".join(f'"{_escaped(word)}"\n' for word in target.words))
        options["dict"] = f"{place}/words"
    atheris.Setup(
        [sys.argv[0], *(f"-{name}={value}" for name, value in options.items()), str(corpus)],
        target.check,
    )
    atheris.Fuzz()


def _escaped(word: bytes) -> str:
    return "".join(f"\\x{byte:02x}" for byte in word)


if __name__ == "__main__":
    main()
