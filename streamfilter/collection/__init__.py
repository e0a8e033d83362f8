"""The implementation of `Deduplicator`: a collection in which every document is remembered."""
