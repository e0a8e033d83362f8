"""Whether outputs and index are right after faults."""
