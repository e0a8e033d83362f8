"""The options of all benchmarks: those of `streamfilter bench`, and one for what takes long."""

from streamfilter.bench.result import Options


class LongOptions(Options, frozen=True):
    """What `python -m tests.bench` gives to each benchmark."""

    large: int = 0
    """Documents of the largest index, which takes many minutes; 0: only what takes less."""
