"""Benchmarks: each is a module whose docstring asks a question and whose run answers it.

A benchmark runs on realistic text made deterministically from this Python's documentation,
checks results as well as time, and says both: a run whose results fall short fails, however
fast it was. Benchmarks of single stages, of large indexes and beside other libraries are in the
repository (`tests/bench`).

    catalogue    the benchmarks by name, and the run of several
    measure      clocks, medians with spread, interleaving
    result       what a benchmark answers: tables, checks, targets
    texts        English, Arabic and Chinese of any size; mixes with duplicates
    truth        exact similarities in plain Python, and the judgement of who kept what
"""
