"""Preflight: holds a configuration against the disk, the schemas, the records and the brokers.

Nothing is changed, except that `check --apply` creates missing topics. Each finding is a `Problem`
with its key and its cure, and none of them ends the search for the next.
"""
