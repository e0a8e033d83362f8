"""Buckets: which documents a key lists, where others go, and the sorted runs that hold them."""
