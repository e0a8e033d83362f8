"""Buckets: which documents a key lists, and where documents go when a bucket is full."""
