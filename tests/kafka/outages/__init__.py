"""Brokers that are away, slow or hostile, and processes that die."""
