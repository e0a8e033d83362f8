"""The transaction engine: what moves batches, exactly once.

It speaks to ports and imports no client library.
"""
