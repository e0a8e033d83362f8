"""Benchmarks: the docstring of each module asks a question, and its run answers it.

The text is realistic and deterministic, made from this Python's documentation. A benchmark reports
time and checks the results; a run with wrong results fails, however fast it was. Benchmarks of
single stages, of large indexes and of other libraries are in the repository (`tests/bench`).

    catalogue    the benchmarks by name, and the run of several
    measure      clocks, medians with spread, interleaving
    result       what a benchmark answers: tables, checks, targets
    texts        English, Arabic and Chinese of any size; mixes with duplicates
    truth        exact similarities in plain Python, and the check of which texts were kept
"""
