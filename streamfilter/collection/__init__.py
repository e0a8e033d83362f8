"""A collection of documents that are all remembered: what `Deduplicator` is made of."""
