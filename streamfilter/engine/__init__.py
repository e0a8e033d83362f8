"""The transaction engine.

Tasks, batches, restore, standby. It speaks to ports and imports no client library.
"""
