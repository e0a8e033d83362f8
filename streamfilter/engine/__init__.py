"""The transaction engine moves batches, exactly once.

It uses only the ports (`ports.py`) and imports no client library.
"""
