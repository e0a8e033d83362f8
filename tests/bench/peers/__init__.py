"""The rivals at pinned versions: datasketch, rensa, gaoya (`requirements.txt`).

Each is used as its documentation advises and as fast as it can be used that way: bulk calls,
the fastest hash function it takes, its own deduplicator where it has one. Single-threaded, as
we are measured.
"""
