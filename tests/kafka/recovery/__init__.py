"""Index, changelog and offsets on a real broker: starts, restores, standbys, forgetting."""
