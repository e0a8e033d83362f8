"""The figures of the examples in config/: labelled streams, and how many verdicts users call right.

    python -m tests.recipes            the table of config/README.md
    python -m tests.recipes --only press --seeds 7 8

`streams` makes a stream of each kind. Every document names its story, and a user calls two
documents the same if they tell one story. No figure here uses a similarity.
"""
