"""One file for each format, with the name that `input.format` has: see `decoding`."""
