"""A file for each format, called as `input.format` calls it: see `decoding`."""
