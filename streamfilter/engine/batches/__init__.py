"""Batches: how many records at once, how fast, and which records are refused."""
