"""Which offsets are committed, and what counts as progress."""
