"""Work on an index before the service starts: seeds, and the takeover of another group."""
