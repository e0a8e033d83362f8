"""A news-like stream with planted duplicates, in three languages.

`newsroom` writes sentences from templates. `disguises` imitates the ways a story comes back: with a
header, with an advert, with a cropped end, and so on. `stream` mixes both into an endless sequence
that a seed determines. The demo uses it, and so may measurements.
"""
