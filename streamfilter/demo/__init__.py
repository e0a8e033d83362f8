"""The demo: stories through the real filter, with books that are kept beside it."""
