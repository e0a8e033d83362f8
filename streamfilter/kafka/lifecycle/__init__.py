"""What fills or replaces an index from outside of the service: seeds, and another group's input."""
