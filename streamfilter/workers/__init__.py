"""Prepares batches: reads and sketches records, here or in worker processes on other cores."""
