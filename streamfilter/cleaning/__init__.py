"""Removes from a text what is no part of the story: markup, quotes, addresses, numbers."""
