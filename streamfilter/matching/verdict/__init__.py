"""The verdict: how pairs are compared, what is decided, and the evidence."""
